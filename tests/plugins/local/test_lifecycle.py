"""Nothing outlives a sandbox that should not, and a sandbox outlives nothing but what it must."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ai4j_sandbox.errors import SandboxConfigError, SandboxException, SandboxSessionClosedError, SandboxSessionLostError
from ai4j_sandbox.model import SandboxCommand, SandboxSpec
from ai4j_sandbox.spi import SandboxSession
from ai4j_sandbox_local import LocalProvider
from ai4j_sandbox_local.isolation.identity import Identity, current_identity
from ai4j_sandbox_local.isolation.launch import AgentSettings, Descriptors, launch
from support.processes import descendants, is_running
from support.waiting import eventually

TIERS = pytest.mark.parametrize("tier", ["namespace", "syscall-filter"])
DAEMON = "setsid sh -c '(trap \"\" TERM HUP; exec sleep 300) & exec sleep 300' & echo started"


def processes_of(session: SandboxSession) -> set[int]:
    """Return every process of a sandbox, the ones that detached themselves included."""
    outermost = session._sandbox.running.process.pid
    return {outermost, *descendants(outermost)}


@TIERS
def test_close_leaves_no_process_not_even_a_daemon(tier: str) -> None:
    session = LocalProvider().create_session(SandboxSpec(config={"isolation": tier}))
    session.execute(SandboxCommand(command=DAEMON))
    assert eventually(lambda: len(processes_of(session)) >= 4)
    processes = processes_of(session)

    session.close()

    assert [pid for pid in processes if is_running(pid)] == []


@TIERS
def test_kill_9_of_the_host_process_leaves_no_process_and_no_directory(tier: str, tmp_path: Path) -> None:
    program = f"""
import os, time
from ai4j_sandbox.model import SandboxCommand, SandboxSpec
from ai4j_sandbox_local import LocalProvider
session = LocalProvider().create_session(SandboxSpec(config={{"isolation": {tier!r}}}))
session.execute(SandboxCommand(command={DAEMON!r}))
print(session._sandbox.directory, flush=True)
time.sleep(300)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        directory = host.stdout.readline().strip()
        assert eventually(lambda: len(descendants(host.pid)) >= 4)
        processes = descendants(host.pid)

        host.kill()

    assert eventually(lambda: not any(is_running(pid) for pid in processes))
    assert directory == "None" or eventually(lambda: not os.path.exists(directory))


@TIERS
def test_kill_9_of_the_host_process_is_noticed_although_a_forked_child_holds_its_descriptors(tier: str) -> None:
    program = f"""
import os, time
from ai4j_sandbox.model import SandboxSpec
from ai4j_sandbox_local import LocalProvider
session = LocalProvider().create_session(SandboxSpec(config={{"isolation": {tier!r}}}))
child = os.fork()
if child == 0:
    os.close(1)
    time.sleep(300)
print(session._sandbox.running.process.pid, child, flush=True)
time.sleep(300)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        sandbox, child = map(int, host.stdout.readline().split())
        host.kill()

    try:
        assert eventually(lambda: not is_running(sandbox))
        assert is_running(child)
    finally:
        os.kill(child, signal.SIGKILL)


@TIERS
def test_sandbox_survives_the_end_of_the_thread_that_created_it(tier: str) -> None:
    """bwrap's --die-with-parent fires when the *thread* ends that started it."""
    made: list[SandboxSession] = []
    spec = SandboxSpec(config={"isolation": tier})
    thread = threading.Thread(target=lambda: made.append(LocalProvider().create_session(spec)))
    thread.start()
    thread.join()

    with made[0] as session:
        result = session.execute(SandboxCommand(command="sleep 0.2; echo alive"))

    assert result.stdout == "alive\n"


@TIERS
def test_fifty_sessions_and_commands_leak_no_descriptor_thread_or_directory(tier: str) -> None:
    provider = LocalProvider()
    spec = SandboxSpec(config={"isolation": tier})

    def use_one() -> None:
        with provider.create_session(spec) as session:
            session.execute(SandboxCommand(command="cat; echo error >&2", stdin="x"))
            session.start(SandboxCommand(command="sleep 60")).detach()
            session.start(SandboxCommand(command="sleep 60", keep_stdin_open=True))
            session.files.write("file", "content")

    use_one()
    before = (len(os.listdir("/proc/self/fd")), threading.active_count(), own_directories())
    for _ in range(25):
        use_one()

    assert (len(os.listdir("/proc/self/fd")), threading.active_count(), own_directories()) == before


def own_directories() -> int:
    return sum(1 for name in os.listdir(tempfile.gettempdir()) if name.startswith(f"ai4j-{os.getpid()}-"))


def test_output_before_close_is_kept_for_whoever_waits_later(session: SandboxSession) -> None:
    process = session.start(SandboxCommand(command="echo before; touch written; sleep 60"))
    assert eventually(lambda: session.files.exists("written"))

    session.close()
    result = process.wait()

    assert (result.stdout, result.canceled, result.exit_code) == ("before\n", True, None)


@TIERS
def test_failed_creation_leaves_nothing(tier: str, tmp_path: Path) -> None:
    before = (len(os.listdir("/proc/self/fd")), descendants(os.getpid()), own_directories())
    missing = {"source": str(tmp_path / "missing"), "target": str(tmp_path / "missing")}

    with pytest.raises(SandboxConfigError, match="missing"):
        LocalProvider().create_session(SandboxSpec(config={"isolation": tier, "mounts": [missing]}))

    assert (len(os.listdir("/proc/self/fd")), descendants(os.getpid()), own_directories()) == before


def test_command_in_a_sandbox_that_was_killed_says_so_at_once(create: Callable, session: SandboxSession) -> None:
    process = session.start(SandboxCommand(command="echo before; sleep 60"))
    next(process.output())

    os.kill(session._sandbox.running.agent_pid, signal.SIGKILL)

    with pytest.raises(SandboxSessionLostError, match="gone") as caught:
        process.wait()
    assert caught.value.hint == "create a new session"
    with pytest.raises(SandboxSessionLostError, match="gone"):
        session.execute(SandboxCommand(command="true"))
    with pytest.raises(SandboxSessionLostError, match="gone"):
        session.files.read("/etc/passwd")


def test_output_before_the_sandbox_was_killed_is_kept(session: SandboxSession) -> None:
    process = session.start(SandboxCommand(command="echo before; sleep 60"))
    assert eventually(lambda: session.execute(SandboxCommand(command="true")).succeeded)
    seen = []

    os.kill(session._sandbox.running.agent_pid, signal.SIGKILL)
    with pytest.raises(SandboxSessionLostError):
        seen.extend(chunk.data for chunk in process.output())

    assert b"".join(seen) == b"before\n"


@TIERS
def test_sandbox_ends_with_its_lifetime_although_the_host_does_nothing(tier: str, create: Callable) -> None:
    session = create(isolation=tier, timeoutSeconds=1)
    processes = processes_of(session)

    assert eventually(lambda: not any(is_running(pid) for pid in processes))
    with pytest.raises(SandboxSessionLostError, match="lifetime") as caught:
        session.execute(SandboxCommand(command="true"))
    assert "timeoutSeconds" in str(caught.value)


def test_extended_sandbox_lives_on(namespace: SandboxSession, create: Callable) -> None:
    session = create(isolation="namespace", timeoutSeconds=1)

    session.extend(60)
    result = session.execute(SandboxCommand(command="sleep 1.2; echo alive"))

    assert result.stdout == "alive\n"


def test_every_ability_of_a_closed_session_refuses(namespace: SandboxSession) -> None:
    namespace.close()

    for call in (namespace.pause, namespace.resume, namespace.metrics, namespace.list_processes):
        with pytest.raises(SandboxSessionClosedError):
            call()


def test_start_that_is_interrupted_leaves_no_process_and_no_descriptor() -> None:
    """As when bwrap's first child still waits for its parent, which alone used to be killed."""
    started: list[int] = []

    def command_line(descriptors: Descriptors, program: Sequence[str]) -> list[str]:
        return ["/bin/sh", "-c", "sleep 300 & sleep 300 & wait"]

    def interrupted(control: socket.socket, diagnostics: int, identity: Identity) -> int:
        assert eventually(lambda: len(own_descendants(before)) == 3)
        started.extend(own_descendants(before))
        raise KeyboardInterrupt

    before = descendants(os.getpid())
    open_before = len(os.listdir("/proc/self/fd"))
    settings = AgentSettings(directory="/", limits={}, lifetime=None)
    with pytest.raises(KeyboardInterrupt):
        launch(command_line, "python3", settings, current_identity(), interrupted)

    assert eventually(lambda: not any(is_running(pid) for pid in started))
    assert len(os.listdir("/proc/self/fd")) == open_before


def own_descendants(before: set[int]) -> set[int]:
    return descendants(os.getpid()) - before


def test_command_that_ends_with_close_is_told_that_the_session_was_closed(session: SandboxSession) -> None:
    process = session.start(SandboxCommand(command="sleep 60"))
    closing = threading.Thread(target=session.close)

    closing.start()
    result = process.wait()
    closing.join()

    assert (result.canceled, result.status_text) == (True, f"sandbox session {session.session_id} is closed")


def test_files_kept_over_close_say_that_the_session_was_closed(session: SandboxSession) -> None:
    files = session.files

    session.close()

    with pytest.raises(SandboxSessionClosedError, match="is closed"):
        files.read("/etc/passwd")


def test_commands_that_come_while_another_thread_closes_are_canceled_or_told_of_it(session: SandboxSession) -> None:
    ends: list[object] = []

    def execute() -> None:
        try:
            while True:
                ends.append(session.execute(SandboxCommand(command="true")).canceled)
        except SandboxException as error:
            ends.append(type(error))

    threads = [threading.Thread(target=execute) for _ in range(20)]
    for thread in threads:
        thread.start()
    assert eventually(lambda: len(ends) > 20)
    session.close()
    for thread in threads:
        thread.join()

    assert {end for end in ends if isinstance(end, type)} == {SandboxSessionClosedError}
