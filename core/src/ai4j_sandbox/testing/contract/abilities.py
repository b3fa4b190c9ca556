"""Promises about optional abilities: what is claimed works, what is missing says so."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any
from urllib.request import Request, urlopen

import pytest

from ai4j_sandbox.capability import Capability, IsolationLevel, SupportLevel
from ai4j_sandbox.errors import SandboxException, SandboxNotFoundError, UnsupportedCapabilityError
from ai4j_sandbox.model import SandboxCommand, SandboxStatus, StreamMode, TerminalSize
from ai4j_sandbox.spi import (
    Health,
    Metrics,
    SandboxProvider,
    SandboxSession,
    SupportsBackground,
    SupportsConnect,
    SupportsExtend,
    SupportsHealth,
    SupportsListing,
    SupportsMetrics,
    SupportsPause,
    SupportsPorts,
    SupportsSnapshot,
)

from .setup import ContractSetup, at_most, eventually, require, require_tool, run

SESSION_ABILITIES: dict[Capability, tuple[type, str]] = {
    Capability.BACKGROUND: (SupportsBackground, "attach"),
    Capability.PORTS: (SupportsPorts, "port_url"),
    Capability.PAUSE: (SupportsPause, "pause"),
    Capability.EXTEND: (SupportsExtend, "extend"),
    Capability.SNAPSHOT: (SupportsSnapshot, "snapshot"),
    Capability.METRICS: (SupportsMetrics, "metrics"),
}
PROVIDER_ABILITIES: dict[Capability, type] = {
    Capability.CONNECT: SupportsConnect,
    Capability.HEALTH: SupportsHealth,
    Capability.LISTING: SupportsListing,
}


class AbilitiesContract(ContractSetup):
    """Terminals, background processes, ports, pausing, connecting, provider."""

    # --- truth of the claims --------------------------------------------------------------------------------------

    @pytest.mark.parametrize("capability", SESSION_ABILITIES)
    def test_session_has_the_methods_it_claims_and_no_others(
        self, session: SandboxSession, capability: Capability
    ) -> None:
        protocol, method = SESSION_ABILITIES[capability]

        if capability in session.capabilities:
            assert isinstance(session, protocol)
        else:
            assert not isinstance(session, protocol)
            with pytest.raises(UnsupportedCapabilityError, match=session.provider_id):
                getattr(session, method)

    @pytest.mark.parametrize("capability", PROVIDER_ABILITIES)
    def test_provider_has_the_methods_it_claims_and_no_others(
        self, provider: SandboxProvider, capability: Capability
    ) -> None:
        claimed = capability in provider.info.capabilities

        assert isinstance(provider, PROVIDER_ABILITIES[capability]) == claimed

    def test_what_is_missing_or_emulated_has_a_reason(self, session: SandboxSession) -> None:
        for capability in Capability:
            support = session.capabilities[capability]
            assert support.level is SupportLevel.NATIVE or support.reason, capability

    def test_session_claims_no_more_than_its_provider(self, provider: SandboxProvider, session: SandboxSession) -> None:
        assert set(session.capabilities.offered()) <= set(provider.info.capabilities.offered())
        assert IsolationLevel.NONE <= session.isolation <= provider.info.isolation

    @pytest.mark.parametrize(
        ("capability", "option"),
        [
            (Capability.STDIN, {"stdin": "x"}),
            (Capability.TIMEOUT, {"timeout_millis": 1000}),
            (Capability.TERMINAL, {"terminal": TerminalSize()}),
        ],
    )
    def test_what_is_not_claimed_is_refused_and_not_ignored(
        self, session: SandboxSession, capability: Capability, option: dict[str, Any]
    ) -> None:
        if capability in session.capabilities:
            pytest.skip(f"{session.provider_id} supports {capability}")

        with pytest.raises(UnsupportedCapabilityError, match=capability.value):
            run(session, "true", **option)

    # --- terminal -------------------------------------------------------------------------------------------------

    def test_terminal_is_one_of_the_wanted_size(self, session: SandboxSession) -> None:
        require(session, Capability.TERMINAL)

        result = run(
            session, "test -t 0 && test -t 1 && test -t 2 && stty size", terminal=TerminalSize(rows=33, columns=99)
        )

        assert (result.stdout.strip(), result.exit_code, result.streams) == ("33 99", 0, StreamMode.MERGED)

    def test_terminal_can_be_resized(self, session: SandboxSession) -> None:
        require(session, Capability.TERMINAL, Capability.STDIN)
        command = SandboxCommand(
            command="stty -echo; read go; stty size", terminal=TerminalSize(), keep_stdin_open=True
        )

        with session.start(command) as process:
            process.resize(TerminalSize(rows=40, columns=120))
            process.write_stdin("go\n")
            result = process.wait()

        assert result.stdout.split()[-2:] == ["40", "120"]

    def test_terminal_turns_control_c_into_a_signal(self, session: SandboxSession) -> None:
        require(session, Capability.TERMINAL, Capability.STDIN)
        command = SandboxCommand(command="echo ready; exec sleep 60", terminal=TerminalSize(), keep_stdin_open=True)

        with at_most(30), session.start(command) as process:
            next(process.output())
            process.write_stdin("\x03")
            result = process.wait()

        assert result.exit_code == 130

    def test_command_without_a_terminal_has_none(self, session: SandboxSession) -> None:
        result = run(session, "test -t 0 || test -t 1 || test -t 2")

        assert result.exit_code == 1

    # --- background -----------------------------------------------------------------------------------------------

    def test_background_command_outlives_its_handle_and_is_found_again(self, session: SandboxSession) -> None:
        require(session, Capability.BACKGROUND)
        assert isinstance(session, SupportsBackground)
        command = "i=0; while :; do echo tick; sleep 0.1; done"
        session.start(SandboxCommand(command=command, command_id="server")).detach()

        assert "server" in [process.command_id for process in session.list_processes()]
        process = session.attach("server")
        assert b"tick" in next(process.output()).data
        assert process.cancel()
        assert eventually(lambda: "server" not in [each.command_id for each in session.list_processes()])

    def test_attaching_to_an_unknown_command_is_not_found(self, session: SandboxSession) -> None:
        require(session, Capability.BACKGROUND)
        assert isinstance(session, SupportsBackground)

        with pytest.raises(SandboxNotFoundError, match="never-started"):
            session.attach("never-started")

    # --- pause, extend, snapshot, metrics ---------------------------------------------------------------------------

    def test_paused_sandbox_does_nothing_until_it_is_resumed(self, session: SandboxSession, folder: str) -> None:
        require(session, Capability.PAUSE)
        assert isinstance(session, SupportsPause)
        run(session, "(while :; do date +%s.%N >> ticks; sleep 0.02; done) >/dev/null 2>&1 &", working_directory=folder)
        assert eventually(lambda: _longest_gap(session, folder) > 0)

        session.pause()
        session.pause()
        time.sleep(0.6)  # the behaviour under test is that nothing happens meanwhile
        session.resume()
        session.resume()

        assert eventually(lambda: _longest_gap(session, folder) >= 0.5)

    def test_life_can_be_extended(self, session: SandboxSession) -> None:
        require(session, Capability.EXTEND)
        assert isinstance(session, SupportsExtend)

        session.extend(60)

        assert run(session, "echo alive").stdout == "alive\n"

    def test_snapshot_starts_a_sandbox_with_the_same_files(
        self, provider: SandboxProvider, session: SandboxSession
    ) -> None:
        require(session, Capability.SNAPSHOT)
        assert isinstance(session, SupportsSnapshot)
        run(session, "echo kept > ~/kept")

        image = session.snapshot()

        with provider.create_session(self.spec_with(provider, image=image)) as copy:
            assert run(copy, "cat ~/kept").stdout == "kept\n"

    def test_metrics_are_plausible(self, session: SandboxSession) -> None:
        require(session, Capability.METRICS)
        assert isinstance(session, SupportsMetrics)

        metrics = session.metrics()

        assert isinstance(metrics, Metrics)
        assert metrics.memory_bytes is None or metrics.memory_bytes > 0

    # --- ports ----------------------------------------------------------------------------------------------------

    def test_port_of_the_sandbox_can_be_reached(self, session: SandboxSession, folder: str) -> None:
        require(session, Capability.PORTS)
        assert isinstance(session, SupportsPorts)
        require_tool(session, "python3")
        run(session, "echo hello > index.html", working_directory=folder)
        server = SandboxCommand(command="exec python3 -m http.server 18080", working_directory=folder)

        with session.start(server):
            target = session.port_url(18080)
            assert target.url.startswith(("http://", "https://"))
            assert eventually(lambda: _fetch(target.url, dict(target.headers)) == b"hello\n")

    # --- the provider ---------------------------------------------------------------------------------------------

    def test_health_is_an_answer(self, provider: SandboxProvider) -> None:
        _require_of(provider, Capability.HEALTH)
        assert isinstance(provider, SupportsHealth)

        health = provider.health()

        assert isinstance(health, Health)
        assert health.healthy, health
        assert health.summary

    def test_connecting_reaches_the_same_sandbox_and_closing_leaves_it_alive(
        self, provider: SandboxProvider, session: SandboxSession, folder: str
    ) -> None:
        _require_of(provider, Capability.CONNECT)
        assert isinstance(provider, SupportsConnect)
        run(session, "echo shared > note", working_directory=folder)

        with provider.connect(session.session_id) as attached:
            assert run(attached, "cat note", working_directory=folder).stdout == "shared\n"
            assert not attached.owned

        assert attached.status is SandboxStatus.CLOSED
        assert run(session, "echo alive").stdout == "alive\n"

    def test_connecting_to_an_unknown_sandbox_is_not_found(self, provider: SandboxProvider) -> None:
        _require_of(provider, Capability.CONNECT)
        assert isinstance(provider, SupportsConnect)

        with pytest.raises(SandboxNotFoundError, match="no-such-sandbox"):
            provider.connect("no-such-sandbox")

    def test_sandboxes_are_listed_by_label_and_can_be_destroyed(self, provider: SandboxProvider) -> None:
        _require_of(provider, Capability.LISTING)
        assert isinstance(provider, SupportsListing)

        with provider.create_session(self.spec_with(provider, labels={"contract": "list-me"})) as session:
            listed = [summary.session_id for summary in provider.list_sessions({"contract": "list-me"})]
            assert listed == [session.session_id]
            assert provider.list_sessions({"contract": "nobody"}) == []
            provider.destroy(session.session_id)
            provider.destroy(session.session_id)
            assert provider.list_sessions({"contract": "list-me"}) == []

    def test_command_in_a_destroyed_sandbox_is_an_error_not_a_result(self, provider: SandboxProvider) -> None:
        _require_of(provider, Capability.LISTING)
        assert isinstance(provider, SupportsListing)

        with provider.create_session(self.spec) as session:
            provider.destroy(session.session_id)
            with pytest.raises(SandboxException):
                run(session, "true")


def _require_of(provider: SandboxProvider, capability: Capability) -> None:
    if capability not in provider.info.capabilities:
        reason = provider.info.capabilities[capability].reason
        pytest.skip(f"{provider.provider_id} does not support {capability}: {reason}")


def _longest_gap(session: SandboxSession, folder: str) -> float:
    ticks = [float(tick) for tick in run(session, "cat ticks", working_directory=folder).stdout.split()]
    return max((later - earlier for earlier, later in pairwise(ticks)), default=0.0)


def _fetch(url: str, headers: dict[str, str]) -> bytes | None:
    try:
        with urlopen(Request(url, headers=headers), timeout=5) as answer:
            content: bytes = answer.read()
            return content
    except OSError:
        return None
