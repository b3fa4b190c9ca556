"""Promises about secrets: they do their work and turn up nowhere."""

from __future__ import annotations

import traceback
from collections.abc import Callable

import pytest

from ai4j_sandbox.capability import Capability
from ai4j_sandbox.errors import SandboxException
from ai4j_sandbox.model import SandboxCommand, SandboxEvent, SandboxSpec
from ai4j_sandbox.spi import SandboxProvider, SandboxSession

from .setup import ContractSetup, require, run

CANARY = "CANARY-zq81xv77-do-not-print"


class SecretsContract(ContractSetup):
    """A canary is planted where secrets live; nothing shows it."""

    def test_canary_in_the_config_is_in_no_error(self, provider: SandboxProvider) -> None:
        spec = SandboxSpec(
            provider_id=provider.provider_id,
            config={"noSuchSettingZq": CANARY, "apiUrl": f"http://user:{CANARY}@127.0.0.1:1/?token={CANARY}"},
        )

        error = _caught(lambda: provider.create_session(spec))

        _assert_hidden(_everything_said(error), repr(spec), str(spec), repr(provider.check(spec)))

    def test_canary_in_a_sensitive_label_is_not_kept(self, provider: SandboxProvider) -> None:
        labels = {"apiToken": CANARY, "db": f"postgres://u:{CANARY}@h/db", "kept": "yes"}

        with provider.create_session(self.spec_with(provider, labels=labels)) as session:
            kept = dict(session.spec.labels)
            _assert_hidden(repr(session), repr(session.spec), repr(kept))

        assert "apiToken" not in kept
        assert kept["kept"] == "yes"

    def test_canary_in_environment_and_stdin_is_in_no_repr_and_no_event(self, session: SandboxSession) -> None:
        command = SandboxCommand(command="true", environment={"API": CANARY}, metadata={"note": CANARY})
        told: list[SandboxEvent] = []
        session.subscribe(told.append)

        result = session.execute(command, on_event=told.append)

        _assert_hidden(repr(command), str(command), repr(result), repr(session), repr(told))

    def test_protected_value_is_masked_in_events_but_not_in_the_users_own_result(self, session: SandboxSession) -> None:
        session.protect(CANARY)
        told: list[SandboxEvent] = []

        command = SandboxCommand(command=f"echo before {CANARY} after; echo {CANARY} >&2")
        result = session.execute(command, on_event=told.append)

        _assert_hidden(_shown(told), repr(told))
        assert result.stdout == f"before {CANARY} after\n"
        assert _shown(told).startswith("before [redacted] after")

    def test_protected_value_is_masked_across_pieces(self, session: SandboxSession) -> None:
        session.protect(CANARY)
        told: list[SandboxEvent] = []

        command = SandboxCommand(command=f"printf 'x{CANARY[:9]}'; sleep 0.2; printf '{CANARY[9:]}y{CANARY[:6]}'")
        session.execute(command, on_event=told.append)

        assert _shown(told) == f"x[redacted]y{CANARY[:6]}"

    def test_protected_value_is_in_no_error(self, session: SandboxSession) -> None:
        session.protect(CANARY)

        error = _caught(lambda: run(session, "pwd", working_directory=f"/missing-{CANARY}"))

        _assert_hidden(str(error), repr(error))

    def test_protected_value_is_masked_in_artifact_names_and_events(self, session: SandboxSession, folder: str) -> None:
        require(session, Capability.ARTIFACTS)
        session.protect(CANARY)

        result = run(session, ["touch", f"{CANARY}.txt"], working_directory=folder, artifacts=["*.txt"])

        _assert_hidden(repr(result.events), result.artifacts[0].name or "")
        assert result.artifacts[0].path == f"{folder}/{CANARY}.txt"  # the true path: it is what download takes

    def test_environment_of_the_host_does_not_reach_the_command(
        self, session: SandboxSession, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOST_CANARY_VARIABLE", CANARY)

        result = run(session, "env; cat /proc/1/environ 2>/dev/null; true")

        _assert_hidden(result.stdout)


def _caught(call: Callable[[], object]) -> SandboxException:
    with pytest.raises(SandboxException) as caught:
        call()
    return caught.value


def _everything_said(error: SandboxException) -> str:
    return "\n".join((str(error), repr(error), repr(vars(error)), "".join(traceback.format_exception(error))))


def _assert_hidden(*texts: str) -> None:
    for text in texts:
        assert CANARY not in text


def _shown(events: list[SandboxEvent]) -> str:
    return b"".join(event.data for event in events if event.data).decode()
