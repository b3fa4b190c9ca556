"""What commands can see and do: each test is a hole that was found, or one that must not open."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ai4j_sandbox.capability import IsolationLevel
from ai4j_sandbox.model import SandboxCommand, SandboxResult
from ai4j_sandbox.spi import SandboxSession
from ai4j_sandbox_local.isolation.layout import interpreter
from ai4j_sandbox_local.session import LocalSession
from support.processes import descendants
from support.secrets import CANARY

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: commands must not keep root's rights")


def run(session: SandboxSession, command: str | list[str]) -> SandboxResult:
    return session.execute(SandboxCommand(command=command, timeout_millis=30_000))


def python(session: SandboxSession, program: str) -> str:
    result = run(session, ["python3", "-c", program])
    assert result.stderr == ""
    return result.stdout.strip()


@as_root
def test_commands_never_run_as_host_user_0(session: SandboxSession) -> None:
    process = session.start(SandboxCommand(command="echo ready; exec sleep 60"))
    next(process.output())

    users = {pid: host_user(pid) for pid in descendants(os.getpid()) if "sleep" in command_line(pid)}

    process.cancel()
    assert len(users) == 1
    assert 0 not in users.values()


def host_user(pid: int) -> int:
    return int(
        next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("Uid:")).split()[
            1
        ]
    )


def command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


def test_kernel_settings_cannot_be_written(session: SandboxSession) -> None:
    """As host user 0 a process without any capability could, for example to core_pattern."""
    opened = python(
        session,
        """
import os
opened = []
for directory, _, names in os.walk("/proc/sys"):
    for name in names:
        try:
            os.close(os.open(os.path.join(directory, name), os.O_WRONLY))
            opened.append(os.path.join(directory, name))
        except OSError:
            pass
print(opened)
""",
    )

    assert opened == "[]"


def test_environment_of_the_host_is_nowhere_in_proc(monkeypatch: pytest.MonkeyPatch, create: Callable) -> None:
    monkeypatch.setenv("E2B_API_KEY", CANARY)
    for tier in ("namespace", "syscall-filter"):
        session = create(isolation=tier)

        found = run(
            session, f"env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n' | grep -a {CANARY[:12]}; true"
        ).stdout

        assert CANARY[:12] not in found


def test_first_process_tells_no_host_path(namespace: SandboxSession) -> None:
    """Where the host's Python lies below a home, its path would name the user."""
    shown = run(namespace, "cat /proc/1/cmdline /proc/1/task/1/cmdline").stdout

    assert shown.replace("\0", " ").split() == ["ai4j-sandbox-agent", "ai4j-sandbox-agent"]


def test_no_process_of_ours_that_commands_see_tells_a_host_path(session: LocalSession) -> None:
    agent = session._sandbox.running.agent_pid
    warden = int(Path(f"/proc/{agent}/stat").read_text().rpartition(")")[2].split()[1])
    visible = "".join(f"/proc/{pid}/cmdline " for pid in (agent, warden))

    shown = run(session, f"cat /proc/1/cmdline {visible} 2>/dev/null; true").stdout

    assert interpreter() not in shown
    assert "ai4j-sandbox-agent" in shown
    assert ("ai4j-sandbox-warden" in shown) is (session.isolation is IsolationLevel.SYSCALL_FILTER)


def test_first_process_cannot_be_inspected_or_killed_by_commands(namespace: SandboxSession) -> None:
    result = run(
        namespace, "cat /proc/1/environ /proc/1/maps /proc/1/mem; ls /proc/1/fd; kill -9 1; kill -STOP 1; kill -9 -1"
    )
    after = run(namespace, "echo alive")

    assert result.stdout == ""
    assert after.stdout == "alive\n"


def test_commands_inherit_no_descriptor_of_ours(session: SandboxSession) -> None:
    assert python(session, "import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1])") == "[0, 1, 2]"


def test_nested_user_namespaces_are_refused(session: SandboxSession) -> None:
    assert run(session, ["unshare", "--user", "true"]).exit_code != 0


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("libc.mount(b'none', b'/tmp', b'tmpfs', 0, None)", "EPERM"),
        ("libc.unshare(0x20000000)", "EPERM"),
        ("libc.setns(0, 0)", "EPERM"),
        ("libc.syscall(321 if x86 else 280, 0, 0, 0)", "EPERM"),  # bpf
        ("libc.syscall(425, 1, 0)", "EPERM"),  # io_uring_setup
        ("libc.syscall(250 if x86 else 219, 0, 0)", "EPERM"),  # keyctl
        ("libc.syscall(323 if x86 else 282, 0)", "EPERM"),  # userfaultfd
        ("libc.syscall(298 if x86 else 241, 0, 0, 0, 0, 0)", "EPERM"),  # perf_event_open
        ("libc.syscall(428, -100, b'/', 1)", "EPERM"),  # open_tree
        ("libc.syscall(435, 0, 0)", "ENOSYS"),  # clone3
        ("libc.ioctl(0, 0x5412, b'x')", "EPERM"),  # TIOCSTI
        ("libc.socket(16, 3, 0)", "EAFNOSUPPORT"),  # AF_NETLINK
        ("libc.socket(17, 3, 0)", "EAFNOSUPPORT"),  # AF_PACKET
        ("libc.socket(40, 1, 0)", "EAFNOSUPPORT"),  # AF_VSOCK
        ("libc.socket(38, 5, 0)", "EAFNOSUPPORT"),  # AF_ALG
    ],
)
def test_dangerous_system_call_fails(session: SandboxSession, call: str, expected: str) -> None:
    program = (
        "import ctypes, errno, os; libc = ctypes.CDLL(None, use_errno=True); x86 = os.uname().machine == 'x86_64'\n"
    )

    assert python(session, f"{program}print({call}, errno.errorcode[ctypes.get_errno()])") == f"-1 {expected}"


def test_threads_and_child_processes_work_under_the_filter(session: SandboxSession) -> None:
    program = """
import subprocess, threading
thread = threading.Thread(target=lambda: print("thread", flush=True)); thread.start(); thread.join()
print(subprocess.run(["echo", "child"], capture_output=True, text=True).stdout.strip())
"""
    assert python(session, program) == "thread\nchild"


def test_commands_have_no_capabilities_and_cannot_gain_any(session: SandboxSession) -> None:
    status = dict(
        line.split(":\t")
        for line in run(
            session, "grep -E '^(Cap(Eff|Prm|Inh|Amb)|NoNewPrivs|Seccomp):' /proc/self/status"
        ).stdout.splitlines()
    )

    assert status == {
        "CapInh": "0" * 16,
        "CapPrm": "0" * 16,
        "CapEff": "0" * 16,
        "CapAmb": "0" * 16,
        "NoNewPrivs": "1",
        "Seccomp": "2",
    }


def test_network_is_unreachable(session: SandboxSession) -> None:
    program = """
import socket
try:
    socket.create_connection(("192.0.2.1", 80), 2)
except OSError as error:
    print(error.strerror)
"""
    assert python(session, program) in ("Network is unreachable", "Address family not supported by protocol")


def test_loopback_of_the_host_is_not_reachable_without_network(session: SandboxSession, loopback_port: int) -> None:
    program = f"""
import socket
try:
    socket.create_connection(("127.0.0.1", {loopback_port}), 2)
    print("reached")
except OSError:
    print("refused")
"""
    assert python(session, program) == "refused"


@pytest.mark.parametrize("tier", ["namespace", "syscall-filter"])
def test_network_is_the_host_s_when_asked_for(create: Callable, tier: str, loopback_port: int) -> None:
    session = create(isolation=tier, network=True)

    program = f"import socket; socket.create_connection(('127.0.0.1', {loopback_port}), 2); print('reached')"

    assert python(session, program) == "reached"


def test_host_files_cannot_be_written(session: SandboxSession, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    target = tmp_path / "planted"

    for path in (target, "/planted", "/usr/planted", "/etc/planted", "/dev/planted"):
        assert run(session, ["touch", str(path)]).exit_code != 0
    assert not target.exists()


def test_private_parts_of_the_host_are_not_there(session: SandboxSession, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(CANARY)

    result = run(session, f"cat /etc/shadow {secret}; ls /sys/kernel /boot /home/* /var/log")

    assert CANARY not in result.stdout
    assert result.exit_code != 0


def test_root_and_dev_are_read_only_but_devices_work(namespace: SandboxSession) -> None:
    result = run(
        namespace,
        "mkdir /x; touch /dev/x; echo discarded > /dev/null; head -c 3 /dev/zero | wc -c; echo y > /dev/shm/y",
    )

    assert result.stdout == "3\n"
    assert result.exit_code == 0


def test_own_processes_are_all_that_is_seen(namespace: SandboxSession) -> None:
    seen = run(namespace, "ls -d /proc/[0-9]* | wc -l").stdout

    assert int(seen) < 8


def test_python_inside_is_the_one_that_runs_us(session: SandboxSession) -> None:
    """Mounted at another path it would load the library of the system's Python, and be another version."""
    import sys

    inside = json.loads(
        python(session, "import json, sys; print(json.dumps([list(sys.version_info[:3]), sys.base_prefix]))")
    )

    assert inside == [list(sys.version_info[:3]), os.path.realpath(sys.base_prefix)]


def test_start_files_of_a_shell_never_come_from_the_host(
    monkeypatch: pytest.MonkeyPatch, shared_directory: Path, create: Callable
) -> None:
    start_file = shared_directory / "start"
    start_file.write_text("echo X\n")
    for name in ("BASH_ENV", "ENV"):
        monkeypatch.setenv(name, str(start_file))
    mount = {"source": str(shared_directory), "target": str(shared_directory)}

    for shell in ("/bin/sh", "/bin/bash"):
        assert run(create(shell=shell, mounts=[mount]), "echo hi").stdout == "hi\n"


def test_syscall_filter_tier_keeps_commands_from_signalling_other_processes(create: Callable) -> None:
    session = create(isolation="syscall-filter")

    result = run(session, f"kill -0 {os.getpid()}; kill -0 {os.getppid()}")

    assert result.exit_code != 0
    assert "ot permitted" in result.stderr


def test_commands_of_one_session_can_signal_each_other(session: SandboxSession) -> None:
    server = session.start(SandboxCommand(command=["sleep", "60"]))

    stopped = run(session, f"kill {server.pid}")

    assert stopped.exit_code == 0
    assert server.wait().signal == "SIGTERM"


def test_sessions_do_not_see_each_other(create: Callable) -> None:
    for tier in ("namespace", "syscall-filter"):
        one, other = create(isolation=tier), create(isolation=tier)
        path = run(one, "echo mine > file; realpath file").stdout.strip()

        assert run(other, f"cat {path}").exit_code != 0
