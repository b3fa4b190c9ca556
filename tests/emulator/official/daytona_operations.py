"""Operations of the official ``daytona`` SDK, run by a Python that has it and not our code; prints a JSON report.

Each function with `@operation` is one operation; the report says ``"ok"``, ``"skipped: …"`` or what went wrong. The
variables that point the SDK at the emulator come from whoever starts this.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
import traceback
import urllib.error
import urllib.request
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from daytona import (
    AsyncDaytona,
    CreateSandboxFromImageParams,
    CreateSandboxFromSnapshotParams,
    Daytona,
    DaytonaError,
    DaytonaNotFoundError,
    FileUpload,
    ListSandboxesQuery,
    Sandbox,
    SessionExecuteRequest,
)
from daytona.common.pty import PtySize

OPERATIONS: dict[str, Callable[[Daytona, Sandbox], None]] = {}
PATIENCE_SECONDS = 10


class Skip(Exception):
    """This SDK does not have it."""


def operation(function: Callable[[Daytona, Sandbox], None]) -> Callable[[Daytona, Sandbox], None]:
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
def another_sandbox(client: Daytona, **options: object) -> Iterator[Sandbox]:
    """A sandbox of one's own."""
    sandbox = client.create(CreateSandboxFromSnapshotParams(**options))
    try:
        yield sandbox
    finally:
        sandbox.delete()


@contextmanager
def session_of(sandbox: Sandbox) -> Iterator[str]:
    """A session of one's own."""
    session = uuid.uuid4().hex
    sandbox.process.create_session(session)
    try:
        yield session
    finally:
        sandbox.process.delete_session(session)


def fresh(sandbox: Sandbox) -> str:
    """A directory of one's own."""
    path = f"{sandbox.get_work_dir()}/{uuid.uuid4().hex}"
    sandbox.fs.create_folder(path, "755")
    return path


def repository(sandbox: Sandbox) -> tuple[str, str]:
    """A cloned repository, and where it was cloned from."""
    folder = fresh(sandbox)
    origin, work = f"{folder}/origin.git", f"{folder}/work"
    script = (
        f"git init -q --bare -b main {origin} && git clone -q {origin} {work}-0 && cd {work}-0 && echo one >a.txt && "
        "git add . && git -c user.name=n -c user.email=e@x.y commit -qm one && git push -q origin HEAD:main"
    )
    done = sandbox.process.exec(script)
    assert done.exit_code == 0, done
    sandbox.git.clone(origin, work)
    return work, origin


# --- commands ---------------------------------------------------------------------------------------------------------


@operation
def exec_returns_both_streams_merged_and_the_exit_code(client: Daytona, sandbox: Sandbox) -> None:
    result = sandbox.process.exec("echo out; echo err >&2; exit 3")
    assert (result.result, result.exit_code) == ("out\nerr\n", 3), result


@operation
def exec_takes_directory_and_variables(client: Daytona, sandbox: Sandbox) -> None:
    result = sandbox.process.exec('pwd; echo "$WORD"', cwd="/tmp", env={"WORD": "two  words"})
    assert result.result == "/tmp\ntwo  words\n", result


@operation
def exec_that_takes_too_long_fails(client: Daytona, sandbox: Sandbox) -> None:
    started = time.monotonic()
    with raises(DaytonaError):
        sandbox.process.exec("sleep 30", timeout=1)
    assert time.monotonic() - started < 10


@operation
def exec_in_a_missing_directory_has_a_negative_code(client: Daytona, sandbox: Sandbox) -> None:
    assert sandbox.process.exec("pwd", cwd="/no/such").exit_code == -1


@operation
def exec_keeps_large_output(client: Daytona, sandbox: Sandbox) -> None:
    assert len(sandbox.process.exec("head -c 3000000 /dev/zero | tr '\\0' a").result) == 3_000_000


@operation
def two_execs_run_side_by_side(client: Daytona, sandbox: Sandbox) -> None:
    started = time.monotonic()
    threads = [threading.Thread(target=sandbox.process.exec, args=("sleep 1",)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.monotonic() - started < 1.9


@operation
def code_runs_in_python(client: Daytona, sandbox: Sandbox) -> None:
    result = sandbox.process.code_run("import sys; print(sum(range(10)))")
    assert (result.result.strip(), result.exit_code) == ("45", 0), result


@operation
def code_that_fails_shows_its_traceback(client: Daytona, sandbox: Sandbox) -> None:
    result = sandbox.process.code_run("1/0")
    assert result.exit_code == 1, result
    assert "ZeroDivisionError" in result.result


@operation
def session_keeps_directory_and_variables(client: Daytona, sandbox: Sandbox) -> None:
    with session_of(sandbox) as session:
        execute = sandbox.process.execute_session_command
        execute(session, SessionExecuteRequest(command="cd /tmp; WORD=kept"))
        result = execute(session, SessionExecuteRequest(command="pwd; echo $WORD; echo err >&2"))
        assert (result.stdout, result.stderr, result.exit_code) == ("/tmp\nkept\n", "err\n", 0), result
        listed = sandbox.process.get_session(session)
        assert [command.exit_code for command in listed.commands] == [0, 0]


@operation
def session_logs_are_streamed(client: Daytona, sandbox: Sandbox) -> None:
    with session_of(sandbox) as session:
        request = SessionExecuteRequest(command="echo one; sleep 0.3; echo two; echo bad >&2; false", run_async=True)
        command = sandbox.process.execute_session_command(session, request).cmd_id
        out: list[str] = []
        err: list[str] = []
        asyncio.run(sandbox.process.get_session_command_logs_async(session, command, out.append, err.append))
        assert ("".join(out), "".join(err)) == ("one\ntwo\n", "bad\n"), (out, err)
        assert sandbox.process.get_session_command(session, command).exit_code == 1
        logs = sandbox.process.get_session_command_logs(session, command)
        assert (logs.stdout, logs.stderr) == ("one\ntwo\n", "bad\n"), logs


@operation
def session_command_takes_input(client: Daytona, sandbox: Sandbox) -> None:
    with session_of(sandbox) as session:
        request = SessionExecuteRequest(command='read line; echo "got $line"', run_async=True)
        command = sandbox.process.execute_session_command(session, request).cmd_id
        sandbox.process.send_session_command_input(session, command, "hello\n")
        until(lambda: sandbox.process.get_session_command(session, command).exit_code == 0)
        assert "got hello" in sandbox.process.get_session_command_logs(session, command).stdout


@operation
def sessions_are_listed_and_deleted(client: Daytona, sandbox: Sandbox) -> None:
    with session_of(sandbox) as session:
        assert session in [each.session_id for each in sandbox.process.list_sessions()]
    assert session not in [each.session_id for each in sandbox.process.list_sessions()]
    with raises(DaytonaError):
        sandbox.process.get_session(session)


@operation
def terminal_shows_what_is_typed_and_its_size(client: Daytona, sandbox: Sandbox) -> None:
    handle = sandbox.process.create_pty_session(id=uuid.uuid4().hex, pty_size=PtySize(rows=31, cols=97))
    handle.wait_for_connection()
    handle.send_input("stty size; exit 5\n")
    seen: list[bytes] = []
    result = handle.wait(on_data=seen.append)
    assert b"31 97" in b"".join(seen), seen
    assert result.exit_code == 5, result


@operation
def terminal_is_listed_resized_and_killed(client: Daytona, sandbox: Sandbox) -> None:
    name = uuid.uuid4().hex
    handle = sandbox.process.create_pty_session(id=name)
    handle.wait_for_connection()
    assert name in [each.id for each in sandbox.process.list_pty_sessions()]
    assert sandbox.process.resize_pty_session(name, PtySize(rows=40, cols=120)).cols == 120
    sandbox.process.kill_pty_session(name)
    handle.disconnect()


# --- files ------------------------------------------------------------------------------------------------------------


@operation
def file_is_uploaded_and_downloaded(client: Daytona, sandbox: Sandbox) -> None:
    path, content = f"{fresh(sandbox)}/a file.bin", bytes(range(256)) * 500
    sandbox.fs.upload_file(content, path)
    assert sandbox.fs.download_file(path) == content
    assert sandbox.fs.get_file_info(path).size == len(content)


@operation
def several_files_are_uploaded_at_once(client: Daytona, sandbox: Sandbox) -> None:
    folder = fresh(sandbox)
    sandbox.fs.upload_files([FileUpload(source=name.encode(), destination=f"{folder}/{name}") for name in ("b", "a")])
    assert [info.name for info in sandbox.fs.list_files(folder)] == ["a", "b"]


@operation
def file_is_downloaded_as_a_stream(client: Daytona, sandbox: Sandbox) -> None:
    path = f"{fresh(sandbox)}/big"
    sandbox.fs.upload_file(b"x" * 300_000, path)
    assert b"".join(sandbox.fs.download_file_stream(path)) == b"x" * 300_000


@operation
def missing_file_is_not_found(client: Daytona, sandbox: Sandbox) -> None:
    with raises(DaytonaNotFoundError):
        sandbox.fs.get_file_info("/no/such/file")
    with raises(DaytonaError):
        sandbox.fs.download_file("/no/such/file")


@operation
def files_are_searched_replaced_moved_and_deleted(client: Daytona, sandbox: Sandbox) -> None:
    folder = fresh(sandbox)
    sandbox.fs.upload_file(b"alpha\nbeta\n", f"{folder}/one.txt")
    assert [(match.line, match.content) for match in sandbox.fs.find_files(folder, "beta")] == [(2, "beta")]
    assert sandbox.fs.search_files(folder, "*.txt").files == [f"{folder}/one.txt"]
    sandbox.fs.replace_in_files([f"{folder}/one.txt"], "beta", "gamma")
    sandbox.fs.move_files(f"{folder}/one.txt", f"{folder}/two.txt")
    assert sandbox.fs.download_file(f"{folder}/two.txt") == b"alpha\ngamma\n"
    sandbox.fs.delete_file(f"{folder}/two.txt")
    assert sandbox.fs.list_files(folder) == []


@operation
def permissions_are_set(client: Daytona, sandbox: Sandbox) -> None:
    path = f"{fresh(sandbox)}/script"
    sandbox.fs.upload_file(b"#!/bin/sh\n", path)
    sandbox.fs.set_file_permissions(path, mode="750")
    assert sandbox.fs.get_file_info(path).permissions == "0750"


# --- git --------------------------------------------------------------------------------------------------------------


@operation
def repository_is_cloned_changed_and_pushed(client: Daytona, sandbox: Sandbox) -> None:
    work, origin = repository(sandbox)
    sandbox.fs.upload_file(b"two\n", f"{work}/b.txt")
    status = sandbox.git.status(work)
    assert [(file.name, file.worktree) for file in status.file_status] == [("b.txt", "Untracked")], status
    sandbox.git.add(work, ["b.txt"])
    commit = sandbox.git.commit(work, "two", "Name", "name@example.org")
    assert len(commit.sha) == 40
    assert sandbox.git.status(work).ahead == 1
    sandbox.git.push(work)
    assert commit.sha in sandbox.process.exec(f"git -C {origin} log --format=%H").result


@operation
def branches_are_made_switched_and_deleted(client: Daytona, sandbox: Sandbox) -> None:
    work, _ = repository(sandbox)
    sandbox.git.create_branch(work, "topic")
    sandbox.git.checkout_branch(work, "main")
    assert sorted(sandbox.git.branches(work).branches) == ["main", "topic"]
    sandbox.git.delete_branch(work, "topic")
    assert sandbox.git.branches(work).branches == ["main"]
    assert sandbox.git.status(work).current_branch == "main"


# --- the sandbox ------------------------------------------------------------------------------------------------------


@operation
def labels_are_set_and_found(client: Daytona, sandbox: Sandbox) -> None:
    mark = uuid.uuid4().hex
    with another_sandbox(client, labels={"mark": mark}) as other:
        found = list(client.list(ListSandboxesQuery(labels={"mark": mark})))
        assert [each.id for each in found] == [other.id]
        other.set_labels({"mark": "changed"})
        other.refresh_data()
        assert other.labels["mark"] == "changed"


@operation
def intervals_are_set(client: Daytona, sandbox: Sandbox) -> None:
    with another_sandbox(client, auto_stop_interval=30) as other:
        other.set_autostop_interval(60)
        other.set_auto_archive_interval(120)
        other.set_auto_delete_interval(180)
        other.refresh_data()
        intervals = (other.auto_stop_interval, other.auto_archive_interval, other.auto_delete_interval)
        assert intervals == (60, 120, 180), intervals


@operation
def sandbox_is_stopped_started_and_archived(client: Daytona, sandbox: Sandbox) -> None:
    with another_sandbox(client) as other:
        other.process.exec("echo kept >kept")
        other.stop()
        assert other.state == "stopped", other.state
        with raises(DaytonaError):
            other.process.exec("true")
        other.start()
        assert other.process.exec("cat kept").result == "kept\n"
        other.stop()
        other.archive()
        other.refresh_data()
        assert other.state == "archived", other.state


@operation
def sandbox_is_found_by_id_and_name(client: Daytona, sandbox: Sandbox) -> None:
    name = f"name-{uuid.uuid4().hex[:8]}"
    with another_sandbox(client, name=name) as other:
        assert client.get(other.id).name == name
        assert client.get(name).id == other.id
        with raises(DaytonaError):
            client.create(CreateSandboxFromSnapshotParams(name=name))


@operation
def unknown_sandbox_is_not_found(client: Daytona, sandbox: Sandbox) -> None:
    with raises(DaytonaNotFoundError):
        client.get("no-such-sandbox")


@operation
def deleted_sandbox_is_gone(client: Daytona, sandbox: Sandbox) -> None:
    other = client.create()
    other.delete()
    with raises(DaytonaNotFoundError):
        client.get(other.id)


@operation
def image_is_built_with_logs(client: Daytona, sandbox: Sandbox) -> None:
    logs: list[str] = []
    params = CreateSandboxFromImageParams(image="debian:12", env_vars={"WORD": "given"})
    other = client.create(params, on_snapshot_create_logs=logs.append)
    try:
        assert other.process.exec("echo $WORD").result == "given\n"
        assert any("debian:12" in line for line in logs), logs
    finally:
        other.delete()


@operation
def directories_and_preview_link_are_told(client: Daytona, sandbox: Sandbox) -> None:
    assert sandbox.get_user_home_dir() == sandbox.get_work_dir()
    folder = fresh(sandbox)
    with session_of(sandbox) as session:
        sandbox.fs.upload_file(b"shown", f"{folder}/index.html")
        request = SessionExecuteRequest(command=f"cd {folder} && exec python3 -m http.server 18123", run_async=True)
        sandbox.process.execute_session_command(session, request)
        link = sandbox.get_preview_link(18123)
        until(lambda: fetched(f"{link.url}/index.html", {"x-daytona-preview-token": link.token}) == b"shown")
        signed = sandbox.create_signed_preview_url(18123, expires_in_seconds=60)
        assert fetched(f"{signed.url}/index.html", {}) == b"shown"


@operation
def volumes_are_listed(client: Daytona, sandbox: Sandbox) -> None:
    volume = client.volume.get(f"volume-{uuid.uuid4().hex[:8]}", create=True)
    assert volume.id in [each.id for each in client.volume.list()]
    client.volume.delete(volume)


@operation
def snapshots_are_listed(client: Daytona, sandbox: Sandbox) -> None:
    page = client.snapshot.list()
    assert page.items
    assert client.snapshot.get(page.items[0].name).name == page.items[0].name


@operation
def wrong_key_is_refused(client: Daytona, sandbox: Sandbox) -> None:
    request = urllib.request.Request(f"{os.environ['DAYTONA_API_URL']}/sandbox")
    try:
        status = urllib.request.urlopen(request, timeout=5).status
    except urllib.error.HTTPError as error:
        status = error.code
    assert status == 401, status


@operation
def asynchronous_client_does_the_same(client: Daytona, sandbox: Sandbox) -> None:
    async def work() -> None:
        async with AsyncDaytona() as daytona:
            other = await daytona.create()
            try:
                result = await other.process.exec("echo out; exit 3")
                assert (result.result, result.exit_code) == ("out\n", 3), result
                await other.fs.upload_file(b"content", "note.txt")
                assert await other.fs.download_file("note.txt") == b"content"
                await other.process.create_session("s")
                request = SessionExecuteRequest(command="echo one; echo two >&2", run_async=True)
                command = (await other.process.execute_session_command("s", request)).cmd_id
                out: list[str] = []
                err: list[str] = []
                await other.process.get_session_command_logs_async("s", command, out.append, err.append)
                assert ("".join(out), "".join(err)) == ("one\n", "two\n"), (out, err)
                assert other.id in [each.id async for each in daytona.list()]
                await other.set_labels({"a": "b"})
                await other.set_autostop_interval(5)
            finally:
                await other.delete()

    asyncio.run(work())


@operation
def asynchronous_terminal_does_the_same(client: Daytona, sandbox: Sandbox) -> None:
    async def work() -> None:
        async with AsyncDaytona() as daytona:
            other = await daytona.get(sandbox.id)
            seen: list[bytes] = []
            handle = await other.process.create_pty_session(
                id=uuid.uuid4().hex, on_data=seen.append, pty_size=PtySize(rows=31, cols=97)
            )
            await handle.wait_for_connection()
            await handle.send_input("stty size; exit 0\n")
            result = await handle.wait()
            assert result.exit_code == 0, result
            assert b"31 97" in b"".join(seen), seen

    asyncio.run(work())


def asynchronously(work: Callable[[AsyncDaytona], Awaitable[None]]) -> None:
    """Let something be done with an asynchronous client."""

    async def connected() -> None:
        async with AsyncDaytona() as daytona:
            await work(daytona)

    asyncio.run(connected())


@operation
def asynchronous_code_run_fails_and_succeeds(client: Daytona, sandbox: Sandbox) -> None:
    async def work(daytona: AsyncDaytona) -> None:
        other = await daytona.get(sandbox.id)
        good, bad = await other.process.code_run("print(6 * 7)"), await other.process.code_run("1/0")
        assert (good.result, good.exit_code, bad.exit_code) == ("42\n", 0, 1), (good, bad)

    asynchronously(work)


@operation
def asynchronous_files_are_listed_searched_moved_and_deleted(client: Daytona, sandbox: Sandbox) -> None:
    async def work(daytona: AsyncDaytona) -> None:
        fs, folder = (await daytona.get(sandbox.id)).fs, fresh(sandbox)
        await fs.upload_file(b"alpha\nbeta\n", f"{folder}/one.txt")
        assert [match.line for match in await fs.find_files(folder, "beta")] == [2]
        await fs.move_files(f"{folder}/one.txt", f"{folder}/two.txt")
        await fs.set_file_permissions(f"{folder}/two.txt", mode="600")
        assert [(each.name, each.permissions) for each in await fs.list_files(folder)] == [("two.txt", "0600")]
        assert (await fs.search_files(folder, "*.txt")).files == [f"{folder}/two.txt"]
        await fs.delete_file(f"{folder}/two.txt")
        assert await fs.list_files(folder) == []

    asynchronously(work)


@operation
def asynchronous_repository_is_changed_and_pushed(client: Daytona, sandbox: Sandbox) -> None:
    repo, origin = repository(sandbox)

    async def work(daytona: AsyncDaytona) -> None:
        other = await daytona.get(sandbox.id)
        await other.fs.upload_file(b"two\n", f"{repo}/b.txt")
        assert [each.name for each in (await other.git.status(repo)).file_status] == ["b.txt"]
        await other.git.create_branch(repo, "topic")
        await other.git.checkout_branch(repo, "main")
        await other.git.add(repo, ["b.txt"])
        commit = await other.git.commit(repo, "two", "Name", "name@example.org")
        await other.git.push(repo)
        assert sorted((await other.git.branches(repo)).branches) == ["main", "topic"]
        assert commit.sha in (await other.process.exec(f"git -C {origin} log --format=%H")).result

    asynchronously(work)


@operation
def asynchronous_volumes_and_snapshots_are_listed(client: Daytona, sandbox: Sandbox) -> None:
    async def work(daytona: AsyncDaytona) -> None:
        volume = await daytona.volume.get(f"volume-{uuid.uuid4().hex[:8]}", create=True)
        assert volume.id in [each.id for each in await daytona.volume.list()]
        await daytona.volume.delete(volume)
        page = await daytona.snapshot.list()
        assert (await daytona.snapshot.get(page.items[0].name)).name == page.items[0].name

    asynchronously(work)


@operation
def asynchronous_sandbox_has_labels_intervals_and_a_life(client: Daytona, sandbox: Sandbox) -> None:
    mark = uuid.uuid4().hex

    async def work(daytona: AsyncDaytona) -> None:
        other = await daytona.create(CreateSandboxFromSnapshotParams(labels={"mark": mark}))
        try:
            found = [each.id async for each in daytona.list(ListSandboxesQuery(labels={"mark": mark}))]
            assert found == [other.id], found
            await other.set_labels({"mark": "changed"})
            await other.set_autostop_interval(60)
            await other.set_auto_archive_interval(120)
            await other.set_auto_delete_interval(180)
            await other.refresh_data()
            told = (other.labels["mark"], other.auto_stop_interval, other.auto_archive_interval)
            assert (*told, other.auto_delete_interval) == ("changed", 60, 120, 180)
            await other.stop()
            await other.start()
            assert (await other.process.exec("echo again")).result == "again\n"
            await other.stop()
            await other.archive()
            await other.refresh_data()
            assert other.state == "archived", other.state
        finally:
            await other.delete()

    asynchronously(work)


def until(claim: Callable[[], bool]) -> None:
    """Wait until a claim is true; fail when it stays false."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not claim():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def fetched(url: str, headers: dict[str, str]) -> bytes | None:
    """What an address answers; nothing when it does not."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=5) as answer:
            return answer.read()
    except OSError:
        return None


def outcome(function: Callable[[Daytona, Sandbox], None], client: Daytona, sandbox: Sandbox) -> str:
    """Run one operation and say how it went."""
    try:
        function(client, sandbox)
    except Skip as skip:
        return f"skipped: {skip}"
    except BaseException:  # noqa: BLE001 - the report says it
        return traceback.format_exc()
    return "ok"


def main() -> None:
    """Run everything, or what the arguments name, in one sandbox, and print the report."""
    names = sys.argv[1:] or list(OPERATIONS)
    client = Daytona()
    sandbox = client.create()
    try:
        report = {name: outcome(OPERATIONS[name], client, sandbox) for name in names}
    finally:
        sandbox.delete()
    json.dump({"operations": report}, sys.stdout)


if __name__ == "__main__":
    main()
