"""What `/sandbox` lines mean."""

from __future__ import annotations

import pytest

from ai4j_cli.chat.directive import DirectiveError, SandboxAction, SandboxDirective, parse_directive
from support.secrets import CANARY, assert_no_secret

STATUS, ENABLE, ATTACH, DISABLE = (
    SandboxAction.STATUS, SandboxAction.ENABLE, SandboxAction.ATTACH, SandboxAction.DISABLE,
)  # fmt: skip


def directive(action: SandboxAction, **attributes) -> SandboxDirective:
    return SandboxDirective(action=action, **attributes)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", directive(STATUS)),
        ("status", directive(STATUS)),
        ("STATUS", directive(STATUS)),
        ("disable", directive(DISABLE)),
        ("off", directive(DISABLE)),
        ("enable daytona", directive(ENABLE, provider_id="daytona")),
        ("create Daytona", directive(ENABLE, provider_id="Daytona")),
        ("enable cube", directive(ENABLE, provider_id="cubesandbox")),
        (
            "enable daytona --workspace ws --image img --delete-on-close --no-create-if-missing",
            directive(
                ENABLE,
                provider_id="daytona",
                workspace="ws",
                image="img",
                delete_on_close=True,
                create_if_missing=False,
            ),
        ),
        (
            "enable daytona --sandbox-name ws --sandbox-id id --snapshot img --keep-on-close --create-if-missing",
            directive(
                ENABLE,
                provider_id="daytona",
                workspace="ws",
                sandbox_id="id",
                image="img",
                delete_on_close=False,
                create_if_missing=True,
            ),
        ),
        ("attach daytona id", directive(ATTACH, provider_id="daytona", sandbox_id="id")),
        ("attach CUBE id", directive(ATTACH, provider_id="cubesandbox", sandbox_id="id")),
        (
            "attach daytona id --create-if-missing",
            directive(ATTACH, provider_id="daytona", sandbox_id="id", create_if_missing=True),
        ),
        ("attach cube id /w", directive(ATTACH, provider_id="cubesandbox", sandbox_id="id", workspace="/w")),
        (
            "attach cube id --workspace /w",
            directive(ATTACH, provider_id="cubesandbox", sandbox_id="id", workspace="/w"),
        ),
        (
            "attach cube id --workspace=/w",
            directive(ATTACH, provider_id="cubesandbox", sandbox_id="id", workspace="/w"),
        ),
        (
            "attach cube id /w --WORKSPACE /w",
            directive(ATTACH, provider_id="cubesandbox", sandbox_id="id", workspace="/w"),
        ),
        (
            r"attach cube id C:\tmp\x",
            directive(ATTACH, provider_id="cubesandbox", sandbox_id="id", workspace=r"C:\tmp\x"),
        ),
        ("enable e2b --image 'my image'", directive(ENABLE, provider_id="e2b", image="my image")),
        ("enable e2b --image a --image=b", directive(ENABLE, provider_id="e2b", image="b")),
        ("enable e2b --delete-on-close=false", directive(ENABLE, provider_id="e2b", delete_on_close=False)),
        ("enable e2b --keep-on-close=true", directive(ENABLE, provider_id="e2b", delete_on_close=False)),
        (
            "enable local --config network=false --config=maxProcesses=64",
            directive(ENABLE, provider_id="local", settings={"network": "false", "maxProcesses": "64"}),
        ),
        ("artifacts", directive(SandboxAction.ARTIFACTS)),
        ("artifacts *.xml 'a b'", directive(SandboxAction.ARTIFACTS, patterns=("*.xml", "a b"))),
        ("logs", directive(SandboxAction.LOGS)),
        ("logs 5", directive(SandboxAction.LOGS, lines=5)),
    ],
)
def test_a_line_is_understood(line, expected):
    assert parse_directive(line) == expected


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("status now", "Usage: /sandbox status"),
        ("disable cube", "Usage: /sandbox disable"),
        ("explode", "Unknown /sandbox action: explode"),
        ("enable", "Usage: /sandbox enable <provider>"),
        ("enable --workspace foo", "Usage: /sandbox enable <provider>"),
        ("enable ''", "Usage: /sandbox enable <provider>"),
        ("attach daytona", "Usage: /sandbox attach <provider> <id>"),
        ("attach daytona --workspace", "Usage: /sandbox attach <provider> <id>"),
        ("enable e2b --image", "Missing value for --image"),
        ("enable e2b --image --delete-on-close", "Missing value for --image"),
        ('enable e2b --workspace "" foo', "Missing value for --workspace"),
        ("enable e2b --workspace=", "Missing value for --workspace"),
        ("enable e2b --delete-on-close=maybe", "--delete-on-close takes no value, or true or false"),
        ("enable e2b --config x", "KEY=VALUE"),
        ("attach cube id /w --workspace /v", "the workspace is given twice, differently"),
        ("attach cube id ''", "the workspace must not be empty"),
        (
            "enable e2b --nonsense",
            "Unknown /sandbox option: --nonsense. Credentials must come from environment or local",
        ),
        ("enable e2b more", "A word too many"),
        ("attach cube id w more", "A word too many"),
        ("attach cube 'id", "is not closed"),
        ("logs many", "Usage: /sandbox logs"),
        ("logs 0", "Usage: /sandbox logs"),
    ],
)
def test_a_line_that_cannot_be_meant_is_refused(line, problem):
    with pytest.raises(DirectiveError) as refused:
        parse_directive(line)

    assert problem in str(refused.value)


@pytest.mark.parametrize(
    "line",
    [
        f"enable e2b --api-key {CANARY}",
        f"enable e2b --api-key={CANARY}",
        f"enable e2b {CANARY}",
        f"enable e2b --{CANARY}",
        f"attach cube id w {CANARY}",
        f"{CANARY}",
        f"status {CANARY}",
        f"enable e2b --delete-on-close={CANARY}",
        f"enable e2b --config {CANARY}",
        f"attach cube id '{CANARY}",
    ],
)
def test_a_credential_is_refused_without_being_repeated(line):
    with pytest.raises(DirectiveError) as refused:
        parse_directive(line)

    assert_no_secret(str(refused.value))


def test_settings_are_not_part_of_a_repr():
    assert_no_secret(repr(parse_directive(f"enable e2b --config x={CANARY}")))


@pytest.mark.parametrize(
    "line",
    [
        "attach cube https://me:hunter22@example.org/x",
        "attach https://me:hunter22@example.org x",
        "attach cube id https://me:hunter22@example.org/w",
        "enable e2b --image https://me:hunter22@example.org/i",
        "enable e2b --config templateId=https://me:hunter22@example.org/t",
        "artifacts https://me:hunter22@example.org/*",
    ],
)
def test_a_credential_in_any_word_is_refused_and_not_repeated(line):
    with pytest.raises(DirectiveError) as caught:
        parse_directive(line)

    assert "Credentials must come from environment or local config" in str(caught.value)
    assert "hunter22" not in str(caught.value)
