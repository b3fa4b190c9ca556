"""The service ``filesystem.Filesystem``: look, list, make, move, remove and watch."""

from __future__ import annotations

import asyncio
import posixpath
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from ai4j_sandbox.aio import in_thread
from ai4j_sandbox.errors import SandboxException, SandboxNotFoundError
from ai4j_sandbox.files import FileKind, SandboxFiles
from ai4j_sandbox_emulator.sandbox import Sandbox
from ai4j_sandbox_emulator.watching import Change, ChangeEvent, Listing, Watcher, listing

from . import messages
from .call import Batches, Call, Method, ServerStream, Unary
from .codec import Document
from .connect import Code, ConnectError, as_connect_error, keepalive_seconds, timeout_seconds
from .entries import describe, find, list_directory, look, missing_parents, require_directory

WATCH_SECONDS = 0.1
"""How often a streamed watch compares listings."""

_RECURSIVE_DEPTH = 64
_EVENT_TYPES = {change: f"EVENT_TYPE_{change.name}" for change in Change}

T = TypeVar("T")


class FilesystemService:
    """The methods of ``filesystem.Filesystem``."""

    def methods(self) -> Mapping[str, Method]:
        """Return the methods by name."""
        return {
            "Stat": Unary(request=messages.PATH_REQUEST, response=messages.ENTRY_RESPONSE, method=self.stat),
            "ListDir": Unary(
                request=messages.LIST_DIR_REQUEST, response=messages.LIST_DIR_RESPONSE, method=self.list_dir
            ),
            "MakeDir": Unary(request=messages.PATH_REQUEST, response=messages.ENTRY_RESPONSE, method=self.make_dir),
            "Move": Unary(request=messages.MOVE_REQUEST, response=messages.ENTRY_RESPONSE, method=self.move),
            "Remove": Unary(request=messages.PATH_REQUEST, response=messages.EMPTY, method=self.remove),
            "WatchDir": ServerStream(
                request=messages.WATCH_REQUEST, response=messages.WATCH_DIR_RESPONSE, method=self.watch_dir
            ),
            "CreateWatcher": Unary(
                request=messages.WATCH_REQUEST, response=messages.CREATE_WATCHER_RESPONSE, method=self.create_watcher
            ),
            "GetWatcherEvents": Unary(
                request=messages.WATCHER_REQUEST,
                response=messages.WATCHER_EVENTS_RESPONSE,
                method=self.get_watcher_events,
            ),
            "RemoveWatcher": Unary(
                request=messages.WATCHER_REQUEST, response=messages.EMPTY, method=self.remove_watcher
            ),
        }

    # --- entries --------------------------------------------------------------------------------------------------

    async def stat(self, call: Call) -> Document:
        """Describe one path."""
        return {"entry": await _in_files(call.sandbox, _entry, call.path(), call.sandbox.file_metadata)}

    async def list_dir(self, call: Call) -> Document:
        """Describe what is below a directory."""
        path, depth = call.path(), call.document.get("depth") or 1

        def described(files: SandboxFiles) -> list[Document]:
            return [describe(files, entry, call.sandbox.file_metadata) for entry in list_directory(files, path, depth)]

        return {"entries": await _in_files(call.sandbox, described)}

    async def make_dir(self, call: Call) -> Document:
        """Make a directory and its parents."""
        path = call.path()
        made = [*await _in_files(call.sandbox, missing_parents, path), path]
        events = [ChangeEvent(item, change) for item in made for change in (Change.CREATE, Change.CHMOD)]
        await changing(call.sandbox, lambda files: _make_dir(files, path), events)
        return await self.stat(call)

    async def move(self, call: Call) -> Document:
        """Rename a path."""
        source, destination = call.path("source"), call.path("destination")
        events = [ChangeEvent(source, Change.RENAME), ChangeEvent(destination, Change.CREATE)]
        await changing(call.sandbox, lambda files: files.move(source, destination), events)
        _move_metadata(call.sandbox.file_metadata, source, destination)
        return {"entry": await _in_files(call.sandbox, _entry, destination, call.sandbox.file_metadata)}

    async def remove(self, call: Call) -> Document:
        """Remove a path with everything below it; nothing there is fine."""
        path = call.path()
        await changing(call.sandbox, lambda files: _remove(files, path), None)
        _move_metadata(call.sandbox.file_metadata, path, None)
        return {}

    # --- watches --------------------------------------------------------------------------------------------------

    async def watch_dir(self, call: Call) -> Batches:
        """Tell of changes below a directory as they are seen."""
        watcher_id, watcher = await _watch(call)
        loop = asyncio.get_running_loop()
        seconds = timeout_seconds(call.headers)
        end = None if seconds is None else loop.time() + seconds
        ping = keepalive_seconds(call.headers)
        try:
            yield [{"start": {}}]
            told = loop.time()
            while end is None or loop.time() < end:
                batch: list[Document] = [{"filesystem": event} for event in await _changes(call, watcher)]
                if not batch and loop.time() - told >= ping:
                    batch = [{"keepalive": {}}]
                if batch:
                    told = loop.time()
                yield batch
                await asyncio.sleep(WATCH_SECONDS)
        finally:
            call.sandbox.watchers.pop(watcher_id, None)
        raise ConnectError(Code.DEADLINE_EXCEEDED, "context deadline exceeded")

    async def create_watcher(self, call: Call) -> Document:
        """Note changes below a directory until they are fetched."""
        watcher_id, _ = await _watch(call)
        return {"watcherId": watcher_id}

    async def get_watcher_events(self, call: Call) -> Document:
        """Return the changes noted since the last time."""
        return {"events": await _changes(call, _watcher(call))}

    async def remove_watcher(self, call: Call) -> Document:
        """Note no more."""
        _watcher(call)
        del call.sandbox.watchers[call.document["watcherId"]]
        return {}


# --- entries ----------------------------------------------------------------------------------------------------------


def _entry(files: SandboxFiles, path: str, metadata: Mapping[str, Mapping[str, str]]) -> Document:
    entry = look(files, path)
    if entry is None:
        raise ConnectError(Code.NOT_FOUND, f"file not found: {path}")
    return describe(files, entry, metadata)


def _make_dir(files: SandboxFiles, path: str) -> None:
    entry = find(files, path)
    if entry is None:
        files.make_dir(path)
    elif entry.kind is FileKind.DIRECTORY:
        raise ConnectError(Code.ALREADY_EXISTS, f"directory already exists: {path}")
    else:
        raise ConnectError(Code.INVALID_ARGUMENT, f"path already exists but it is not a directory: {path}")


def _remove(files: SandboxFiles, path: str) -> None:
    if look(files, path) is not None:
        files.remove(path, recursive=True)


def _move_metadata(metadata: dict[str, dict[str, str]], source: str, destination: str | None) -> None:
    for path in [path for path in metadata if path == source or path.startswith(source + "/")]:
        kept = metadata.pop(path)
        if destination is not None:
            metadata[destination + path[len(source) :]] = kept


async def _in_files(sandbox: Sandbox, work: Callable[..., T], *arguments: object) -> T:
    """Return what `work` makes of the sandbox's files, in a thread; its failures are Connect errors."""
    try:
        return await in_thread(lambda: work(sandbox.session.files, *arguments))
    except SandboxException as error:
        raise as_connect_error(error) from error


# --- watches ----------------------------------------------------------------------------------------------------------


async def changing(sandbox: Sandbox, work: Callable[[SandboxFiles], T], events: Iterable[ChangeEvent] | None) -> T:
    """Return what a change of files returns, and tell the watchers of it.

    Args:
        sandbox: Whose files.
        work: The change; blocks.
        events: What it does, in the kernel's order; ``None`` to find out by comparing.

    Raises:
        ConnectError: It failed.
    """
    if not sandbox.watchers:
        return await _in_files(sandbox, work)
    async with sandbox.files_changing:
        watchers = list(sandbox.watchers.values())
        for watcher in watchers:
            watcher.compare(await _scan(sandbox, watcher.path, watcher.recursive))
        result = await _in_files(sandbox, work)
        for watcher in watchers:
            now = await _scan(sandbox, watcher.path, watcher.recursive)
            if events is None:
                watcher.compare(now)
            else:
                watcher.tell(events, now)
    return result


async def _watch(call: Call) -> tuple[str, Watcher]:
    path, recursive = call.path(), call.document.get("recursive", False)
    directory = await _in_files(call.sandbox, require_directory, path)
    async with call.sandbox.files_changing:
        first = await _scan(call.sandbox, directory.path, recursive)
        include_entry = call.document.get("includeEntry", False)
        watcher = Watcher(directory.path, recursive=recursive, include_entry=include_entry, first=first)
        watcher_id = f"w{uuid.uuid4().hex[:20]}"
        call.sandbox.watchers[watcher_id] = watcher
    return watcher_id, watcher


async def _scan(sandbox: Sandbox, path: str, recursive: bool) -> Listing:
    def scanned(files: SandboxFiles) -> Listing:
        try:
            return listing(files.list(path, depth=_RECURSIVE_DEPTH if recursive else 1))
        except SandboxNotFoundError:
            return {}  # the directory itself was removed

    return await _in_files(sandbox, scanned)


async def _changes(call: Call, watcher: Watcher) -> list[Document]:
    async with call.sandbox.files_changing:
        watcher.compare(await _scan(call.sandbox, watcher.path, watcher.recursive))
    return [await _event(call, watcher, event) for event in watcher.drain()]


async def _event(call: Call, watcher: Watcher, event: ChangeEvent) -> Document:
    document: Document = {
        "name": posixpath.relpath(event.path, watcher.path),
        "type": _EVENT_TYPES[event.change],
    }
    if watcher.include_entry:
        document["entry"] = await _in_files(call.sandbox, _entry_if_any, event.path, call.sandbox.file_metadata)
    return document


def _entry_if_any(files: SandboxFiles, path: str, metadata: Mapping[str, Mapping[str, str]]) -> Document | None:
    entry = look(files, path)
    return None if entry is None else describe(files, entry, metadata)


def _watcher(call: Call) -> Watcher:
    watcher_id = call.document.get("watcherId", "")
    watcher = call.sandbox.watchers.get(watcher_id)
    if watcher is None:
        raise ConnectError(Code.NOT_FOUND, f"watcher with id {watcher_id} not found")
    return watcher
