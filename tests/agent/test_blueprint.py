from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from ai4j_agent import (
    Agent,
    AgentApprovalRequiredError,
    AgentBlueprint,
    AgentLimits,
    BlueprintLoadError,
    BlueprintRefusedError,
    BlueprintSeverity,
    CodeActWorkflow,
    ReactWorkflow,
    ToolContext,
    ToolPlacement,
    Workflow,
    agent_from_blueprint,
    allow_all,
    load_blueprint,
    load_blueprint_file,
    tool,
    validate,
)
from ai4j_sandbox import RedactionPolicy, SandboxCommand, SandboxRegistry, SandboxSpec
from ai4j_sandbox.testing import FakeProvider
from support.scripted_model import ScriptedModel, call
from support.secrets import CANARY, assert_no_secret, everything_said

MINIMAL = """\
version: ai4j.agent/v1
id: reviewer
model:
  provider: openai
  model: m-1
workflow:
  mode: react
"""

ROADMAP = """\
version: ai4j.agent/v1
id: coding-assistant
name: Coding Assistant
model:
  provider: openai-compatible
  profile: default
  model: m-1
  options:
    temperature: 0.2
instructions:
  system: |
    You are careful.
  developer: Prefer small changes.
  variables:
    language: en
plugins:
  - id: ask-user
  - id: todo
    enabled: true
    config:
      limit: 20
tools:
  - ref: coding.file
  - ref: coding.shell
    approval: safe
    config:
      timeoutSeconds: 60
session:
  memory:
    enabled: true
    scope: project
  compact:
    enabled: true
    trigger:
      contextRatio: 0.75
    strategy: structured-summary
    preserve: [instructions, test_results]
sandbox:
  enabled: false
workflow:
  mode: react
  maxTurns: 20
"""


def with_sandbox(section: str) -> AgentBlueprint:
    return load_blueprint(f"{MINIMAL}sandbox:\n{section}")


SANDBOX = """\
  enabled: true
  provider: fake
  profile: default
  config:
    image: py311
    workspaceId: task-1
    labels: {team: core}
    deleteOnClose: true
"""


def codes(text: str) -> list[tuple[str, str, int | None]]:
    return [(issue.code, issue.path, issue.line) for issue in validate(load_blueprint(text)).issues]


# --- loading ----------------------------------------------------------------------------------------------------------


def test_a_minimal_blueprint_is_valid_without_warnings() -> None:
    assert codes(MINIMAL) == []


def test_a_full_blueprint_is_valid_and_read_completely() -> None:
    blueprint = load_blueprint(ROADMAP)

    assert codes(ROADMAP) == []
    assert (blueprint.id, blueprint.name) == ("coding-assistant", "Coding Assistant")
    assert blueprint.instructions is not None
    assert blueprint.instructions.system == "You are careful.\n"
    assert [item.ref for item in blueprint.tools] == ["coding.file", "coding.shell"]
    assert blueprint.session is not None
    assert blueprint.session.compact is not None
    assert (blueprint.session.compact.context_ratio, blueprint.session.compact.preserve) == (
        0.75,
        ("instructions", "test_results"),
    )
    assert blueprint.sandbox_spec() is None


def test_a_blueprint_is_read_from_a_file_and_a_stream(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(MINIMAL)

    assert load_blueprint_file(path) == load_blueprint(io.BytesIO(MINIMAL.encode())) == load_blueprint(MINIMAL)


@pytest.mark.parametrize(
    ("text", "code", "said", "line"),
    [
        (None, "blueprint.yaml.required", "required", None),
        ("", "blueprint.document.required", "empty", None),
        ("# only a comment", "blueprint.document.required", "empty", None),
        ("a: [", "blueprint.yaml.invalid", "Invalid Agent Blueprint YAML: line", 1),
        ("a: 1\na: 2", "blueprint.yaml.invalid", "duplicate key 'a'", 2),
        ("a: &x [*x]", "blueprint.yaml.invalid", "contains itself", 1),
        ("a: *nobody", "blueprint.yaml.invalid", "undefined alias", 1),
        ("a: 1\n---\nb: 2", "blueprint.yaml.invalid", "expected a single document", 2),
        ("a: !!python/object/apply:os.system [x]", "blueprint.yaml.invalid", "unsupported", 1),
        ("a: !!binary aGk=", "blueprint.yaml.invalid", "unsupported tag", 1),
        ("a: 1\nb: !!bool maybe", "blueprint.yaml.invalid", "line 2: a value that is no bool", 2),
        ("a: !!int many", "blueprint.yaml.invalid", "a value that is no int", 1),
        ("<<: {a: 1}", "blueprint.yaml.invalid", "merge keys are not supported", 1),
        ("1: x", "blueprint.type.key", "$ contains a non-string key", 1),
        ("[1]", "blueprint.type.map", "$ must be a map", 1),
        ("sandbox: yes please", "blueprint.type.map", "$.sandbox must be a map", 1),
        ("sandbox:\n  config: 3", "blueprint.type.map", "$.sandbox.config must be a map", 2),
        ("sandbox:\n  enabled: maybe", "blueprint.type.boolean", "$.sandbox.enabled must be a boolean", 2),
        ("sandbox:\n  provider: [local]", "blueprint.type.string", "$.sandbox.provider must be text", 2),
        ("tools: {}", "blueprint.type.list", "$.tools must be a list", 1),
        ("workflow:\n  maxTurns: 1.5", "blueprint.type.integer", "$.workflow.maxTurns must be an integer", 2),
        (
            "session:\n  compact:\n    trigger:\n      contextRatio: lots",
            "blueprint.type.number",
            "$.session.compact.trigger.contextRatio must be a number",
            4,
        ),
    ],
)
def test_what_is_no_blueprint_is_refused_with_code_and_line(
    text: str | None, code: str, said: str, line: int | None
) -> None:
    with pytest.raises(BlueprintLoadError) as caught:
        load_blueprint(text)

    assert (caught.value.code, caught.value.line) == (code, line)
    assert said in str(caught.value)


def test_a_document_that_unfolds_without_end_is_refused() -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdef", "bcdefg", strict=True)
    )

    with pytest.raises(BlueprintLoadError, match="values"):
        load_blueprint(bomb)


def test_a_document_whose_long_text_unfolds_again_and_again_is_refused() -> None:
    bomb = f"a: &a {'x' * 100_000}\nb: [{','.join(['*a'] * 1000)}]\n"

    with pytest.raises(BlueprintLoadError, match="line 1: unfolds to more than 262144 characters"):
        load_blueprint(bomb)


@pytest.mark.parametrize("text", ["[" * 2_000, "a: " * 2_000, "x" * 300_000])
def test_a_document_too_deep_or_too_long_is_refused(text: str) -> None:
    with pytest.raises(BlueprintLoadError, match="Invalid Agent Blueprint YAML"):
        load_blueprint(text)


def test_what_is_wrong_with_a_file_is_told_without_its_path(tmp_path: Path) -> None:
    path = tmp_path / "private-name.yaml"
    path.write_text("a: [")

    with pytest.raises(BlueprintLoadError, match="Invalid Agent Blueprint YAML: line 1") as caught:
        load_blueprint_file(path)

    assert caught.value.code == "blueprint.yaml.invalid"
    assert "\n" not in caught.value.message
    assert "private-name" not in everything_said(caught.value).replace("load_blueprint_file(path)", "")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("agent.yaml", "file agent.yaml: No such file or directory"),
        ("a\0gent.yaml", "file a\\x00gent.yaml: ValueError"),
        ("", "file {name}: Is a directory"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_by_its_name_without_its_directory(
    tmp_path: Path, name: str, said: str
) -> None:
    with pytest.raises(BlueprintLoadError) as caught:
        load_blueprint_file(tmp_path / name)

    assert (caught.value.code, caught.value.message) == (
        "blueprint.io",
        f"Unable to read Agent Blueprint {said.format(name=tmp_path.name)}",
    )
    assert str(tmp_path.parent) not in f"{caught.value!r}"


def test_no_path_at_all_is_told() -> None:
    with pytest.raises(BlueprintLoadError, match="path is required"):
        load_blueprint_file(None)


def test_no_more_of_an_endless_file_is_read_than_a_blueprint_may_have() -> None:
    class Endless(io.RawIOBase):
        asked = 0

        def read(self, size: int = -1) -> bytes:
            assert size >= 0
            self.asked += size
            return b"x" * size

    stream = Endless()

    with pytest.raises(BlueprintLoadError, match="longer than 262144 characters"):
        load_blueprint(stream)  # type: ignore[arg-type]  # all that is used of a file is `read`

    assert stream.asked == 4 * 262_144 + 1


def test_a_document_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(BlueprintLoadError, match="not UTF-8"):
        load_blueprint(io.BytesIO(b"id: \xff"))


def test_scalars_become_text_and_dates_stay_as_written() -> None:
    blueprint = load_blueprint("id: 123\nname: 2024-01-02\nextensions: {since: 2024-01-02}")

    assert (blueprint.id, blueprint.name, blueprint.extensions) == ("123", "2024-01-02", {"since": "2024-01-02"})


# --- validation -------------------------------------------------------------------------------------------------------


def test_what_is_missing_is_named() -> None:
    assert [code for code, _, _ in codes("name: x\nplugins: [{}]\ntools: [{}]")] == [
        "blueprint.version.required",
        "blueprint.id.required",
        "blueprint.model.required",
        "blueprint.plugin.id.required",
        "blueprint.tool.ref.required",
    ]


@pytest.mark.parametrize(
    ("change", "to", "issue"),
    [
        ("ai4j.agent/v1", "ai4j.agent/v2", ("blueprint.version.unsupported", "$.version", 1)),
        ("reviewer", "not an id", ("blueprint.id.invalid", "$.id", 2)),
        ("  provider: openai\n", "", ("blueprint.model.provider.required", "$.model.provider", 3)),
        ("  model: m-1\n", "", ("blueprint.model.selector.required", "$.model.model", 3)),
        ("mode: react", "mode: swim", ("blueprint.workflow.mode.invalid", "$.workflow.mode", 7)),
        ("mode: react", "maxTurns: 0", ("blueprint.workflow.maxTurns.invalid", "$.workflow.maxTurns", 7)),
        (
            "workflow:\n  mode: react",
            "session: {compact: {trigger: {contextRatio: 1.5}}}",
            ("blueprint.compact.contextRatio.invalid", "$.session.compact.trigger.contextRatio", 6),
        ),
        (
            "workflow:\n  mode: react",
            "session: {compact: {trigger: {maxTurns: -1}}}",
            ("blueprint.compact.maxTurns.invalid", "$.session.compact.trigger.maxTurns", 6),
        ),
    ],
)
def test_what_is_wrong_has_a_code_a_path_and_a_line(change: str, to: str, issue: tuple[str, str, int]) -> None:
    text = MINIMAL.replace(change, to)

    assert codes(text) == [issue]
    assert not validate(load_blueprint(text)).valid


def test_no_blueprint_at_all_is_an_error() -> None:
    assert validate(None).codes == ("blueprint.required",)


def test_what_is_odd_is_a_warning_and_still_valid() -> None:
    text = f"{MINIMAL}colour: red\nsession: {{memory: {{enabled: true}}}}\n"

    report = validate(load_blueprint(text))

    assert report.valid
    assert [issue.code for issue in report.warnings] == [
        "blueprint.memory.scope.warning",
        "blueprint.field.unknown",
    ]


@pytest.mark.parametrize(
    ("approval", "said"),
    [
        ("alwyas", "unknown value 'alwyas'; did you mean 'always'? known are always, safe, never, manual, auto, deny"),
        ("ask", "unknown value 'ask'; known are"),
        ("true", "unknown value 'true'"),
        ("on", "unknown value 'true'"),
        ("no", "unknown value 'false'"),
        ("1", "unknown value '1'"),
    ],
)
def test_an_approval_nobody_knows_is_an_error_because_it_would_ask_nobody(approval: str, said: str) -> None:
    (issue,) = validate(load_blueprint(f"{MINIMAL}tools: [{{ref: read_file, approval: {approval}}}]\n")).errors

    assert (issue.code, issue.path, issue.line) == ("blueprint.tool.approval.unknown", "$.tools[0].approval", 8)
    assert said in issue.message


@pytest.mark.parametrize("approval", ["[always]", "{always: true}"])
def test_an_approval_that_is_no_word_is_refused(approval: str) -> None:
    with pytest.raises(BlueprintLoadError, match=r"\$.tools\[0\].approval must be text") as caught:
        load_blueprint(f"{MINIMAL}tools: [{{ref: read_file, approval: {approval}}}]\n")

    assert caught.value.code == "blueprint.type.string"


@pytest.mark.parametrize("approval", ["ALWAYS", "Always", "' always '"])
def test_an_approval_counts_in_any_case(approval: str) -> None:
    model = ScriptedModel(call("read_file", path="x"), "ok")
    blueprint = load_blueprint(f"{MINIMAL}tools: [{{ref: read_file, approval: {approval}}}]\n")

    make(blueprint, model, approve=lambda request, decision: False).run("go")

    assert "not approved" in model.heard[0]


@pytest.mark.parametrize(
    ("section", "path", "meant"),
    [
        ("tools: [{ref: x, aproval: always}]", "$.tools[0].aproval", "approval"),
        ("sandbx: {enabled: true, provider: local}", "$.sandbx", "sandbox"),
        ("workflw: {maxTurns: 3}", "$.workflw", "workflow"),
        ("SANDBOX: {enabled: true, provider: local}", "$.SANDBOX", "sandbox"),
        ("'sandbox ': {enabled: true, provider: local}", "$.sandbox ", "sandbox"),
        ("WorkFlow: {maxTurns: 3}", "$.WorkFlow", "workflow"),
        (
            "\uff53\uff41\uff4e\uff44\uff42\uff4f\uff58: {enabled: true}",
            "$.\uff53\uff41\uff4e\uff44\uff42\uff4f\uff58",
            "sandbox",
        ),
        ("\u0455\u0430nd\u0431\u043e\u0445: {enabled: true}", "$.\u0455\u0430nd\u0431\u043e\u0445", "sandbox"),
    ],
)
def test_a_misspelt_restriction_is_an_error_because_it_would_not_count(section: str, path: str, meant: str) -> None:
    (issue,) = validate(load_blueprint(f"{MINIMAL}{section}\n")).errors

    assert (issue.code, issue.path) == ("blueprint.field.unknown", path)
    assert f"did you mean {meant!r}?" in issue.message


def test_a_misspelt_limit_is_an_error() -> None:
    report = validate(load_blueprint(MINIMAL.replace("mode: react", "maxTurn: 3")))

    assert [(issue.code, issue.path) for issue in report.errors] == [("blueprint.field.unknown", "$.workflow.maxTurn")]


def test_an_unknown_key_names_the_nearest_known_one() -> None:
    report = validate(load_blueprint(MINIMAL.replace("workflow", "workflw")))

    assert "did you mean 'workflow'?" in str(report)
    assert "line 6, $.workflw" in str(report)


def test_a_typo_within_sandbox_is_an_error_because_it_would_mean_no_sandbox() -> None:
    report = validate(with_sandbox("  enable: true\n  provider: fake\n"))

    (issue,) = report.errors
    assert (issue.code, issue.path, issue.line) == ("blueprint.field.unknown", "$.sandbox.enable", 9)
    assert "did you mean 'enabled'?" in issue.message


def test_an_enabled_sandbox_needs_a_provider_or_a_profile() -> None:
    report = validate(with_sandbox("  enabled: true\n"))

    assert [(issue.code, issue.path, issue.line) for issue in report.errors] == [
        ("blueprint.sandbox.selector.required", "$.sandbox", 8)
    ]
    assert validate(with_sandbox("  enabled: true\n  profile: p\n")).valid
    assert validate(with_sandbox("  enabled: false\n")).valid


@pytest.mark.parametrize("section", ["sandbox:\n", "sandbox: {}\n", "sandbox: {provider: local}\n"])
def test_a_sandbox_that_is_declared_but_not_enabled_is_a_warning(section: str) -> None:
    report = validate(load_blueprint(MINIMAL + section))

    assert [(issue.severity, issue.code, issue.path, issue.line) for issue in report.issues] == [
        (BlueprintSeverity.WARNING, "blueprint.sandbox.enabled.missing", "$.sandbox", 8)
    ]


def test_a_report_shows_no_control_character_of_a_key() -> None:
    report = validate(load_blueprint(f'{MINIMAL}"a\\e[2Jb\\nERROR [forged]": 1\n'))

    assert str(report) == ("WARNING [blueprint.field.unknown] line 8, $.a\\x1b[2Jb\\nERROR [forged]: unknown field")


@pytest.mark.parametrize("number", ["1" + ":1" * 100_000, "0x" + "f" * 1000, "9" * 1000, "1" + ":1" * 1000 + ".5"])
def test_a_number_without_end_is_refused_before_it_is_reckoned(number: str) -> None:
    with pytest.raises(BlueprintLoadError, match="line 1: a number longer than 100 characters"):
        load_blueprint(f"extensions: {{a: {number}}}\n")


# --- secrets and addresses --------------------------------------------------------------------------------------------

SECRETS = [
    ("sandbox:\n  enabled: true\n  provider: fake\n  config:\n    apiKey: {0}\n", "$.sandbox.config.apiKey"),
    ("sandbox:\n  provider: x\n  config:\n    env: {{A_TOKEN: {0}}}\n", "$.sandbox.config.env.A_TOKEN"),
    (
        "sandbox:\n  provider: x\n  config:\n    labels: {{note: 'https://u:{0}@host'}}\n",
        "$.sandbox.config.labels.note",
    ),
    ("tools: [{{ref: x, config: {{list: [{{password: {0}}}]}}}}]\n", "$.tools[0].config.list[0].password"),
    ("extensions: {{a: {{cookie: {0}}}}}\n", "$.extensions.a.cookie"),
    ("instructions: {{system: 'use Bearer {0} please'}}\n", "$.instructions.system"),
    ("name: 'https://u:{0}@host'\n", "$.name"),
    ("session: {{memory: {{store: 'postgres://u:{0}@host/db'}}}}\n", "$.session.memory.store"),
    ("session: {{memory: {{apiKey: {0}}}}}\n", "$.session.memory.apiKey"),
    ("session: {{compact: {{preserve: ['https://u:{0}@host']}}}}\n", "$.session.compact.preserve[0]"),
    ("plugins: [{{id: x, token: {0}}}]\n", "$.plugins[0].token"),
    ("metadata: {{token: {0}}}\n", "$.metadata.token"),
    ("headers: [{{Authorization: {0}}}]\n", "$.headers[0].Authorization"),
    ("apiKey: {0}\n", "$.apiKey"),
    ("hooks: {{call: ['curl https://u:{0}@host']}}\n", "$.hooks.call[0]"),
    ("extensions: {{pwd: {0}}}\n", "$.extensions.pwd"),
    ("extensions: {{dbPass: {0}}}\n", "$.extensions.dbPass"),
    ("extensions: {{ssh_passphrase: {0}}}\n", "$.extensions.ssh_passphrase"),
    ("extensions: {{auth: {0}}}\n", "$.extensions.auth"),
    ("extensions: {{environment: ['DB_PASSWORD={0}']}}\n", "$.extensions.environment[0]"),
]


@pytest.mark.parametrize(("section", "path"), SECRETS)
def test_a_secret_in_the_document_is_refused_and_never_shown(section: str, path: str) -> None:
    blueprint = load_blueprint(MINIMAL + section.format(CANARY))

    report = validate(blueprint)
    with pytest.raises(BlueprintRefusedError) as caught:
        make(blueprint, allow_sandbox=True, sandbox_providers=["fake"])

    (issue,) = report.errors
    assert issue.path == path
    assert issue.code == ("blueprint.sandbox.config.secret" if "sandbox" in section else "blueprint.secret")
    assert issue.line is not None
    assert_no_secret(str(report), repr(report), repr(blueprint), everything_said(caught.value))


@pytest.mark.parametrize(
    ("setting", "path"),
    [
        ("password: 83472938", "$.extensions.password"),
        ("password: '83472938'", "$.extensions.password"),
        ("secrets: [1, true]", "$.extensions.secrets[0]"),
        ("token: 8347.2938", "$.extensions.token"),
        ("environment: [DB_PASSWORD=83472938]", "$.extensions.environment[0]"),
    ],
)
def test_a_number_under_a_name_kept_for_secrets_is_refused(setting: str, path: str) -> None:
    report = validate(load_blueprint(f"{MINIMAL}extensions: {{{setting}}}\n"))

    assert [(issue.code, issue.path) for issue in report.issues] == [("blueprint.secret", path)]
    assert_no_secret(repr(report), secret="83472938")


def test_what_only_resembles_a_secret_is_accepted() -> None:
    honest = "max_tokens: 4096, passThrough: all, compass: north, author: me, secret: null, usePassword: true"
    listed = "environment: [MAX_TOKENS=4096, LANG=C, 'a = b'], bypass: x, oauthMode: none"

    assert codes(f"{MINIMAL}extensions: {{{honest}, {listed}}}\n") == []


def test_an_address_with_a_password_is_refused_without_showing_it() -> None:
    blueprint = with_sandbox(f"  enabled: true\n  provider: fake\n  config:\n    domain: 'u:{CANARY}@h'\n")

    with pytest.raises(BlueprintRefusedError, match="names an unreadable address") as caught:
        blueprint.sandbox_spec(allowed_origins=["an unreadable address"])

    assert_no_secret(everything_said(caught.value), str(validate(blueprint)))


def test_a_secret_in_the_model_section_is_refused() -> None:
    blueprint = load_blueprint(MINIMAL.replace("  model: m-1\n", f"  model: m-1\n  apiKey: {CANARY}\n"))

    (issue,) = validate(blueprint).errors
    assert (issue.code, issue.path) == ("blueprint.secret", "$.model.apiKey")
    with pytest.raises(BlueprintRefusedError, match="not valid") as caught:
        make(blueprint)
    assert_no_secret(everything_said(caught.value), repr(blueprint))


@pytest.mark.parametrize("section", ["{0}: 1\n", "extensions: {{{0}: 1}}\n"])
def test_a_key_that_looks_like_a_secret_is_refused_and_never_shown(section: str) -> None:
    token = "ghp_" + "a1B2" * 9
    report = validate(load_blueprint(MINIMAL + section.format(token)))

    assert [issue.code for issue in report.errors] == ["blueprint.secret"]
    assert token not in f"{report} {report!r}"


def test_a_secret_never_gets_into_a_spec() -> None:
    blueprint = with_sandbox(f"  enabled: true\n  provider: fake\n  config:\n    apiKey: {CANARY}\n")

    with pytest.raises(BlueprintRefusedError) as caught:
        blueprint.sandbox_spec()

    assert caught.value.line == 12
    assert_no_secret(everything_said(caught.value))


def test_a_name_that_only_looks_sensitive_can_be_allowed_by_the_host() -> None:
    blueprint = load_blueprint(f"{MINIMAL}extensions: {{keyboard: qwerty, max_tokens: 4096}}\n")

    assert validate(blueprint).codes == ("blueprint.secret",)
    assert validate(blueprint, policy=RedactionPolicy(allowed_names=frozenset(("keyboard",)))).valid


@pytest.mark.parametrize(
    ("setting", "origin"),
    [
        ("apiUrl: https://evil.example/api", "https://evil.example"),
        ("baseUrl: HTTPS://EVIL.example:8443", "https://evil.example:8443"),
        ("apiDomain: evil.example", "evil.example"),
        ("sandboxDomain: evil.example", "evil.example"),
        ("anything: http://evil.example", "http://evil.example"),
        ("a: {baseUrl: evil.example}", "evil.example"),
        ("a: ['https://evil.example/x']", "https://evil.example"),
        ("a: [{b: {c: 'https://evil.example'}}]", "https://evil.example"),
        ("a: {'https://evil.example': 1}", "https://evil.example"),
    ],
)
def test_an_address_in_the_document_is_refused_unless_the_host_allows_it(setting: str, origin: str) -> None:
    blueprint = with_sandbox(f"  enabled: true\n  provider: fake\n  config:\n    {setting}\n")

    with pytest.raises(BlueprintRefusedError, match="could then be sent the host's credential") as caught:
        blueprint.sandbox_spec()

    assert (caught.value.code, caught.value.line) == ("blueprint.sandbox.address.refused", 12)
    assert [issue.severity for issue in validate(blueprint).issues] == [BlueprintSeverity.WARNING]
    spec = blueprint.sandbox_spec(allowed_origins=[origin])
    assert spec is not None
    assert len(spec.config) == 1


# --- the agent --------------------------------------------------------------------------------------------------------


@tool
def read_file(path: str) -> str:
    """Read."""
    return path


@tool(placement=ToolPlacement.SESSION)
def bash(context: ToolContext, command: str) -> str:
    """Run."""
    return context.execute(SandboxCommand(command=command)).stdout


def make(blueprint: AgentBlueprint, model: Any = None, **options: Any) -> Agent:
    options.setdefault("tools", [read_file, bash])
    return agent_from_blueprint(blueprint, model_client=model or ScriptedModel("ok"), **options)


def test_a_sandbox_section_becomes_a_spec() -> None:
    assert with_sandbox(SANDBOX).sandbox_spec() == SandboxSpec(
        provider_id="fake",
        profile="default",
        image="py311",
        workspace_id="task-1",
        labels={"team": "core"},
        config={"deleteOnClose": True},
    )


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("image: 5", "$.sandbox: spec.image must be text, got int"),
        ("labels: [a]", "$.sandbox: spec.labels must be a mapping, got list"),
        ("labels: {a: 1}", "$.sandbox: spec.labels['a'] must be text, got int"),
    ],
)
def test_a_setting_no_spec_can_hold_is_refused_with_its_line(setting: str, said: str) -> None:
    blueprint = with_sandbox(f"  enabled: true\n  provider: fake\n  config: {{{setting}}}\n")

    with pytest.raises(BlueprintRefusedError) as caught:
        blueprint.sandbox_spec()

    assert (caught.value.code, caught.value.message, caught.value.line) == (
        "blueprint.sandbox.config.invalid",
        said,
        8,
    )


def test_a_declared_sandbox_is_refused_unless_the_host_allows_it() -> None:
    with pytest.raises(BlueprintRefusedError, match="does not create sandbox") as caught:
        make(with_sandbox(SANDBOX))

    assert (caught.value.code, caught.value.line) == ("blueprint.sandbox.unsupported", 8)


@pytest.mark.parametrize("permitted", [[], ["e2b", "local"]])
def test_a_provider_the_host_does_not_permit_is_refused(permitted: list[str]) -> None:
    with pytest.raises(BlueprintRefusedError) as caught:
        make(with_sandbox(SANDBOX), allow_sandbox=True, sandbox_providers=permitted)

    assert caught.value.code == "blueprint.sandbox.provider.refused"


def test_a_permitted_sandbox_is_made_by_the_session_that_needs_it_and_not_before() -> None:
    provider, registry = FakeProvider({"ls": "a.txt"}), SandboxRegistry(path=[])
    registry.register(provider)
    model = ScriptedModel(call("bash", command="ls"), "done")
    blueprint = load_blueprint(f"{MINIMAL}tools: [{{ref: bash}}]\nsandbox:\n{SANDBOX}")
    one = make(blueprint, model, allow_sandbox=True, sandbox_providers=["Fake"], registry=registry,
               permission_policy=allow_all())  # fmt: skip
    before = dict(provider.sandboxes)

    one.run("go")

    assert (before, model.heard) == ({}, ["a.txt"])
    assert [sandbox.spec.image for sandbox in provider.sandboxes.values()] == ["py311"]


def test_what_is_not_valid_is_refused_first_with_its_report() -> None:
    with pytest.raises(BlueprintRefusedError) as caught:
        agent_from_blueprint(load_blueprint("id: x"), model_client=None)

    assert caught.value.code == "blueprint.validation.failed"
    assert caught.value.report is not None
    assert caught.value.report.codes == ("blueprint.version.required", "blueprint.model.required")


def test_the_host_must_bring_the_model_client() -> None:
    with pytest.raises(BlueprintRefusedError, match="does not read provider tokens") as caught:
        agent_from_blueprint(load_blueprint(MINIMAL), model_client=None)

    assert caught.value.code == "blueprint.modelClient.required"


def test_a_profile_alone_is_not_resolved() -> None:
    with pytest.raises(BlueprintRefusedError, match="profile is host metadata only") as caught:
        make(load_blueprint(MINIMAL.replace("model: m-1", "profile: p")))

    assert caught.value.code == "blueprint.model.model.requiredForFactory"


@pytest.mark.parametrize(
    ("mode", "workflow"),
    [("mode: react", ReactWorkflow()), ("mode: codeact", CodeActWorkflow()), ("maxTurns: 3", ReactWorkflow())],
)
def test_the_mode_chooses_the_workflow(mode: str, workflow: Workflow) -> None:
    assert make(load_blueprint(MINIMAL.replace("mode: react", mode))).workflow == workflow


def test_the_programs_of_a_codeact_blueprint_need_approval_and_a_sandbox_like_any_tool() -> None:
    model = ScriptedModel("<execute>\nprint(1)\n</execute>", "then not")
    blueprint = load_blueprint(MINIMAL.replace("mode: react", "mode: codeact"))

    with pytest.raises(AgentApprovalRequiredError):
        make(blueprint, model).run("go")
    again = ScriptedModel("<execute>\nprint(1)\n</execute>", "then not")
    make(blueprint, again, permission_policy=allow_all()).run("go")

    assert "needs a sandbox" in again.requests[-1].messages[-1].text


def test_prompts_options_and_limits_reach_the_model() -> None:
    model = ScriptedModel("ok")
    options = "{temperature: '0.5', topP: 1, maxOutputTokens: 100, parallelToolCalls: 'true', toolChoice: auto}"
    text = ROADMAP.replace("options:\n    temperature: 0.2", f"options: {options}")
    tools = {"coding.file": read_file, "coding.shell": [bash]}

    one = make(load_blueprint(text), model, tools=tools)
    one.run("hi")

    request = model.requests[0]
    assert request.options == {
        "temperature": 0.5,
        "top_p": 1.0,
        "max_tokens": 100,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
    }
    assert [message.text for message in request.messages] == ["You are careful.\n", "Prefer small changes.", "hi"]
    assert one.limits == AgentLimits(max_steps=20)
    assert [item.name for item in request.tools] == ["read_file", "bash"]


@pytest.mark.parametrize(
    ("option", "code"),
    [
        ("temperature: hot", "blueprint.option.number.invalid"),
        ("maxOutputTokens: 1.5", "blueprint.option.integer.invalid"),
        ("parallelToolCalls: 1", "blueprint.option.boolean.invalid"),
    ],
)
def test_an_option_of_the_wrong_type_is_refused(option: str, code: str) -> None:
    text = MINIMAL.replace("  model: m-1\n", f"  model: m-1\n  options:\n    {option}\n")

    with pytest.raises(BlueprintRefusedError) as caught:
        make(load_blueprint(text))

    assert (caught.value.code, caught.value.line) == (code, 7)


def test_a_blueprint_gets_only_the_tools_it_names_of_those_the_host_offers() -> None:
    one = make(load_blueprint(f"{MINIMAL}tools: [{{ref: read_file}}]\n"))
    assert one.runner.tools.names == ("read_file",)
    assert make(load_blueprint(MINIMAL)).runner.tools.names == ()

    with pytest.raises(BlueprintRefusedError, match="offers no tool 'fly'") as caught:
        make(load_blueprint(f"{MINIMAL}tools: [{{ref: fly}}]\n"))
    assert caught.value.code == "blueprint.tool.unknown"


@pytest.mark.parametrize(
    ("approval", "said"),
    [("deny", "denied by the blueprint"), ("always", "not approved"), ("manual", "not approved"), ("never", "x")],
)
def test_a_blueprint_can_only_be_stricter_than_the_host(approval: str, said: str) -> None:
    model = ScriptedModel(call("read_file", path="x"), "ok")
    blueprint = load_blueprint(f"{MINIMAL}tools: [{{ref: read_file, approval: {approval}}}]\n")

    make(blueprint, model, approve=lambda request, decision: False).run("go")

    assert said in model.heard[0]


def test_a_blueprint_cannot_lift_the_hosts_policy() -> None:
    model = ScriptedModel(call("bash", command="x"), "ok")
    blueprint = load_blueprint(f"{MINIMAL}tools: [{{ref: bash, approval: never}}]\n")

    make(blueprint, model, approve=lambda request, decision: False).run("go")

    assert "not approved" in model.heard[0]
