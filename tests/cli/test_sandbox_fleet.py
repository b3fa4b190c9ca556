"""`ai4j sandbox ls`, `info`, `rm` and `cleanup` over providers that only play."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from ai4j_cli.fleet import span, split_by_age
from ai4j_sandbox import SandboxAuthError, SandboxCleanupError, SandboxSpec, SandboxStatus, SandboxSummary
from ai4j_sandbox.testing import FakeProvider
from ai4j_sandbox.testing.fake import FAKE_INFO
from support.command_line import document_of, invoke, registry_of

OURS = {"ai4jOwner": "ai4j"}


def named(provider_id: str) -> FakeProvider:
    """A provider of this id."""
    return FakeProvider(info=replace(FAKE_INFO, provider_id=provider_id))


def made(provider: FakeProvider, labels: Mapping[str, str] = OURS, image: str | None = None) -> str:
    """Make a sandbox and return its id."""
    return provider.create_session(SandboxSpec(labels=labels, image=image)).session_id


class Refused(FakeProvider):
    """Cannot be asked."""

    def list_sessions(self, labels=None):
        raise SandboxAuthError("the key is not accepted", hint="set FAKE_KEY")


# --- ls -----------------------------------------------------------------------------------------------------------


def test_ls_shows_the_sandboxes_of_all_providers_by_an_address_that_other_commands_take():
    one, two = named("one"), named("two")
    first, second = made(one), made(two, image="python")

    result = invoke("sandbox", "ls", registry=registry_of(one, two))

    lines = [line.split() for line in result.stdout.splitlines()]
    assert result.exit_code == 0
    assert lines[1:] == [
        [f"one/{first}", "running", "-", "-", "ai4j", "-", "-"],
        [f"two/{second}", "running", "-", "-", "ai4j", "python", "-"],
    ]


def test_ls_leaves_out_what_is_not_ours_unless_asked():
    provider = named("one")
    ours, theirs = made(provider), made(provider, {"ai4jOwner": "them"})
    foreign = made(provider, {})

    def listed(*options: str) -> set[str]:
        document = document_of(invoke("sandbox", "ls", "--json", *options, registry=registry_of(provider)))
        return {item["sessionId"] for item in document["sandboxes"]}

    assert listed() == {ours}
    assert listed("--owner", "them") == {theirs}
    assert listed("--all") == {ours, theirs, foreign}
    assert listed("--all", "--label", "ai4jOwner=them") == {theirs}


def test_the_owner_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("AI4J_SANDBOX_OWNER", "them")
    provider = named("one")
    made(provider)
    theirs = made(provider, {"ai4jOwner": "them"})

    document = document_of(invoke("sandbox", "ls", "--json", registry=registry_of(provider)))

    assert [item["sandbox"] for item in document["sandboxes"]] == [f"one/{theirs}"]


def test_a_provider_that_cannot_be_asked_hides_no_other_and_shows_in_the_exit_code():
    good = named("good")
    sandbox = made(good)

    result = invoke("sandbox", "ls", registry=registry_of(good, Refused(info=replace(FAKE_INFO, provider_id="bad"))))

    assert result.exit_code == 125
    assert f"good/{sandbox}" in result.stdout
    assert result.stderr == "ai4j: provider bad:\nai4j: the key is not accepted\nai4j: hint: set FAKE_KEY\n"


def test_control_characters_of_a_service_reach_no_terminal():
    class Painted(FakeProvider):
        def _summary(self, sandbox):
            return replace(super()._summary(sandbox), name="\x1b]0;owned\x07\x1b[31mred")

    provider = Painted()
    made(provider)

    result = invoke("sandbox", "ls", registry=registry_of(provider))

    assert "\x1b" not in result.stdout
    assert "\x07" not in result.stdout


def test_all_and_owner_exclude_each_other():
    assert invoke("sandbox", "ls", "--all", "--owner", "x", registry=registry_of()).exit_code == 2


# --- info ---------------------------------------------------------------------------------------------------------


def test_info_tells_what_is_listed_and_what_a_look_inside_adds():
    provider = named("one")
    sandbox = made(provider, image="python")

    document = document_of(invoke("sandbox", "info", "--json", f"one/{sandbox}", registry=registry_of(provider)))

    assert (document["sessionId"], document["image"], document["owner"]) == (sandbox, "python", "ai4j")
    assert document["inside"]["isolation"] == "NONE"
    assert "connect" in document["inside"]["capabilities"]
    assert provider.sandboxes[sandbox].alive


def test_info_does_not_wake_what_is_paused():
    class Paused(FakeProvider):
        def _summary(self, sandbox):
            return replace(super()._summary(sandbox), status=SandboxStatus.CREATED, state="paused")

        def connect(self, session_id, spec=None):
            raise AssertionError("it was woken")

    provider = Paused()
    sandbox = made(provider)

    result = invoke("sandbox", "info", f"fake/{sandbox}", registry=registry_of(provider))

    assert result.exit_code == 0
    assert "state: paused" in result.stdout
    assert "not looked into: it does not run" in result.stdout


def test_info_of_what_does_not_exist_says_how_to_look():
    result = invoke("sandbox", "info", "fake/nope", registry=registry_of(FakeProvider()))

    assert result.exit_code == 125
    assert "has no sandbox 'nope'\nai4j: hint: `ai4j sandbox ls --all --provider fake`" in result.stderr


# --- rm -----------------------------------------------------------------------------------------------------------


def test_rm_destroys_each_and_does_not_mind_what_is_gone():
    provider = named("one")
    first, second, kept = made(provider), made(provider), made(provider)

    result = invoke("sandbox", "rm", f"one/{first}", f"one/{second}", "one/gone", registry=registry_of(provider))

    assert (result.exit_code, result.stdout) == (0, f"removed one/{first}\nremoved one/{second}\nremoved one/gone\n")
    assert [provider.sandboxes[item].alive for item in (first, second, kept)] == [False, False, True]


def test_rm_goes_on_after_one_that_fails():
    class Stubborn(FakeProvider):
        def destroy(self, session_id):
            if session_id == "stuck":
                raise SandboxCleanupError("it does not go away", hint="ask the service")
            super().destroy(session_id)

    provider = Stubborn()
    sandbox = made(provider)

    result = invoke("sandbox", "rm", "--json", "fake/stuck", f"fake/{sandbox}", registry=registry_of(provider))

    document = document_of(result)
    assert (result.exit_code, document["removed"]) == (125, [f"fake/{sandbox}"])
    assert [failure["sessionId"] for failure in document["failures"]] == ["stuck"]


# --- cleanup ------------------------------------------------------------------------------------------------------


def test_cleanup_destroys_ours_of_every_provider_and_nothing_else():
    one, two = named("one"), named("two")
    ours = [(one, made(one)), (two, made(two))]
    foreign = made(one, {})

    result = invoke("sandbox", "cleanup", "--yes", registry=registry_of(one, two))

    assert result.exit_code == 0
    assert [provider.sandboxes[sandbox].alive for provider, sandbox in ours] == [False, False]
    assert one.sandboxes[foreign].alive


def test_cleanup_without_anybody_to_ask_needs_yes():
    provider = named("one")
    sandbox = made(provider)

    result = invoke("sandbox", "cleanup", registry=registry_of(provider))

    assert result.exit_code == 2
    assert provider.sandboxes[sandbox].alive


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_dry_run_destroys_nothing(options):
    provider = named("one")
    sandbox = made(provider)

    result = invoke("sandbox", "cleanup", "--dry-run", *options, registry=registry_of(provider))

    assert result.exit_code == 0
    assert sandbox in result.stdout
    assert provider.sandboxes[sandbox].alive


def test_cleanup_by_age_leaves_alone_what_nobody_knows_the_age_of():
    provider = named("one")
    sandbox = made(provider)

    result = invoke("sandbox", "cleanup", "--yes", "--older-than", "1h", registry=registry_of(provider))

    assert result.exit_code == 0
    assert "its age is not known" in result.stderr
    assert provider.sandboxes[sandbox].alive


def test_only_what_is_old_enough_is_chosen():
    def summary(session_id: str, created: int | None) -> SandboxSummary:
        return SandboxSummary(
            session_id=session_id, provider_id="p", status=SandboxStatus.RUNNING, created_at_epoch_ms=created
        )

    young, old, ageless = summary("young", 99_000), summary("old", 40_000), summary("ageless", None)

    assert split_by_age([young, old, ageless], 60, 100_000) == ([old], [ageless])
    assert split_by_age([young, old, ageless], None, 100_000) == ([young, old, ageless], [])


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [(None, "-"), (-1, "-"), (0, "0s"), (59_999, "59s"), (90_000, "1m30s"), (3_600_000, "1h"), (7_199_000, "1h59m"),
     (86_400_000 * 2 + 3_600_000, "2d1h")],
)  # fmt: skip
def test_a_span_is_told_by_its_two_largest_units(milliseconds, shown):
    assert span(milliseconds) == shown
