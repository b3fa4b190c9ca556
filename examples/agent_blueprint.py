"""An agent declared in YAML. The document wishes, the host decides."""

from typing import Any

from ai4j_agent import (
    BlueprintRefusedError,
    ModelRequest,
    ModelResponse,
    agent_from_blueprint,
    load_blueprint,
    tool,
    validate,
)

DOCUMENT = """\
version: ai4j.agent/v1
id: reviewer
model:
  provider: openai
  model: gpt-4.1-mini
instructions:
  system: You review Python code.
tools:
  - ref: read_file
    approval: always
sandbox:
  enabled: true
  provider: local
  config:
    image: py311
    apiUrl: https://sandbox.example
"""


@tool
def read_file(path: str) -> str:
    """Read a file."""
    return path


class NoModel:
    """Stands for a model client; a blueprint never brings one, nor a key."""

    def complete(self, request: ModelRequest, **options: Any) -> ModelResponse:
        raise NotImplementedError("this example never asks a model")


def attempt(text: str, **permissions: Any) -> None:
    """Try to make the agent and say what came of it."""
    try:
        agent = agent_from_blueprint(load_blueprint(text), model_client=NoModel(), tools=[read_file], **permissions)
        print("made:", agent.runner.tools.names, agent.sandbox_source.environment if agent.sandbox_source else None)
    except BlueprintRefusedError as error:
        print(f"line {error.line}, {error.code}: {error.hint}")


print(validate(load_blueprint(DOCUMENT.replace("enabled", "enable"))))
attempt(DOCUMENT)
attempt(DOCUMENT, allow_sandbox=True, sandbox_providers=["local"])
attempt(DOCUMENT.replace("    apiUrl: https://sandbox.example\n", ""), allow_sandbox=True, sandbox_providers=["local"])
