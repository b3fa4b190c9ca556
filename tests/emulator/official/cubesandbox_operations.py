"""Operations of the official ``cubesandbox`` SDK, run by a Python that has it and not our code; prints a JSON report.

Each function with `@operation` is one operation; the report says ``"ok"``, ``"skipped: …"`` or what went wrong. The
variables that point the SDK at the emulator come from whoever starts this.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import httpx
from cubesandbox import (
    ApiError,
    CubeSandboxError,
    PtySize,
    Sandbox,
    SandboxNotFoundError,
    TemplateNotFoundError,
    __version__,
)

OPERATIONS: dict[str, Callable[[Sandbox], None]] = {}
VERSION = tuple(int(part) for part in __version__.split(".")[:2])


class Skip(Exception):
    """This SDK does not have it."""


def operation(function: Callable[[Sandbox], None]) -> Callable[[Sandbox], None]:
    """Register an operation under its own name."""
    OPERATIONS[function.__name__] = function
    return function


def needs(*version: int) -> None:
    """Skip when the SDK is older."""
    if version > VERSION:
        raise Skip(f"cubesandbox {__version__} does not have it")


@contextmanager
def raises(kind: type[BaseException], text: str = "") -> Iterator[None]:
    """Fail unless the block raises `kind` with this text in it."""
    try:
        yield
    except kind as error:
        if text not in str(error):
            raise AssertionError(f"{text!r} is not in the error") from error
        return
    raise AssertionError(f"{kind.__name__} was not raised")


@contextmanager
def another_sandbox(**options: object) -> Iterator[Sandbox]:
    """A sandbox of one's own."""
    sandbox = Sandbox.create(**{"timeout": 60, **options})
    try:
        yield sandbox
    finally:
        with suppress(SandboxNotFoundError):
            sandbox.kill()
        sandbox.close()


# --- commands -------------------------------------------------------------------------------------------------------


@operation
def run_returns_output_and_exit_code(sandbox: Sandbox) -> None:
    result = sandbox.commands.run("echo out; echo err >&2; exit 3")
    assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "err\n", 3), result


@operation
def success_is_zero(sandbox: Sandbox) -> None:
    assert sandbox.commands.run("true").exit_code == 0


@operation
def environment_of_create_and_run_are_merged(sandbox: Sandbox) -> None:
    result = sandbox.commands.run("echo $FROM_CREATE $FROM_RUN", envs={"FROM_RUN": "run"})
    assert result.stdout == "create run\n", result


@operation
def commands_run_in_the_directory_given(sandbox: Sandbox) -> None:
    assert sandbox.commands.run("pwd", cwd="/tmp").stdout == "/tmp\n"


@operation
def root_is_the_default_user(sandbox: Sandbox) -> None:
    assert sandbox.commands.run("echo $USER").stdout == "root\n"


@operation
def a_bad_directory_is_told(sandbox: Sandbox) -> None:
    with raises(RuntimeError, "invalid_argument"):
        sandbox.commands.run("true", cwd="/no/such/place")


@operation
def a_command_over_its_time_is_told(sandbox: Sandbox) -> None:
    with raises((RuntimeError, httpx.ReadTimeout)):
        sandbox.commands.run("sleep 30", timeout=0.3)


@operation
def a_command_killed_by_a_signal_is_minus_one(sandbox: Sandbox) -> None:
    assert sandbox.commands.run("kill -9 $$").exit_code == -1


@operation
def much_output_arrives_whole(sandbox: Sandbox) -> None:
    result = sandbox.commands.run("head -c 3000000 /dev/zero | tr '\\0' x")
    assert len(result.stdout) == 3_000_000


# --- files ----------------------------------------------------------------------------------------------------------


@operation
def files_are_written_read_and_removed(sandbox: Sandbox) -> None:
    sandbox.files.write("/tmp/official/a.txt", "häl\nlo")
    assert sandbox.files.read("/tmp/official/a.txt") == "häl\nlo"
    assert sandbox.files.exists("/tmp/official/a.txt")
    assert int(sandbox.files.stat("/tmp/official/a.txt")["size"]) == 7
    sandbox.files.remove("/tmp/official/a.txt")
    assert not sandbox.files.exists("/tmp/official/a.txt")


@operation
def directories_are_made_listed_and_renamed(sandbox: Sandbox) -> None:
    sandbox.files.make_dir("/tmp/official-dir")
    sandbox.files.write("/tmp/official-dir/one", b"1")
    assert [entry["name"] for entry in sandbox.files.list("/tmp/official-dir")] == ["one"]
    sandbox.files.rename("/tmp/official-dir/one", "/tmp/official-dir/two")
    assert [entry["name"] for entry in sandbox.files.list("/tmp/official-dir")] == ["two"]


@operation
def many_files_are_written_at_once(sandbox: Sandbox) -> None:
    sandbox.files.write_files([("/tmp/many/a", "1"), ("/tmp/many/b", "2")])
    assert sandbox.commands.run("cat /tmp/many/a /tmp/many/b").stdout == "12"


@operation
def a_missing_file_is_told(sandbox: Sandbox) -> None:
    with raises(OSError):
        sandbox.files.read("/tmp/no-such-file")


@operation
def a_directory_is_watched(sandbox: Sandbox) -> None:
    sandbox.files.make_dir("/tmp/watched")
    writing = threading.Timer(0.3, sandbox.files.write, ("/tmp/watched/new", "x"))
    with sandbox.files.watch_dir("/tmp/watched") as watcher:
        writing.start()
        assert next(iter(watcher)).name == "new"
    writing.join()


# --- terminals ------------------------------------------------------------------------------------------------------


@operation
def a_terminal_takes_input_and_gives_output(sandbox: Sandbox) -> None:
    handle = sandbox.pty.create(PtySize(rows=30, cols=100))
    handle.send_stdin(b"stty size; exit\n")
    seen = b"".join(getattr(chunk, "data", chunk) for chunk in handle)
    assert b"30 100" in seen, seen


# --- life -----------------------------------------------------------------------------------------------------------


@operation
def health_counts_sandboxes(sandbox: Sandbox) -> None:
    assert Sandbox.health()["status"] == "ok"


@operation
def info_tells_what_was_asked_for(sandbox: Sandbox) -> None:
    info = sandbox.get_info()
    assert (info["sandboxID"], info["state"]) == (sandbox.sandbox_id, "running")
    assert info["metadata"] == {"purpose": "shared"}


@operation
def lists_hold_the_sandbox(sandbox: Sandbox) -> None:
    for found in (Sandbox.list(), Sandbox.list_v2()):
        assert sandbox.sandbox_id in [item["sandboxID"] for item in found]


@operation
def connect_gives_a_second_handle(sandbox: Sandbox) -> None:
    again = Sandbox.connect(sandbox.sandbox_id)
    assert again.commands.run("echo again").stdout == "again\n"
    again.close()


@operation
def connecting_to_what_is_not_there_is_told(sandbox: Sandbox) -> None:
    with raises(SandboxNotFoundError):
        Sandbox.connect("0" * 32)


@operation
def a_killed_sandbox_is_gone(sandbox: Sandbox) -> None:
    with another_sandbox() as other:
        other.kill()
        with raises(SandboxNotFoundError):
            other.kill()
        with raises(RuntimeError, "410"):
            other.commands.run("true")


@operation
def a_paused_sandbox_goes_on_after_resuming(sandbox: Sandbox) -> None:
    with another_sandbox() as other:
        other.commands.run("echo kept > /tmp/kept")
        other.pause(interval=0.05)
        other.resume()
        assert other.commands.run("cat /tmp/kept").stdout == "kept\n"
        with raises(ApiError):
            other.resume()


@operation
def connecting_wakes_a_paused_sandbox(sandbox: Sandbox) -> None:
    with another_sandbox() as other:
        other.pause(interval=0.05)
        again = Sandbox.connect(other.sandbox_id)
        assert again.commands.run("echo awake").stdout == "awake\n"
        again.close()


@operation
def traffic_wakes_a_sandbox_that_may_be_woken(sandbox: Sandbox) -> None:
    with another_sandbox(lifecycle={"on_timeout": "pause", "auto_resume": True}) as other:
        other.pause(interval=0.05)
        assert other.commands.run("echo awake").stdout == "awake\n"


@operation
def an_idle_sandbox_ends(sandbox: Sandbox) -> None:
    with another_sandbox(timeout=1) as other:
        end = time.monotonic() + 10
        while other.sandbox_id in [item["sandboxID"] for item in Sandbox.list()]:
            assert time.monotonic() < end, "it never ended"
            time.sleep(0.05)


@operation
def timeouts_are_set_and_taken_away(sandbox: Sandbox) -> None:
    needs(0, 7)
    with another_sandbox() as other:
        other.set_timeout(120)
        assert other.get_info().get("endAt")
        other.set_timeout(-1)
        assert other.get_info().get("endAt") is None


# --- network, copies ------------------------------------------------------------------------------------------------


@operation
def a_sandbox_without_public_traffic_asks_for_its_token(sandbox: Sandbox) -> None:
    with another_sandbox(network={"allow_public_traffic": False}) as other:
        assert other.traffic_access_token
        assert other.commands.run("echo in").stdout == "in\n"
        outside = Sandbox.connect(other.sandbox_id)
        with raises(RuntimeError, "403"):
            outside.commands.run("true")
        outside.close()


@operation
def the_network_is_changed(sandbox: Sandbox) -> None:
    needs(0, 7)
    with another_sandbox() as other:
        other.update_network({"allow_internet_access": False})


@operation
def a_domain_needs_the_rest_to_be_denied(sandbox: Sandbox) -> None:
    with raises((ApiError, ValueError)):
        Sandbox.create(network={"allow_out": ["example.org"]})


@operation
def snapshots_are_made_listed_used_and_deleted(sandbox: Sandbox) -> None:
    with another_sandbox() as other:
        other.commands.run("echo kept > ~/kept")
        kept = other.create_snapshot("a-name")
        listed, _ = Sandbox.list_snapshots(sandbox_id=other.sandbox_id)
        assert [item.snapshot_id for item in listed] == [kept.snapshot_id]
        with another_sandbox(template=kept.snapshot_id) as copy:
            assert copy.commands.run("cat ~/kept").stdout == "kept\n"
            with raises(ApiError):
                Sandbox.delete_snapshot(kept.snapshot_id)
        Sandbox.delete_snapshot(kept.snapshot_id)
        with raises(TemplateNotFoundError):
            Sandbox.create(kept.snapshot_id)


@operation
def rollback_undoes(sandbox: Sandbox) -> None:
    with another_sandbox() as other:
        other.commands.run("echo before > ~/file")
        kept = other.create_snapshot()
        other.commands.run("echo after > ~/file; touch ~/new")
        other.rollback(kept.snapshot_id)
        assert other.commands.run("cat ~/file; ls ~/new").stdout == "before\n"
        Sandbox.delete_snapshot(kept.snapshot_id)


@operation
def clones_go_on_from_here_and_leave_no_snapshot(sandbox: Sandbox) -> None:
    with another_sandbox() as other:
        other.commands.run("echo cloned > ~/file")
        clones = other.clone(2)
        assert [clone.commands.run("cat ~/file").stdout for clone in clones] == ["cloned\n"] * 2
        for clone in clones:
            clone.kill()
            clone.close()
        needs(0, 7)  # before, the snapshot stayed
        assert Sandbox.list_snapshots(sandbox_id=other.sandbox_id)[0] == []


@operation
def code_needs_a_template_with_an_interpreter(sandbox: Sandbox) -> None:
    with raises(CubeSandboxError, "502"):
        sandbox.run_code("1 + 1", timeout=5)


def outcome(function: Callable[[Sandbox], None], sandbox: Sandbox) -> str:
    """Run one operation and say what became of it."""
    try:
        function(sandbox)
    except Skip as reason:
        return f"skipped: {reason}"
    except Exception:  # noqa: BLE001  whatever the SDK raises is the finding
        return traceback.format_exc()
    return "ok"


def main(names: list[str]) -> None:
    """Run the operations named, or all, in one shared sandbox."""
    sandbox = Sandbox.create(timeout=300, metadata={"purpose": "shared"}, env_vars={"FROM_CREATE": "create"})
    try:
        chosen = {name: function for name, function in OPERATIONS.items() if not names or name in names}
        report = {name: outcome(function, sandbox) for name, function in chosen.items()}
    finally:
        sandbox.kill()
        sandbox.close()
    json.dump({"operations": report}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
