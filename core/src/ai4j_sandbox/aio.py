"""The same SPI for asyncio: any provider, also a third party's, run in worker threads.

Providers are written once, synchronously. Each wrapper here has the methods of its synchronous counterpart, awaitable.
Cancelling a task that waits for a command cancels the command in the sandbox, and the task ends once that is
done. Works inside a running loop (notebooks).
"""

from __future__ import annotations

import asyncio
import functools
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from types import TracebackType
from typing import Any, Generic, ParamSpec, Self, TypeVar

from .capability import Admission, Capabilities, IsolationLevel, ProviderInfo, SandboxLocation
from .errors import UnsupportedCapabilityError
from .files import Content, FileInfo, SandboxFiles
from .model import (
    SandboxArtifact,
    SandboxCommand,
    SandboxEvent,
    SandboxResult,
    SandboxSpec,
    SandboxStatus,
    TerminalSize,
)
from .process import OutputChunk, SandboxProcess
from .spi import EventCallback, Health, SandboxProvider, SandboxSession, SupportsConnect, SupportsHealth

P = ParamSpec("P")
T = TypeVar("T")
_END = object()


async def in_thread(function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """Await a blocking call in a thread of its own.

    A thread of its own, not the loop's pool: a command may block for hours, and a pool full of waiting commands
    would keep `cancel` and `close` from ever being called.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def deliver(method: Callable[[Any], None], value: Any) -> None:
        if not future.done():
            method(value)

    def run() -> None:
        try:
            value = function(*arguments, **options)
        except BaseException as error:  # noqa: BLE001  handed to whoever awaits
            _call_soon(loop, deliver, future.set_exception, error)
        else:
            _call_soon(loop, deliver, future.set_result, value)

    threading.Thread(target=run, name=f"ai4j-{getattr(function, '__name__', 'call')}", daemon=True).start()
    return await future


def _call_soon(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *arguments: Any) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(function, *arguments)


async def _stopping(work: asyncio.Future[T], stop: Callable[[], Any]) -> T:
    """Await `work`; when the awaiting task is cancelled, `stop` what it waits for and let it end first."""
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.shield(asyncio.ensure_future(in_thread(stop)))
        work.cancel()
        raise


async def _making(make: Callable[[], T], *, undo: Callable[[T], Any]) -> T:
    """Await something that is being made; when nobody waits for it any more, `undo` it once it is there."""
    making = asyncio.ensure_future(in_thread(make))

    def undo_unwanted(made: asyncio.Future[T]) -> None:
        if not made.cancelled() and made.exception() is None:
            threading.Thread(target=undo, args=(made.result(),), name="ai4j-undo", daemon=True).start()

    try:
        return await asyncio.shield(making)
    except asyncio.CancelledError:
        making.add_done_callback(undo_unwanted)
        raise


class AsyncProcess:
    """A started command for asyncio. ``async for event in process``, then ``await process.wait()``."""

    def __init__(self, process: SandboxProcess) -> None:
        self.sync = process

    @property
    def command_id(self) -> str:
        """Names the command within the session."""
        return self.sync.command_id

    @property
    def pid(self) -> int | None:
        """The process id inside the sandbox, where the service tells."""
        return self.sync.pid

    @property
    def done(self) -> bool:
        """Whether the end of the command has been seen."""
        return self.sync.done

    @property
    def error(self) -> BaseException | None:
        """Why `wait` raises, once the command is over without a result."""
        return self.sync.error

    def __aiter__(self) -> AsyncIterator[SandboxEvent]:
        return self._iterate(iter(self.sync))

    def output(self) -> AsyncIterator[OutputChunk]:
        """Yield the raw output in chunks, as `SandboxProcess.output`."""
        return self._iterate(self.sync.output())

    async def _iterate(self, iterator: Iterator[T]) -> AsyncIterator[T]:
        while (item := await self._await(functools.partial(next, iterator, _END))) is not _END:
            yield item

    async def wait(self) -> SandboxResult:
        """As `SandboxProcess.wait`; cancelling the awaiting task cancels the command."""
        return await self._await(self.sync.wait)

    async def _await(self, function: Callable[[], T]) -> T:
        return await _stopping(asyncio.ensure_future(in_thread(function)), self.sync.cancel)

    async def write_stdin(self, data: bytes | str) -> None:
        """As `SandboxProcess.write_stdin`."""
        await in_thread(self.sync.write_stdin, data)

    async def close_stdin(self) -> None:
        """As `SandboxProcess.close_stdin`."""
        await in_thread(self.sync.close_stdin)

    async def resize(self, size: TerminalSize) -> None:
        """As `SandboxProcess.resize`."""
        await in_thread(self.sync.resize, size)

    async def kill(self, signal: str = "SIGKILL") -> bool:
        """As `SandboxProcess.kill`."""
        return await in_thread(self.sync.kill, signal)

    async def cancel(self) -> bool:
        """As `SandboxProcess.cancel`."""
        return await in_thread(self.sync.cancel)

    async def detach(self) -> None:
        """As `SandboxProcess.detach`."""
        await in_thread(self.sync.detach)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self.done:
            await self.cancel()


class AsyncFiles:
    """A sandbox's files for asyncio; the methods of `SandboxFiles`."""

    def __init__(self, files: Callable[[], SandboxFiles]) -> None:
        self._open = files

    async def _call(self, method: str, *arguments: Any, **options: Any) -> Any:
        return await in_thread(lambda: getattr(self._open(), method)(*arguments, **options))

    async def read_chunks(self, path: str) -> AsyncIterator[bytes]:
        """As `SandboxFiles.read_chunks`."""
        chunks = await in_thread(lambda: iter(self._open().read_chunks(path)))
        while (chunk := await in_thread(functools.partial(next, chunks, None))) is not None:
            yield chunk

    async def write_chunks(self, path: str, chunks: Any) -> None:
        """As `SandboxFiles.write_chunks`."""
        await self._call("write_chunks", path, chunks)

    async def read(self, path: str, *, limit_bytes: int | None = None) -> bytes:
        """As `SandboxFiles.read`."""
        return await in_thread(lambda: self._open().read(path, limit_bytes=limit_bytes))

    async def read_text(self, path: str, *, limit_bytes: int | None = None) -> str:
        """As `SandboxFiles.read_text`."""
        return await in_thread(lambda: self._open().read_text(path, limit_bytes=limit_bytes))

    async def write(self, path: str, content: Content) -> None:
        """As `SandboxFiles.write`."""
        await self._call("write", path, content)

    async def list(self, path: str, *, depth: int = 1) -> list[FileInfo]:
        """As `SandboxFiles.list`."""
        return await in_thread(lambda: self._open().list(path, depth=depth))

    async def stat(self, path: str) -> FileInfo:
        """As `SandboxFiles.stat`."""
        return await in_thread(lambda: self._open().stat(path))

    async def exists(self, path: str) -> bool:
        """As `SandboxFiles.exists`."""
        return await in_thread(lambda: self._open().exists(path))

    async def make_dir(self, path: str) -> None:
        """As `SandboxFiles.make_dir`."""
        await self._call("make_dir", path)

    async def remove(self, path: str, *, recursive: bool = False) -> None:
        """As `SandboxFiles.remove`."""
        await self._call("remove", path, recursive=recursive)

    async def make_executable(self, path: str) -> None:
        """As `SandboxFiles.make_executable`."""
        await self._call("make_executable", path)

    async def move(self, source: str, destination: str) -> None:
        """As `SandboxFiles.move`."""
        await self._call("move", source, destination)

    async def upload(self, source: str | os.PathLike[str], destination: str) -> None:
        """As `SandboxFiles.upload`."""
        await self._call("upload", source, destination)

    async def download(self, source: str, destination: str | os.PathLike[str]) -> None:
        """As `SandboxFiles.download`."""
        await self._call("download", source, destination)


class AsyncSession:
    """A live sandbox for asyncio; the methods of `SandboxSession`. ``async with`` closes it."""

    def __init__(self, session: SandboxSession) -> None:
        self.sync = session

    @property
    def session_id(self) -> str:
        """The sandbox's id at its provider."""
        return self.sync.session_id

    @property
    def provider_id(self) -> str:
        """The provider's id."""
        return self.sync.provider_id

    @property
    def spec(self) -> SandboxSpec:
        """The request, without `config`."""
        return self.sync.spec

    @property
    def status(self) -> SandboxStatus:
        """Where the session is in its life."""
        return self.sync.status

    @property
    def owned(self) -> bool:
        """Whether this session made the sandbox."""
        return self.sync.owned

    @property
    def capabilities(self) -> Capabilities:
        """What this session can do."""
        return self.sync.capabilities

    @property
    def isolation(self) -> IsolationLevel:
        """The isolation in force."""
        return self.sync.isolation

    @property
    def location(self) -> SandboxLocation:
        """Where the sandbox runs."""
        return self.sync.location

    @property
    def files(self) -> AsyncFiles:
        """The sandbox's files."""
        return AsyncFiles(lambda: self.sync.files)

    async def start(self, command: SandboxCommand) -> AsyncProcess:
        """As `SandboxSession.start`."""
        start = functools.partial(self.sync.start, command)
        return AsyncProcess(await _making(start, undo=lambda process: process.cancel()))

    async def start_helper(self, command: SandboxCommand, *, helped_id: str | None = None) -> AsyncProcess:
        """As `SandboxSession.start_helper`."""
        start = functools.partial(self.sync.start_helper, command, helped_id=helped_id)
        return AsyncProcess(await _making(start, undo=lambda process: process.cancel()))

    async def execute(self, command: SandboxCommand, on_event: EventCallback | None = None) -> SandboxResult:
        """As `SandboxSession.execute`; cancelling the task cancels the command. `on_event` runs in the loop."""
        process = await self.start(command)
        if on_event is not None:
            async for event in process:
                on_event(event)
        return await process.wait()

    async def cancel(self, command_id: str) -> bool:
        """As `SandboxSession.cancel`."""
        return await in_thread(self.sync.cancel, command_id)

    async def list_artifacts(self) -> list[SandboxArtifact]:
        """As `SandboxSession.list_artifacts`."""
        return await in_thread(self.sync.list_artifacts)

    async def close(self) -> None:
        """As `SandboxSession.close`."""
        await in_thread(self.sync.close)

    async def call(self, method: str, *arguments: Any) -> Any:
        """Await one of the optional methods by name (``await session.call("port_url", 8000)``).

        Raises:
            UnsupportedCapabilityError: This session does not have it.
        """
        return await in_thread(getattr(self.sync, method), *arguments)

    def subscribe(self, callback: EventCallback) -> None:
        """As `SandboxSession.subscribe`; called from worker threads."""
        self.sync.subscribe(callback)

    def protect(self, *secrets: str) -> None:
        """As `SandboxSession.protect`."""
        self.sync.protect(*secrets)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


ProviderT = TypeVar("ProviderT", bound=SandboxProvider)


class AsyncProvider(Generic[ProviderT]):
    """A provider for asyncio; the methods of `SandboxProvider`."""

    def __init__(self, provider: ProviderT) -> None:
        self.sync = provider

    @property
    def provider_id(self) -> str:
        """The id that specs name."""
        return self.sync.provider_id

    @property
    def info(self) -> ProviderInfo:
        """What this provider is and can do."""
        return self.sync.info

    def check(self, spec: SandboxSpec | None) -> Admission:
        """As `SandboxProvider.check`; pure, so not awaitable."""
        return self.sync.check(spec)

    def supports(self, spec: SandboxSpec | None) -> bool:
        """As `SandboxProvider.supports`; pure, so not awaitable."""
        return self.sync.supports(spec)

    async def create_session(self, spec: SandboxSpec | None = None) -> AsyncSession:
        """As `SandboxProvider.create_session`. A sandbox that was created for a cancelled task is closed again."""
        return await self._open(functools.partial(self.sync.create_session, spec))

    async def connect(self, session_id: str, spec: SandboxSpec | None = None) -> AsyncSession:
        """As `SupportsConnect.connect`, for a provider that has it."""
        provider: object = self.sync
        if not isinstance(provider, SupportsConnect):
            raise self._unsupported("connect")
        return await self._open(functools.partial(provider.connect, session_id, spec))

    async def health(self) -> Health:
        """As `SupportsHealth.health`, for a provider that has it."""
        provider: object = self.sync
        if not isinstance(provider, SupportsHealth):
            raise self._unsupported("health")
        return await in_thread(provider.health)

    async def _open(self, create: Callable[[], SandboxSession]) -> AsyncSession:
        return AsyncSession(await _making(create, undo=lambda session: session.close()))

    def _unsupported(self, what: str) -> UnsupportedCapabilityError:
        return UnsupportedCapabilityError(
            f"provider {self.provider_id!r} does not support {what}", provider_id=self.provider_id
        )
