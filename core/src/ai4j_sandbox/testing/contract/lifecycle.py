"""Promises about sessions: identity, admission, and an end that is prompt and final."""

from __future__ import annotations

import threading

import pytest

from ai4j_sandbox.capability import Capability
from ai4j_sandbox.errors import SandboxAdmissionError, SandboxException, SandboxSessionClosedError
from ai4j_sandbox.model import SandboxCommand, SandboxEventType, SandboxSpec, SandboxStatus
from ai4j_sandbox.spi import SandboxProvider, SandboxSession

from .setup import PATIENCE_SECONDS, Background, ContractSetup, at_most, require, run


class LifecycleContract(ContractSetup):
    """From `create_session` to `close`."""

    def test_new_session_runs_and_knows_who_it_is(self, provider: SandboxProvider, session: SandboxSession) -> None:
        assert session.status is SandboxStatus.RUNNING
        assert session.provider_id == provider.provider_id == provider.info.provider_id
        assert session.session_id.strip()
        assert session.owned

    def test_two_sessions_are_two_sandboxes(self, provider: SandboxProvider, session: SandboxSession) -> None:
        with provider.create_session(self.spec) as other:
            assert other.session_id != session.session_id
            other.close()

        assert run(session, "echo alive").stdout == "alive\n"

    def test_session_keeps_the_spec_it_was_made_from(self, provider: SandboxProvider) -> None:
        spec = self.spec_with(provider, profile="default", labels={"task": "t-1", "apiToken": "x"})

        with provider.create_session(spec) as session:
            kept = session.spec

        assert (kept.provider_id, kept.profile, dict(kept.labels)) == (provider.provider_id, "default", {"task": "t-1"})
        assert dict(kept.config) == {}

    def test_every_spec_without_an_id_is_supported_by_everybody(self, provider: SandboxProvider) -> None:
        assert provider.supports(None)
        assert provider.supports(SandboxSpec(profile="default", labels={"a": "b"}))
        assert provider.supports(SandboxSpec(provider_id=provider.provider_id.upper()))

    def test_spec_for_another_provider_is_refused(self, provider: SandboxProvider) -> None:
        spec = SandboxSpec(provider_id="some-other-provider")

        assert not provider.supports(spec)
        with pytest.raises(SandboxAdmissionError, match=r"unsupported sandbox provider.*some-other-provider"):
            provider.create_session(spec)

    def test_unknown_setting_is_refused_and_named(self, provider: SandboxProvider) -> None:
        spec = SandboxSpec(provider_id=provider.provider_id, config={"noSuchSettingZq": 1})

        assert not provider.supports(spec)
        assert "noSuchSettingZq" in provider.check(spec).explain()
        with pytest.raises(SandboxException, match="noSuchSettingZq"):
            provider.create_session(spec)

    def test_misspelt_setting_is_refused_with_the_one_that_was_meant(self, provider: SandboxProvider) -> None:
        if self.misspelt_setting is None:
            pytest.skip(f"{provider.provider_id}: the test class names no misspelt_setting")
        written, meant = self.misspelt_setting
        spec = SandboxSpec(provider_id=provider.provider_id, config={written: True})

        with pytest.raises(SandboxException, match=meant):
            provider.create_session(spec)

    def test_closed_session_refuses_everything_in_plain_words(self, session: SandboxSession) -> None:
        session.close()

        assert session.status is SandboxStatus.CLOSED
        with pytest.raises(SandboxSessionClosedError, match="closed"):
            run(session, "echo no")
        with pytest.raises(SandboxSessionClosedError, match="closed"):
            session.start(SandboxCommand(command="echo no"))
        with pytest.raises(SandboxSessionClosedError, match="closed"):
            session.files.read("/etc/hostname")

    def test_leaving_the_block_closes(self, provider: SandboxProvider) -> None:
        with provider.create_session(self.spec) as session:
            run(session, "true")

        assert session.status is SandboxStatus.CLOSED

    def test_closing_again_is_fine_and_told_once(self, session: SandboxSession) -> None:
        told: list[SandboxEventType] = []
        session.subscribe(lambda event: told.append(event.type))

        session.close()
        session.close()

        assert told == [SandboxEventType.SESSION_CLOSED]
        assert session.status is SandboxStatus.CLOSED

    def test_closing_from_ten_threads_closes_once(self, session: SandboxSession) -> None:
        told: list[SandboxEventType] = []
        session.subscribe(lambda event: told.append(event.type))

        closing = [Background(session.close) for _ in range(10)]
        for each in closing:
            each.result()

        assert told == [SandboxEventType.SESSION_CLOSED]
        assert session.status is SandboxStatus.CLOSED

    def test_close_while_a_command_runs_is_prompt_and_cancels_it(self, session: SandboxSession) -> None:
        started = threading.Event()
        session.subscribe(lambda event: started.set())
        running = Background(lambda: run(session, "echo a; sleep 60"))
        assert started.wait(PATIENCE_SECONDS)

        with at_most(5):
            session.close()
            result = running.result()

        assert (result.canceled, result.timed_out) == (True, False)
        assert result.exit_code != 0

    def test_command_started_before_close_can_be_waited_for_afterwards(self, session: SandboxSession) -> None:
        process = session.start(SandboxCommand(command="sleep 60"))
        session.close()

        with at_most(5):
            result = process.wait()

        assert result.canceled

    def test_artifacts_are_still_listed_after_close(self, session: SandboxSession, folder: str) -> None:
        require(session, Capability.ARTIFACTS)
        run(session, "touch a", working_directory=folder, artifacts=["a"])

        session.close()

        assert [artifact.name for artifact in session.list_artifacts()] == ["a"]

    def test_check_contacts_nothing_and_decides_by_field(self, provider: SandboxProvider) -> None:
        admission = provider.check(SandboxSpec(profile="p", labels={"a": "b"}))

        assert admission.accepted
        assert admission.provider_id == provider.provider_id
        assert admission.explain() == "accepted"
