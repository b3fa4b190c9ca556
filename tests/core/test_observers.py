from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ai4j_sandbox.binding import AgentSessionSandboxBinding
from ai4j_sandbox.capability import ProviderInfo
from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.model import SandboxCommand, SandboxEvent, SandboxEventType, SandboxSpec, SandboxStatus
from ai4j_sandbox.observers import SessionObservers, register_observer
from ai4j_sandbox.process import ProcessChannel
from ai4j_sandbox.spi import SandboxSession, SessionDescription
from support.plugin_site import PluginSite
from support.secrets import CANARY, assert_no_secret

OBSERVER = """
from ai4j_sandbox.hookspecs import hookimpl

seen = []

@hookimpl
def ai4j_sandbox_event(event, binding):
    seen.append((event.type, binding.provider_id))
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[PluginSite]:
    with PluginSite(tmp_path / "site").importable() as site:
        yield site


class QuietSession(SandboxSession):
    """A session that runs nothing."""

    def _open_channel(self, command: SandboxCommand, deadline: Deadline) -> ProcessChannel:
        raise NotImplementedError

    def _destroy(self) -> None:
        return None


def make_session() -> QuietSession:
    info = ProviderInfo(provider_id="quiet", display_name="Quiet", distribution="tests", version="1")
    spec = SandboxSpec(image="img", labels={"team": "a", "api_token": CANARY}, config={"apiKey": CANARY})
    return QuietSession(SessionDescription(session_id="s1", info=info, spec=spec))


EVENT = SandboxEvent(type=SandboxEventType.COMMAND_STARTED, session_id="s1")


def tell_all(observers: SessionObservers, session: SandboxSession, event: SandboxEvent = EVENT) -> None:
    for callback in observers.callbacks(session):
        callback(event)


def observers_file(entries: str) -> str:
    return f"[ai4j.sandbox_observers]\n{entries}\n"


def test_without_observers_there_is_nothing_to_call(site: PluginSite) -> None:
    assert SessionObservers(path=site.path).callbacks(make_session()) == ()


def test_an_installed_observer_sees_event_and_binding(site: PluginSite) -> None:
    site.distribution("audit", entry_points=observers_file("audit = audit_hooks"))
    site.module("audit_hooks", OBSERVER)

    tell_all(SessionObservers(path=site.path), make_session())

    assert sys.modules["audit_hooks"].seen == [(SandboxEventType.COMMAND_STARTED, "quiet")]


def test_looking_for_observers_imports_no_provider_plugin(site: PluginSite) -> None:
    text = observers_file("audit = audit_hooks") + "[ai4j.sandbox_providers]\nok = ok_hooks\n"
    site.distribution("audit", entry_points=text)
    site.module("audit_hooks", OBSERVER)
    site.provider_module("ok_hooks", "ok")

    tell_all(SessionObservers(path=site.path), make_session())

    assert "ok_hooks" not in sys.modules


def test_the_binding_holds_no_secret_and_the_status_of_the_moment() -> None:
    observers, seen = SessionObservers(path=[]), list[AgentSessionSandboxBinding]()
    observers.register(lambda event, binding: seen.append(binding))
    session = make_session()
    [callback] = observers.callbacks(session)

    callback(EVENT)
    callback(EVENT)
    session.close()
    callback(EVENT)

    assert seen[0] is seen[1], "made once, not for every piece of output"
    assert [binding.status for binding in seen] == [SandboxStatus.RUNNING] * 2 + [SandboxStatus.CLOSED]
    assert [binding.bound_at for binding in seen] == [seen[0].bound_at] * 3
    assert (seen[2].image, dict(seen[2].labels)) == ("img", {"team": "a"})
    assert_no_secret(*seen)


def test_a_broken_observer_is_logged_listed_and_hurts_no_other(
    site: PluginSite, caplog: pytest.LogCaptureFixture
) -> None:
    site.distribution("broken", entry_points=observers_file("a-broken = nosuchmod"))
    site.distribution("misspelt", entry_points=observers_file("b-misspelt = misspelt_hooks"))
    site.distribution("future", entry_points=observers_file("c-future = audit_hooks"), requires=["ai4j-sandbox>=9"])
    site.distribution("audit", entry_points=observers_file("d-good = audit_hooks"))
    site.module("misspelt_hooks", OBSERVER.replace("def ai4j_sandbox_event", "def ai4j_sandbox_evnt"))
    site.module("audit_hooks", OBSERVER)
    observers = SessionObservers(path=site.path)

    for _ in range(2):
        tell_all(observers, make_session())

    names = [problem.name for problem in observers.problems()]
    assert names == ["a-broken", "b-misspelt", "c-future"]
    assert len(caplog.records) == 3, "told once"
    assert len(sys.modules["audit_hooks"].seen) == 2


def test_an_observer_that_raises_is_logged_once_and_never_heard(caplog: pytest.LogCaptureFixture) -> None:
    observers, seen = SessionObservers(path=[]), []

    def failing(event: SandboxEvent, binding: AgentSessionSandboxBinding) -> None:
        raise ValueError(f"token={CANARY}")

    observers.register(failing)
    observers.register(lambda event, binding: seen.append(event))
    session = make_session()
    for _ in range(3):
        tell_all(observers, session)

    assert seen == [EVENT] * 3
    assert [(record.levelno, record.name) for record in caplog.records] == [(logging.WARNING, "ai4j_sandbox.observers")]
    assert "failing failed" in caplog.text
    assert_no_secret(caplog.text)


def test_a_disabled_observer_is_not_imported(site: PluginSite, monkeypatch: pytest.MonkeyPatch) -> None:
    site.distribution("audit", entry_points=observers_file("audit = audit_hooks"))
    site.module("audit_hooks", OBSERVER)
    monkeypatch.setenv("AI4J_SANDBOX_DISABLED_PLUGINS", "audit")

    assert SessionObservers(path=site.path).callbacks(make_session()) == ()
    assert "audit_hooks" not in sys.modules


def test_a_removed_observer_is_not_given_to_later_sessions() -> None:
    observers = SessionObservers(path=[])
    remove = observers.register(lambda event, binding: None)

    remove()
    remove()

    assert observers.callbacks(make_session()) == ()


def test_the_installed_observers_are_looked_up_once(site: PluginSite) -> None:
    observers = SessionObservers(path=site.path)
    before = observers.callbacks(make_session())
    site.distribution("audit", entry_points=observers_file("audit = audit_hooks"))
    site.module("audit_hooks", OBSERVER)

    assert (before, observers.callbacks(make_session())) == ((), ())


def test_a_hosts_observer_sees_the_life_of_a_session() -> None:
    seen: list[tuple[SandboxEventType, SandboxStatus | None]] = []
    remove = register_observer(lambda event, binding: seen.append((event.type, binding.status)))
    try:
        make_session().close()
    finally:
        remove()

    assert seen == [
        (SandboxEventType.SESSION_CREATED, SandboxStatus.RUNNING),
        (SandboxEventType.SESSION_CLOSED, SandboxStatus.CLOSED),
    ]


def test_importing_the_spi_looks_for_no_plugin() -> None:
    program = """
import sys
import ai4j_sandbox.spi
print([name for name in ("pluggy", "importlib_metadata", "ai4j_sandbox.discovery") if name in sys.modules])
"""

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.strip() == "[]"
