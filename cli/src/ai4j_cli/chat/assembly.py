"""From the options of ``ai4j chat`` to a chat that can begin."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ai4j_agent import (
    Agent,
    AgentConfigError,
    AgentSession,
    BlueprintError,
    ChatCompletionsClient,
    FileSessionStore,
    ModelClient,
    SandboxAttachment,
    agent_from_blueprint,
    allow_all,
    load_blueprint_file,
)
from ai4j_agent.coding import CodingAgentBuilder, CodingToolset, LocalWorkspace, coding_safe_mode
from ai4j_cli.application import Application
from ai4j_cli.attachment import lister
from ai4j_cli.rendering import console
from ai4j_cli.session_file import seal_key
from ai4j_cli.streams import is_terminal
from ai4j_sandbox import Capability, SandboxException

from .approval import Approver
from .completion import Knowledge
from .console import ChatConsole, PlainConsole
from .conversation import Chat
from .link import LiveSandbox
from .scripted import load_script

MODEL_VARIABLE = "AI4J_MODEL"
_SCRIPTED = "scripted"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """The command line of ``ai4j chat``, parsed.

    Attributes:
        script: File of a scripted model.
        directory: Where tools work without a sandbox.
        sandbox_providers: Providers whose sandbox the blueprint may have.
        approve_all: Run every tool call without asking.
        sessions: Directory that sessions are saved in.
        resume: Id of a saved session to go on with.
    """

    blueprint: str | None = None
    model: str | None = None
    script: str | None = None
    directory: Path = Path()
    sandbox_providers: tuple[str, ...] = ()
    approve_all: bool = False
    sessions: Path | None = None
    resume: str | None = None


def state_directory() -> Path:
    """Return where this program keeps what it remembers, as the XDG rules say."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "ai4j"


def chat_console(application: Application) -> ChatConsole:
    """Return the terminal if there is one on both sides that takes ANSI sequences, else plain text."""
    on_terminal = is_terminal(sys.stdin) and is_terminal(sys.stdout)
    if not on_terminal or console(sys.stdout).is_dumb_terminal:
        return PlainConsole(sys.stdin, sys.stdout, prompts=on_terminal)
    from .prompt import PromptConsole

    return PromptConsole(state_directory() / "chat-history", _knowledge(application))


def assembled(application: Application, options: ChatOptions, console: ChatConsole) -> Chat:
    """Return the chat.

    Raises:
        AgentConfigError, BlueprintError, SandboxConfigError: Something asked for cannot be meant or is not permitted.
    """
    agent = _agent(application, options, console)
    source = agent.sandbox_source
    agent = replace(agent, sandbox_source=None)  # the chat opens it itself, so that /sandbox can change it
    session = _session(agent, options.resume)
    if source is None or session.sandbox_attachment is not SandboxAttachment.NONE:
        return Chat(application, agent, session, console)
    return Chat(application, agent, session, console, lambda: LiveSandbox(sandbox=source.open(), attached=False))


def _agent(application: Application, options: ChatOptions, console: ChatConsole) -> Agent:
    guards: dict[str, Any] = {
        "permission_policy": allow_all() if options.approve_all else coding_safe_mode(),
        "approve": Approver(console),
        "session_store": FileSessionStore(options.sessions or state_directory() / "sessions"),
        "registry": application.registry,
        "seal_key": seal_key(),
    }
    client = _model_client(options)
    if options.blueprint is None:
        builder = CodingAgentBuilder(model_client=client, model=_model(options), **guards)
        return builder.workspace_root(options.directory).delegates().build()
    try:
        agent = agent_from_blueprint(
            load_blueprint_file(options.blueprint),
            model_client=client,
            tools=CodingToolset(host=LocalWorkspace(options.directory)).tools(),
            allow_sandbox=bool(options.sandbox_providers),
            sandbox_providers=options.sandbox_providers,
            **guards,
        )
    except BlueprintError as error:
        if error.code.startswith("blueprint.sandbox."):
            error.hint = "--allow-sandbox PROVIDER grants the sandbox it declares"
        raise
    return agent if options.model is None else replace(agent, model=options.model)


def _model_client(options: ChatOptions) -> ModelClient:
    return ChatCompletionsClient.from_environment() if options.script is None else load_script(options.script)


def _model(options: ChatOptions) -> str:
    named = options.model or os.environ.get(MODEL_VARIABLE, "").strip()
    if not named and options.script is None:
        raise AgentConfigError("no model is named", hint=f"give --model, set {MODEL_VARIABLE}, or use --blueprint")
    return named or _SCRIPTED


def _session(agent: Agent, resume: str | None) -> AgentSession:
    return agent.new_session() if resume is None else agent.resume_session(resume)


def _knowledge(application: Application) -> Knowledge:
    from .prompt import remembering

    def sandbox_ids(provider_id: str) -> Sequence[str]:
        try:
            return [item.session_id for item in lister(application, provider_id).list_sessions({})]
        except SandboxException:
            return ()  # completion stays silent; the command itself tells what is wrong

    registry = application.registry
    return Knowledge(
        providers=registry.ids(),
        connecting=[info.provider_id for info in registry.infos() if Capability.CONNECT in info.capabilities],
        sandbox_ids=remembering(sandbox_ids),
    )
