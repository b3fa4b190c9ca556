"""Operations of the official ``e2b`` SDK, run by a Python that has it and not our code; prints a JSON report.

Each function with `@operation` is one operation; the report says ``"ok"``, ``"skipped: …"`` or what went wrong. The
variables that point the SDK at the emulator come from whoever starts this.
"""

from __future__ import annotations

import asyncio
import io
import json
import sys
import time
import traceback
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from e2b import (
    AsyncSandbox,
    AuthenticationException,
    CommandExitException,
    FilesystemEventType,
    FileType,
    InvalidArgumentException,
    NotFoundException,
    PtySize,
    Sandbox,
    SandboxException,
    SandboxQuery,
    SandboxState,
    TimeoutException,
)

OPERATIONS: dict[str, Callable[[Sandbox], None]] = {}
PATIENCE_SECONDS = 10


class Skip(Exception):
    """This SDK does not have it."""


def operation(function: Callable[[Sandbox], None]) -> Callable[[Sandbox], None]:
    """Register an operation under its own name."""
    OPERATIONS[function.__name__] = function
    return function


@contextmanager
def raises(kind: type[BaseException]) -> Iterator[None]:
    """Fail unless the block raises `kind`."""
    try:
        yield
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was not raised")


@contextmanager
def another_sandbox(**options: object) -> Iterator[Sandbox]:
    """A sandbox of one's own."""
    sandbox = Sandbox.create(**{"timeout": 60, **options})
    try:
        yield sandbox
    finally:
        sandbox.kill()


@contextmanager
def exits(code: int, **output: str) -> Iterator[None]:
    """Fail unless the block raises the exit of a command with this code, and with this output where given."""
    try:
        yield
    except CommandExitException as error:
        found = {name: getattr(error, name) for name in output}
        if (error.exit_code, found) != (code, output):
            raise AssertionError(f"exit code {error.exit_code}, {found}") from error
        return
    raise AssertionError("no CommandExitException was raised")


def until(claim: Callable[[], bool]) -> None:
    """Wait until a claim is true; fail when it stays false."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not claim():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


# --- commands ---------------------------------------------------------------------------------------------------------


@operation
def run_returns_output_and_exit_code(sandbox: Sandbox) -> None:
    result = sandbox.commands.run("echo out; echo err >&2")
    assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "err\n", 0), result


@operation
def run_raises_for_a_failed_command_with_its_output(sandbox: Sandbox) -> None:
    with exits(3, stdout="half\n", stderr="bad\n"):
        sandbox.commands.run("echo half; echo bad >&2; exit 3")


@operation
def an_unknown_program_is_exit_127(sandbox: Sandbox) -> None:
    with exits(127):
        sandbox.commands.run("no-such-program-here")


@operation
def callbacks_get_output_as_it_arrives(sandbox: Sandbox) -> None:
    out: list[str] = []
    err: list[str] = []
    sandbox.commands.run("for i in 1 2 3; do echo $i; echo e$i >&2; done", on_stdout=out.append, on_stderr=err.append)
    assert ("".join(out), "".join(err)) == ("1\n2\n3\n", "e1\ne2\ne3\n")


@operation
def environment_of_create_and_run_are_merged(sandbox: Sandbox) -> None:
    result = sandbox.commands.run("echo $FROM_CREATE $FROM_RUN $E2B_SANDBOX_ID", envs={"FROM_RUN": "run"})
    assert result.stdout == f"create run {sandbox.sandbox_id}\n", result


@operation
def the_default_user_is_at_home(sandbox: Sandbox) -> None:
    assert sandbox.commands.run("pwd; echo $HOME $USER").stdout == "/home/user\n/home/user user\n"


@operation
def root_is_another_user(sandbox: Sandbox) -> None:
    assert sandbox.commands.run("echo $HOME $USER", user="root").stdout == "/root root\n"


@operation
def an_unknown_user_is_refused(sandbox: Sandbox) -> None:
    with raises(AuthenticationException):
        sandbox.commands.run("true", user="nobody-knows")


@operation
def a_working_directory_is_used(sandbox: Sandbox) -> None:
    assert sandbox.commands.run("pwd", cwd="/tmp").stdout == "/tmp\n"


@operation
def a_missing_working_directory_is_refused(sandbox: Sandbox) -> None:
    with raises(InvalidArgumentException):
        sandbox.commands.run("true", cwd="/no/such/directory")


@operation
def unicode_survives_chunk_borders(sandbox: Sandbox) -> None:
    text = "\U0001f600é" * 20_000
    sandbox.files.write("unicode.txt", text)
    assert sandbox.commands.run("cat unicode.txt").stdout == text


@operation
def five_megabytes_of_output_arrive(sandbox: Sandbox) -> None:
    assert len(sandbox.commands.run("head -c 5000000 /dev/zero | tr '\\0' a").stdout) == 5_000_000


@operation
def a_background_command_is_awaited(sandbox: Sandbox) -> None:
    handle = sandbox.commands.run("sleep 0.1; echo done", background=True)
    assert handle.wait().stdout == "done\n"


@operation
def a_background_command_is_iterated(sandbox: Sandbox) -> None:
    handle = sandbox.commands.run("echo one; echo two >&2", background=True)
    parts = list(handle)
    assert "".join(out for out, _, _ in parts if out) == "one\n", parts
    assert "".join(err for _, err, _ in parts if err) == "two\n", parts


@operation
def stdin_is_sent_and_closed(sandbox: Sandbox) -> None:
    handle = sandbox.commands.run("cat; echo end", background=True, stdin=True)
    sandbox.commands.send_stdin(handle.pid, "first\n")
    sandbox.commands.send_stdin(handle.pid, "second\n")
    sandbox.commands.close_stdin(handle.pid)
    assert handle.wait().stdout == "first\nsecond\nend\n"


@operation
def stdin_is_streamed(sandbox: Sandbox) -> None:
    if not hasattr(sandbox.commands, "stream_input"):
        raise Skip("stream_input is newer")
    handle = sandbox.commands.run("head -c 300000 | wc -c", background=True, stdin=True)
    sandbox.commands.stream_input(handle.pid, (b"x" * 1000 for _ in range(300)))
    assert handle.wait().stdout.strip() == "300000"


@operation
def stdin_of_a_command_without_it_is_refused(sandbox: Sandbox) -> None:
    handle = sandbox.commands.run("sleep 20", background=True)
    with raises(SandboxException):
        sandbox.commands.send_stdin(handle.pid, "text")
    handle.kill()


@operation
def running_commands_are_listed(sandbox: Sandbox) -> None:
    handle = sandbox.commands.run("sleep 20", background=True, envs={"LISTED": "yes"}, cwd="/tmp")
    listed = {process.pid: process for process in sandbox.commands.list()}
    handle.kill()
    found = listed[handle.pid]
    assert (found.cmd, found.args[-1], found.envs, found.cwd) == ("/bin/bash", "sleep 20", {"LISTED": "yes"}, "/tmp"), (
        found
    )


@operation
def a_killed_command_is_gone(sandbox: Sandbox) -> None:
    handle = sandbox.commands.run("exec sleep 20", background=True)
    assert sandbox.commands.kill(handle.pid) is True
    with raises(CommandExitException):
        sandbox.commands.run(f"kill -0 {handle.pid}")
    with exits(-1):
        handle.wait()
    assert handle.pid not in [process.pid for process in sandbox.commands.list()]


@operation
def killing_an_unknown_command_is_false(sandbox: Sandbox) -> None:
    assert sandbox.commands.kill(999_999) is False


@operation
def a_running_command_is_attached_to(sandbox: Sandbox) -> None:
    handle = sandbox.commands.run("read line; echo got $line", background=True, stdin=True)
    other = sandbox.commands.connect(handle.pid)
    sandbox.commands.send_stdin(handle.pid, "it\n")
    assert other.wait().stdout == "got it\n"
    assert handle.wait().stdout == "got it\n"


@operation
def a_command_outlives_its_client(sandbox: Sandbox) -> None:
    handle = sandbox.commands.run("read line; echo late $line", background=True, stdin=True)
    handle.disconnect()
    other = sandbox.commands.connect(handle.pid)
    sandbox.commands.send_stdin(handle.pid, "reader\n")
    assert other.wait().stdout == "late reader\n"


@operation
def an_ended_command_still_tells_its_exit(sandbox: Sandbox) -> None:
    handle = sandbox.commands.run("exit 5", background=True)
    with raises(CommandExitException):
        handle.wait()
    with exits(5):
        sandbox.commands.connect(handle.pid).wait()


@operation
def attaching_to_an_unknown_command_fails(sandbox: Sandbox) -> None:
    with raises(NotFoundException):
        sandbox.commands.connect(999_999)


@operation
def a_timeout_kills_the_command(sandbox: Sandbox) -> None:
    handle = sandbox.commands.run("exec sleep 20", background=True, timeout=0.3)
    with raises(TimeoutException):
        handle.wait()
    until(lambda: handle.pid not in [process.pid for process in sandbox.commands.list()])


@operation
def no_timeout_means_no_limit(sandbox: Sandbox) -> None:
    assert sandbox.commands.run("sleep 0.2; echo done", timeout=0).stdout == "done\n"


# --- terminals --------------------------------------------------------------------------------------------------------


@operation
def a_terminal_takes_input(sandbox: Sandbox) -> None:
    shown: list[str] = []
    terminal = sandbox.pty.create(PtySize(rows=24, cols=80), envs={"MARK": "here"})
    sandbox.pty.send_stdin(terminal.pid, b"echo is-$MARK; exit\n")
    terminal.wait(on_pty=lambda data: shown.append(data.decode()))
    assert "is-here" in "".join(shown), shown


@operation
def a_terminal_is_resized(sandbox: Sandbox) -> None:
    shown: list[str] = []
    terminal = sandbox.pty.create(PtySize(rows=24, cols=80))
    sandbox.pty.resize(terminal.pid, PtySize(rows=33, cols=101))
    sandbox.pty.send_stdin(terminal.pid, b"stty size; exit\n")
    terminal.wait(on_pty=lambda data: shown.append(data.decode()))
    assert "33 101" in "".join(shown), shown


@operation
def a_terminal_is_killed(sandbox: Sandbox) -> None:
    terminal = sandbox.pty.create(PtySize(rows=24, cols=80))
    assert sandbox.pty.kill(terminal.pid) is True
    assert sandbox.pty.kill(terminal.pid) is False


@operation
def a_terminal_is_attached_to(sandbox: Sandbox) -> None:
    shown: list[str] = []
    terminal = sandbox.pty.create(PtySize(rows=24, cols=80))
    terminal.disconnect()
    again = sandbox.pty.connect(terminal.pid)
    sandbox.pty.send_stdin(terminal.pid, b"echo back-again; exit\n")
    again.wait(on_pty=lambda data: shown.append(data.decode()))
    assert "back-again" in "".join(shown), shown


# --- files ------------------------------------------------------------------------------------------------------------


@operation
def text_is_written_and_read(sandbox: Sandbox) -> None:
    info = sandbox.files.write("deep/er/text.txt", "héllo")
    assert (info.name, info.path) == ("text.txt", "/home/user/deep/er/text.txt"), info
    assert sandbox.files.read("deep/er/text.txt") == "héllo"


@operation
def bytes_are_written_and_read(sandbox: Sandbox) -> None:
    data = bytes(range(256)) * 1000
    sandbox.files.write("data.bin", data)
    assert bytes(sandbox.files.read("data.bin", format="bytes")) == data
    assert b"".join(sandbox.files.read("data.bin", format="stream")) == data


@operation
def a_file_object_is_uploaded_as_a_stream(sandbox: Sandbox) -> None:
    data = b"stream" * 100_000
    sandbox.files.write("streamed.bin", io.BytesIO(data))
    assert bytes(sandbox.files.read("streamed.bin", format="bytes")) == data


@operation
def gzip_is_used_both_ways(sandbox: Sandbox) -> None:
    text = "again and again " * 1000
    sandbox.files.write("zipped.txt", text, gzip=True)
    assert sandbox.files.read("zipped.txt", gzip=True) == text
    assert sandbox.commands.run("cat zipped.txt").stdout == text


@operation
def several_files_are_written_at_once(sandbox: Sandbox) -> None:
    written = sandbox.files.write_files([{"path": "many/a", "data": "A"}, {"path": "many/b", "data": b"B"}])
    assert [info.path for info in written] == ["/home/user/many/a", "/home/user/many/b"], written
    assert sandbox.commands.run("cat many/a many/b").stdout == "AB"


@operation
def a_shorter_file_replaces_a_longer_one(sandbox: Sandbox) -> None:
    sandbox.files.write("same.txt", "a long first version")
    sandbox.files.write("same.txt", "short")
    assert sandbox.files.read("same.txt") == "short"


@operation
def directories_are_listed_to_a_depth(sandbox: Sandbox) -> None:
    sandbox.commands.run("mkdir -p tree/b/c && touch tree/a tree/b/d tree/b/c/e")
    assert [entry.name for entry in sandbox.files.list("tree")] == ["a", "b"]
    assert [entry.path for entry in sandbox.files.list("tree", depth=2)] == [
        "/home/user/tree/a",
        "/home/user/tree/b",
        "/home/user/tree/b/c",
        "/home/user/tree/b/d",
    ]


@operation
def listing_a_file_or_nothing_fails(sandbox: Sandbox) -> None:
    sandbox.files.write("plain.txt", "x")
    with raises(InvalidArgumentException):
        sandbox.files.list("plain.txt")
    with raises(NotFoundException):
        sandbox.files.list("nothing-here")


@operation
def entries_are_described(sandbox: Sandbox) -> None:
    sandbox.files.write("described.txt", "four")
    sandbox.commands.run("chmod 640 described.txt; ln -sf described.txt link.txt")
    info = sandbox.files.get_info("described.txt")
    assert (info.type, info.size, info.mode, info.permissions) == (FileType.FILE, 4, 0o640, "-rw-r-----"), info
    assert (info.owner, info.group) == ("user", "user"), info
    link = sandbox.files.get_info("link.txt")
    assert (link.symlink_target, link.mode, link.permissions) == (info.path, 0o640, "Lrwxrwxrwx"), link


@operation
def existence_is_told(sandbox: Sandbox) -> None:
    sandbox.files.write("there.txt", "x")
    assert sandbox.files.exists("there.txt") is True
    assert sandbox.files.exists("not-there.txt") is False


@operation
def a_missing_file_is_not_found(sandbox: Sandbox) -> None:
    with raises(NotFoundException):
        sandbox.files.read("no-such-file.txt")
    with raises(NotFoundException):
        sandbox.files.get_info("no-such-file.txt")


@operation
def directories_are_made_once(sandbox: Sandbox) -> None:
    assert sandbox.files.make_dir("made/twice") is True
    assert sandbox.files.make_dir("made/twice") is False


@operation
def files_are_renamed_and_removed(sandbox: Sandbox) -> None:
    sandbox.files.write("old.txt", "content")
    moved = sandbox.files.rename("old.txt", "new/place.txt")
    assert moved.path == "/home/user/new/place.txt", moved
    sandbox.files.remove("new")
    sandbox.files.remove("new")
    assert sandbox.files.exists("new/place.txt") is False


@operation
def metadata_stays_with_the_file(sandbox: Sandbox) -> None:
    written = sandbox.files.write("tagged.txt", "x", metadata={"author": "me"})
    assert written.metadata == {"author": "me"}, written
    assert sandbox.files.rename("tagged.txt", "renamed.txt").metadata == {"author": "me"}
    sandbox.files.write("renamed.txt", "y")
    assert sandbox.files.get_info("renamed.txt").metadata is None


@operation
def a_watch_tells_an_upload_in_three_events(sandbox: Sandbox) -> None:
    sandbox.files.make_dir("watched")
    watch = sandbox.files.watch_dir("watched")
    sandbox.files.write("watched/new.txt", "content")
    events = watch.get_new_events()
    watch.stop()
    kinds = [FilesystemEventType.CREATE, FilesystemEventType.CHMOD, FilesystemEventType.WRITE]
    assert [(event.type, event.name) for event in events] == [(kind, "new.txt") for kind in kinds], events


@operation
def a_recursive_watch_tells_what_commands_do(sandbox: Sandbox) -> None:
    sandbox.files.make_dir("watched-tree/below")
    watch = sandbox.files.watch_dir("watched-tree", recursive=True)
    sandbox.commands.run("echo x > watched-tree/below/made.txt")
    created = watch.get_new_events()
    sandbox.commands.run("rm watched-tree/below/made.txt")
    removed = watch.get_new_events()
    watch.stop()
    assert (FilesystemEventType.CREATE, "below/made.txt") in [(event.type, event.name) for event in created], created
    assert (FilesystemEventType.REMOVE, "below/made.txt") in [(event.type, event.name) for event in removed], removed


@operation
def a_watch_describes_entries_when_asked(sandbox: Sandbox) -> None:
    sandbox.files.make_dir("watched-entries")
    watch = sandbox.files.watch_dir("watched-entries", include_entry=True)
    sandbox.files.write("watched-entries/new.txt", "content")
    events = watch.get_new_events()
    watch.stop()
    assert events[-1].entry.path == "/home/user/watched-entries/new.txt", events


@operation
def watching_nothing_fails(sandbox: Sandbox) -> None:
    with raises(NotFoundException):
        sandbox.files.watch_dir("not-there")


@operation
def signed_urls_need_no_token(sandbox: Sandbox) -> None:
    sandbox.files.write("signed.txt", "for anybody")
    with urllib.request.urlopen(sandbox.download_url("signed.txt", use_signature_expiration=60)) as answer:
        assert answer.read() == b"for anybody"
    form = b'--b\r\nContent-Disposition: form-data; name="file"; filename="up.txt"\r\n\r\nuploaded\r\n--b--\r\n'
    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    urllib.request.urlopen(urllib.request.Request(sandbox.upload_url("up.txt"), form, headers)).close()
    assert sandbox.files.read("up.txt") == "uploaded"
    with raises(urllib.error.HTTPError):
        urllib.request.urlopen(sandbox.download_url("signed.txt").replace("signature=v1_", "signature=v1_X"))


# --- life -------------------------------------------------------------------------------------------------------------


@operation
def a_sandbox_is_described(sandbox: Sandbox) -> None:
    info = sandbox.get_info()
    assert (info.sandbox_id, info.metadata, info.state) == (
        sandbox.sandbox_id,
        {"purpose": "shared & tested"},
        SandboxState.RUNNING,
    ), info
    assert info.end_at > info.started_at


@operation
def sandboxes_are_listed_by_metadata(sandbox: Sandbox) -> None:
    found = Sandbox.list(query=SandboxQuery(metadata={"purpose": "shared & tested"})).next_items()
    assert [item.sandbox_id for item in found] == [sandbox.sandbox_id], found


@operation
def lists_come_in_pages(sandbox: Sandbox) -> None:
    with another_sandbox(metadata={"page": "x"}) as first, another_sandbox(metadata={"page": "x"}) as second:
        pages = Sandbox.list(query=SandboxQuery(metadata={"page": "x"}), limit=1)
        found = [pages.next_items(), pages.next_items()]
        assert pages.has_next is False
        ids = [[item.sandbox_id for item in page] for page in found]
        assert ids == [[second.sandbox_id], [first.sandbox_id]], ids


@operation
def the_time_to_live_is_changed(sandbox: Sandbox) -> None:
    sandbox.set_timeout(120)
    shorter = sandbox.get_info().end_at
    sandbox.set_timeout(300)
    assert 170 < (sandbox.get_info().end_at - shorter).total_seconds() < 190


@operation
def a_sandbox_ends_when_its_time_is_up(sandbox: Sandbox) -> None:
    with another_sandbox(timeout=1) as short:
        until(lambda: not short.is_running())
        with raises(NotFoundException):
            Sandbox.connect(short.sandbox_id)


@operation
def connecting_never_shortens_a_life(sandbox: Sandbox) -> None:
    before = sandbox.get_info().end_at
    again = Sandbox.connect(sandbox.sandbox_id, timeout=1)
    assert again.commands.run("echo same").stdout == "same\n"
    assert again.get_info().end_at == before


@operation
def a_paused_sandbox_goes_on(sandbox: Sandbox) -> None:
    with another_sandbox() as paused:
        handle = paused.commands.run("sleep 30", background=True)
        paused.files.write("kept.txt", "kept")
        paused.pause()
        assert paused.get_info().state == SandboxState.PAUSED
        assert paused.is_running() is False
        resumed = Sandbox.connect(paused.sandbox_id, timeout=60)
        assert resumed.get_info().state == SandboxState.RUNNING
        assert resumed.files.read("kept.txt") == "kept"
        assert handle.pid in [process.pid for process in resumed.commands.list()]


@operation
def pausing_twice_is_told(sandbox: Sandbox) -> None:
    with another_sandbox() as paused:
        paused.pause()
        assert paused.pause() is False


@operation
def a_pause_without_memory_ends_processes(sandbox: Sandbox) -> None:
    with another_sandbox() as paused:
        paused.commands.run("sleep 30", background=True)
        paused.pause(keep_memory=False)
        assert Sandbox.connect(paused.sandbox_id, timeout=60).commands.list() == []


@operation
def a_sandbox_pauses_when_its_time_is_up_and_traffic_wakes_it(sandbox: Sandbox) -> None:
    lifecycle = {"on_timeout": "pause", "auto_resume": True}
    with another_sandbox(timeout=1, lifecycle=lifecycle) as sleeper:
        until(lambda: sleeper.get_info().state == SandboxState.PAUSED)
        assert sleeper.commands.run("echo awake").stdout == "awake\n"
        assert sleeper.get_info().state == SandboxState.RUNNING


@operation
def a_killed_sandbox_is_gone(sandbox: Sandbox) -> None:
    with another_sandbox() as doomed:
        assert doomed.kill() is True
        assert doomed.kill() is False
        assert Sandbox.kill(doomed.sandbox_id) is False
        assert doomed.is_running() is False
        with raises(NotFoundException):
            doomed.get_info()


@operation
def a_command_ends_with_its_sandbox(sandbox: Sandbox) -> None:
    with another_sandbox() as doomed:
        handle = doomed.commands.run("sleep 30", background=True)
        doomed.kill()
        with raises(TimeoutException):
            handle.wait()


@operation
def commands_in_a_dead_sandbox_fail(sandbox: Sandbox) -> None:
    with another_sandbox() as doomed:
        doomed.kill()
        with raises(TimeoutException):
            doomed.commands.run("true")


@operation
def metrics_are_measured(sandbox: Sandbox) -> None:
    metric = sandbox.get_metrics()[-1]
    assert metric.cpu_count >= 1, metric
    assert 0 < metric.mem_used <= metric.mem_total, metric
    assert metric.disk_total > 0, metric


@operation
def a_snapshot_keeps_the_files(sandbox: Sandbox) -> None:
    with another_sandbox() as source:
        source.files.write("state/kept.txt", "from the snapshot")
        snapshot = source.create_snapshot()
    listed = Sandbox.list_snapshots().next_items()
    assert snapshot.snapshot_id in [item.snapshot_id for item in listed], listed
    with another_sandbox(template=snapshot.snapshot_id) as copy:
        assert copy.files.read("state/kept.txt") == "from the snapshot"
        copy.files.write("state/kept.txt", "changed")
    assert Sandbox.delete_snapshot(snapshot.snapshot_id) is True
    assert Sandbox.delete_snapshot(snapshot.snapshot_id) is False


@operation
def forks_have_files_of_their_own(sandbox: Sandbox) -> None:
    with another_sandbox() as source:
        source.files.write("forked.txt", "before")
        copies = source.fork(count=2)
        copies[0].files.write("forked.txt", "after")
        assert [copy.files.read("forked.txt") for copy in (source, *copies)] == ["before", "after", "before"]
        for copy in copies:
            copy.kill()


@operation
def network_rules_are_recorded(sandbox: Sandbox) -> None:
    with another_sandbox(allow_internet_access=False) as closed:
        assert closed.get_info().allow_internet_access is False
        closed.update_network({"deny_out": ["0.0.0.0/0"], "allow_out": ["1.1.1.1"]})
        network = closed.get_info().network
        assert (network["deny_out"], network["allow_out"]) == (["0.0.0.0/0"], ["1.1.1.1"]), network


@operation
def a_wrong_key_is_refused(sandbox: Sandbox) -> None:
    with raises(AuthenticationException):
        Sandbox.create(api_key="no-key-of-theirs", validate_api_key=False)


@operation
def an_impossible_lifetime_is_refused(sandbox: Sandbox) -> None:
    with raises(SandboxException):
        Sandbox.create(timeout=10**7)


# --- asyncio ----------------------------------------------------------------------------------------------------------


async def _async_operations(sandbox_id: str) -> None:
    sandbox = await AsyncSandbox.connect(sandbox_id, timeout=60)
    out: list[str] = []
    result = await sandbox.commands.run("echo async; exit 0", on_stdout=out.append)
    assert (result.exit_code, "".join(out)) == (0, "async\n"), result
    handle = await sandbox.commands.run("cat", background=True, stdin=True)
    await sandbox.commands.send_stdin(handle.pid, "text")
    await sandbox.commands.close_stdin(handle.pid)
    assert (await handle.wait()).stdout == "text"
    with raises(TimeoutException):
        await sandbox.commands.run("sleep 20", timeout=0.3)
    await sandbox.files.write("async.txt", "content")
    assert await sandbox.files.read("async.txt") == "content"


async def _async_watch(sandbox_id: str) -> None:
    sandbox = await AsyncSandbox.connect(sandbox_id, timeout=60)
    await sandbox.files.make_dir("async-watched")
    seen: list[FilesystemEventType] = []
    three = asyncio.Event()

    def note(event: object) -> None:
        seen.append(event.type)
        if len(seen) == 3:
            three.set()

    watch = await sandbox.files.watch_dir("async-watched", on_event=note)
    await sandbox.files.write("async-watched/new.txt", "content")
    await asyncio.wait_for(three.wait(), PATIENCE_SECONDS)
    await watch.stop()
    assert seen == [FilesystemEventType.CREATE, FilesystemEventType.CHMOD, FilesystemEventType.WRITE], seen


async def _async_terminal(sandbox_id: str) -> None:
    sandbox = await AsyncSandbox.connect(sandbox_id, timeout=60)
    shown: list[str] = []
    terminal = await sandbox.pty.create(PtySize(rows=24, cols=80), on_data=lambda data: shown.append(data.decode()))
    await sandbox.pty.send_stdin(terminal.pid, b"echo async-$((40 + 2)); exit\n")
    await terminal.wait()
    assert "async-42" in "".join(shown), shown


@operation
def asyncio_runs_commands_and_moves_files(sandbox: Sandbox) -> None:
    asyncio.run(_async_operations(sandbox.sandbox_id))


@operation
def asyncio_watches_in_a_stream(sandbox: Sandbox) -> None:
    asyncio.run(_async_watch(sandbox.sandbox_id))


@operation
def asyncio_has_terminals(sandbox: Sandbox) -> None:
    asyncio.run(_async_terminal(sandbox.sandbox_id))


# --- report -----------------------------------------------------------------------------------------------------------


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
    options = {"timeout": 300, "metadata": {"purpose": "shared & tested"}, "envs": {"FROM_CREATE": "create"}}
    sandbox = Sandbox.create(**options)
    try:
        chosen = {name: function for name, function in OPERATIONS.items() if not names or name in names}
        report = {name: outcome(function, sandbox) for name, function in chosen.items()}
    finally:
        sandbox.kill()
    json.dump({"operations": report}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
