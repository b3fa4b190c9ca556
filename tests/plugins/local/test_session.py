"""Commands in a real sandbox: starting, streams, stopping, and what goes on in the background."""

from __future__ import annotations

import os
import resource
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from ai4j_sandbox.capability import Capability, IsolationLevel
from ai4j_sandbox.errors import (
    SandboxConfigError,
    SandboxConflictError,
    SandboxException,
    SandboxNotFoundError,
    SandboxTimeoutError,
    UnsupportedCapabilityError,
)
from ai4j_sandbox.model import SandboxCommand, SandboxResult, TerminalSize
from ai4j_sandbox.spi import SandboxSession, SupportsPorts
from ai4j_sandbox_local.payloads import AgentRefusal
from support.waiting import eventually


def run(session: SandboxSession, command: str | list[str], **options: object) -> SandboxResult:
    return session.execute(SandboxCommand(command=command, **{"timeout_millis": 30_000, **options}))


# --- starting -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tier", ["namespace", "syscall-filter"])
def test_session_tells_the_isolation_in_force(create: Callable, tier: str) -> None:
    session = create(isolation=tier)

    assert (
        session.isolation
        is {"namespace": IsolationLevel.NAMESPACE, "syscall-filter": IsolationLevel.SYSCALL_FILTER}[tier]
    )


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["no-such-program"], 127, "no-such-program: not found\n"),
        (["./no-such-file"], 127, "./no-such-file: No such file or directory\n"),
        (["./plain"], 126, "./plain: Permission denied\n"),
        (["plain"], 126, "plain: Permission denied\n"),
        (["./garbage"], 126, "./garbage: Exec format error\n"),
        (["./bad-interpreter"], 127, "./bad-interpreter: No such file or directory\n"),
        (["/"], 126, "/: Permission denied\n"),
        (["true", "x" * 200_000], 126, "true: Argument list too long\n"),
    ],
)
@pytest.mark.parametrize("terminal", [None, TerminalSize()])
def test_program_that_cannot_be_run_ends_as_a_shell_would_report_it(
    namespace: SandboxSession, arguments: list[str], code: int, said: str, terminal: TerminalSize | None
) -> None:
    namespace.files.write("plain", "#!/bin/sh\n")
    run(
        namespace,
        "echo garbage > garbage; printf '#!/no/such/shell\\n' > bad-interpreter; chmod +x garbage bad-interpreter",
    )

    result = run(namespace, arguments, environment={"PATH": "/usr/bin:/workspace"}, terminal=terminal)

    output = result.stdout.replace("\r\n", "\n") if terminal else result.stderr
    assert (result.exit_code, output) == (code, said)


def test_request_longer_than_a_message_arrives_whole(session: SandboxSession) -> None:
    environment = {f"VARIABLE_{number}": "v" * 50_000 for number in range(4)}

    result = run(
        session, ["sh", "-c", "echo ${#VARIABLE_0} ${#VARIABLE_3} ${#1}", "sh", "a" * 100_000], environment=environment
    )

    assert result.stdout == "50000 50000 100000\n"


def test_missing_working_directory_is_an_error_and_nothing_runs(session: SandboxSession) -> None:
    with pytest.raises(SandboxNotFoundError, match="working directory 'no/such'"):
        run(session, "touch ran", working_directory="no/such")

    assert not session.files.exists("ran")


def test_session_variables_reach_every_command_and_the_command_s_own_win(create: Callable) -> None:
    session = create(env={"COLOUR": "blue", "SHAPE": "round"})

    assert run(session, "echo $COLOUR $SHAPE", environment={"SHAPE": "square"}).stdout == "blue square\n"


def test_workspace_is_where_the_spec_says(create: Callable) -> None:
    session = create(workspace_id="/tmp/project")

    assert run(session, "pwd; touch here").stdout == "/tmp/project\n"


def test_many_commands_at_once_each_get_their_own_output(session: SandboxSession) -> None:
    with ThreadPoolExecutor(16) as pool:
        results = list(pool.map(lambda number: run(session, f"cat; echo {number}", stdin=f"in {number} "), range(64)))

    assert [result.stdout for result in results] == [f"in {number} {number}\n" for number in range(64)]


def test_more_commands_than_descriptors_are_refused_not_fatal(create: Callable) -> None:
    own = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, own[1]))
    try:
        session = create()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, own)

    with pytest.raises(SandboxException, match="Too many open files"):
        [session.start(SandboxCommand(command=["sleep", "60"])) for _ in range(128)]

    assert len(session.list_processes()) > 20


# --- streams ------------------------------------------------------------------------------------------------------


def test_only_what_was_written_before_the_exit_is_waited_for(session: SandboxSession) -> None:
    result = run(session, "(while :; do echo noise; done) & sleep 0.1; echo done >&2")

    assert result.exit_code == 0
    assert result.stderr == "done\n"


def test_server_that_logs_to_the_command_s_streams_survives_it(session: SandboxSession) -> None:
    """With the reading ends of its pipes gone, its next line would kill it with SIGPIPE."""
    run(session, "(while :; do echo log; echo log >&2; date > beat; sleep 0.05; done) & sleep 0.2")
    session.files.remove("beat")

    assert eventually(lambda: session.files.exists("beat"))


def test_server_that_fills_its_pipe_after_the_command_goes_on(session: SandboxSession) -> None:
    run(session, "(head -c 3000000 /dev/zero; touch through) &")

    assert eventually(lambda: session.files.exists("through"))


def test_command_that_closes_its_stdin_does_not_stop_the_rest(session: SandboxSession) -> None:
    result = run(session, "exec 0<&-; echo done", stdin=b"x" * 5_000_000)

    assert result.stdout == "done\n"


def test_input_written_from_another_thread_wakes_the_reader(session: SandboxSession) -> None:
    process = session.start(SandboxCommand(command="wc -c", keep_stdin_open=True))
    writer = threading.Thread(target=lambda: (process.write_stdin(b"x" * 3_000_000), process.close_stdin()))

    writer.start()
    result = process.wait()
    writer.join()

    assert result.stdout.strip() == "3000000"


def test_terminal_without_input_ends_at_once(session: SandboxSession) -> None:
    result = run(session, ["cat"], terminal=TerminalSize())

    assert result.exit_code == 0


def test_last_output_of_a_terminal_is_not_lost(session: SandboxSession) -> None:
    for _ in range(20):
        result = run(session, "echo one; sleep 0; echo last", terminal=TerminalSize())
        assert result.stdout == "one\r\nlast\r\n"


# --- stopping -----------------------------------------------------------------------------------------------------

DETACHED = """
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve("/bin/sh", ["sh", "-c", "trap '' TERM; echo $$ > detached; exec sleep 300"], {"PATH": "/bin"})
    os._exit(0)
sys.stdout.write("started")
sys.stdout.flush()
os.execvp("sleep", ["sleep", "300"])
"""


def test_cancel_reaches_a_daemon_that_left_its_session_its_parent_and_its_environment(session: SandboxSession) -> None:
    process = session.start(SandboxCommand(command=["python3", "-c", DETACHED]))
    assert eventually(lambda: session.files.exists("detached") and session.files.read("detached") != b"")
    pid = session.files.read_text("detached").strip()

    assert process.cancel()

    assert process.wait().canceled
    assert eventually(lambda: run(session, f"kill -0 {pid}").exit_code != 0)


def test_cancel_leaves_other_commands_alone(session: SandboxSession) -> None:
    other = session.start(SandboxCommand(command="sleep 0.5; echo finished"))
    process = session.start(SandboxCommand(command="sleep 60"))

    process.cancel()

    assert other.wait().stdout == "finished\n"


def test_signal_without_a_name_is_numbered(session: SandboxSession) -> None:
    result = run(session, "kill -40 $$")

    assert (result.exit_code, result.signal) == (168, "SIG40")


@pytest.fixture
def host_that_hears_no_signals() -> Iterator[None]:
    """Let this process be like one that a shell without job control put into the background."""
    numbers = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("tier", ["namespace", "syscall-filter"])
@pytest.mark.parametrize("terminal", [None, TerminalSize()])
def test_command_hears_every_signal_whatever_the_host_ignores(
    create: Callable[..., SandboxSession], host_that_hears_no_signals: None, tier: str, terminal: TerminalSize | None
) -> None:
    result = run(create(isolation=tier), ["grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"], terminal=terminal)

    blocked, ignored = (int(line.split()[1], 16) for line in result.stdout.splitlines())
    # Not all bits: posix_spawn of glibc leaves the two signals ignored that it keeps for itself.
    assert [number for number in signal.valid_signals() if (blocked | ignored) >> (number - 1) & 1] == []


def test_unknown_signal_is_an_error(session: SandboxSession) -> None:
    process = session.start(SandboxCommand(command="sleep 60"))

    with pytest.raises(SandboxException, match="'SIGNONSENSE' is not the name of a signal"):
        process.kill("SIGNONSENSE")
    process.cancel()


# --- background ---------------------------------------------------------------------------------------------------


def test_attached_command_gives_its_further_output_and_its_end(session: SandboxSession) -> None:
    command = SandboxCommand(
        command="while [ ! -e go ]; do sleep 0.02; done; echo out; echo err >&2; exit 3", command_id="job"
    )
    session.start(command).detach()
    assert [process.command_id for process in session.list_processes()] == ["job"]

    attached = session.attach("job")
    session.files.write("go", "")
    result = attached.wait()

    assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "err\n", 3)
    assert session.list_processes() == []


def test_attached_command_that_closed_a_stream_keeps_the_other_apart(session: SandboxSession) -> None:
    command = SandboxCommand(command="exec >&-; while [ ! -e go ]; do sleep 0.02; done; echo err >&2", command_id="job")
    session.start(command).detach()
    run(session, "sleep 0.2")

    attached = session.attach("job")
    session.files.write("go", "")
    result = attached.wait()

    assert (result.stdout, result.stderr) == ("", "err\n")


def test_command_that_is_followed_cannot_be_attached_a_second_time(session: SandboxSession) -> None:
    process = session.start(SandboxCommand(command="sleep 60", command_id="job"))

    with pytest.raises(SandboxConflictError, match="followed already"):
        session.attach("job")
    process.cancel()


def test_command_that_ended_cannot_be_attached(session: SandboxSession) -> None:
    run(session, "true", command_id="job")

    with pytest.raises(SandboxNotFoundError, match="no command 'job' runs"):
        session.attach("job")


# --- the whole sandbox --------------------------------------------------------------------------------------------


def test_paused_sandbox_stands_still_and_starts_nothing(session: SandboxSession) -> None:
    session.start(SandboxCommand(command="while :; do date +%N > beat; done")).detach()
    assert eventually(lambda: session.files.exists("beat"))

    session.pause()
    first = session.files.read("beat")
    with pytest.raises(SandboxConflictError, match="paused"):
        run(session, "true")
    second = session.files.read("beat")
    session.resume()

    assert first == second
    assert eventually(lambda: session.files.read("beat") not in (b"", first))


def test_paused_command_can_be_cancelled(session: SandboxSession) -> None:
    process = session.start(SandboxCommand(command="sleep 60"))

    session.pause()

    assert process.cancel()
    assert process.wait().canceled


def test_metrics_tell_what_is_in_use(create: Callable) -> None:
    session = create(workspaceMegabytes=8)
    session.files.write("file", b"x" * 2_000_000)

    metrics = session.metrics()

    assert metrics.memory_bytes > 1_000_000
    assert metrics.disk_bytes >= 2_000_000
    assert metrics.disk_limit_bytes == 8 * 1024 * 1024


def test_tier_without_a_network_of_its_own_has_no_ports_and_says_so(create: Callable) -> None:
    session = create(isolation="syscall-filter")

    assert not isinstance(session, SupportsPorts)
    assert Capability.PORTS not in session.capabilities
    with pytest.raises(UnsupportedCapabilityError, match="port_url"):
        session.port_url(80)


# --- what must not end the sandbox --------------------------------------------------------------------------------


def test_command_whose_time_is_over_before_it_has_started_is_timed_out_and_stopped(session: SandboxSession) -> None:
    results = [session.execute(SandboxCommand(command="sleep 7.77", timeout_millis=1)) for _ in range(50)]

    assert [result.timed_out for result in results] == [True] * 50
    assert session.list_processes() == []


def test_command_whose_start_is_not_answered_in_time_is_killed(session: SandboxSession) -> None:
    agent = session._sandbox.running.agent_pid
    session.started_seconds = 0.1
    os.kill(agent, signal.SIGSTOP)

    try:
        with pytest.raises(SandboxTimeoutError, match="did not answer"):
            session.start(SandboxCommand(command="sleep 60; touch survived"))
    finally:
        os.kill(agent, signal.SIGCONT)

    assert eventually(lambda: session.list_processes() == [])
    assert not session.files.exists("survived")


@pytest.mark.parametrize(
    "request_",
    [
        {"do": "nonsense"},
        {"do": "stat"},
        {"do": "stat", "path": "\ud800"},
        {"do": "stat", "path": "x\0y"},
        {"do": "make_dir", "path": "a/" * 1500},
        {"do": "list", "path": "/", "depth": "deep"},
        {"do": "extend", "seconds": None},
        {"do": "connect", "port": "http"},
    ],
)
def test_agent_refuses_what_it_cannot_do_and_lives_on(create: Callable, request_: dict[str, object]) -> None:
    session = create(timeoutSeconds=100)

    with pytest.raises(AgentRefusal):
        session._client.call(request_)

    assert run(session, "echo alive").stdout == "alive\n"


def test_life_longer_than_epoll_can_wait_is_lived(create: Callable) -> None:
    session = create(timeoutSeconds=30 * 86400)

    session.extend(60 * 86400)

    assert run(session, "echo alive").stdout == "alive\n"


def test_program_that_is_a_circle_of_links_ends_as_a_shell_would_report_it(session: SandboxSession) -> None:
    run(session, "ln -s circle circle")

    result = run(session, ["./circle"])

    assert (result.exit_code, result.stderr) == (126, "./circle: Too many levels of symbolic links\n")


@pytest.mark.parametrize("port", ["80", True, 80.5, 0, 65536])
def test_port_that_is_none_is_refused_by_name(namespace: SandboxSession, port: object) -> None:
    with pytest.raises(SandboxConfigError, match="port must be"):
        namespace.port_url(port)
