"""The emulator as a whole: faces on loopback ports, served by one thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Protocol, Self, cast

from aiohttp import web

from ai4j_sandbox.deadline import Clock
from ai4j_sandbox.errors import SandboxConfigError
from ai4j_sandbox.model import SandboxSpec
from ai4j_sandbox.registry import SandboxRegistry, default_registry
from ai4j_sandbox.spi import SandboxProvider

from .admin import PREFIX, AdminApi
from .cubesandbox.face import CubeFace
from .cubesandbox.servers import OLDER
from .daytona.face import DaytonaFace
from .e2b.face import E2BFace
from .failing import hand_over, not_taken
from .faults import FaultBoard
from .fleet import Fleet, SessionFactory
from .recorder import RecordedRequest, Recorder
from .reply import Reply, answered_instead, before_handling, deliver, drop_connection, text_reply
from .sandbox import Sandbox

HOST = "127.0.0.1"
HOME = "/home/user"
HOMES = {"cubesandbox": "/workspace", "cubesandbox-older": "/workspace"}
"""Workspaces of faces whose users expect another one: CubeSandbox's own examples work in ``/workspace``."""

MOST_REQUEST_BYTES = 16 * 1024 * 1024  # of a body that is read whole; uploads are streams

_EVICTION_SECONDS = 0.05  # as often as E2B's evictor looks
_STOP_SECONDS = 30
# Accepting takes some turns of the loop. A connection that is in them when its server closes is leaked by Python 3.11.
_ACCEPT_SECONDS = 0.01


class Face(Protocol):
    """One service's protocol over one fleet."""

    name: str

    def environment(self, url: str) -> dict[str, str]:
        """Return the variables that make a client use this face at `url`."""

    async def handle(self, request: web.Request) -> Reply:
        """Answer one request."""


FaceFactory = Callable[[Fleet, str], Face]

FACES: dict[str, FaceFactory] = {
    "e2b": lambda fleet, home: E2BFace(fleet, home=home),
    "cubesandbox": lambda fleet, home: CubeFace(fleet, home=home),
    "cubesandbox-older": lambda fleet, home: CubeFace(fleet, home=home, name="cubesandbox-older", server=OLDER),
    "daytona": lambda fleet, home: DaytonaFace(fleet),
    "daytona-newer": lambda fleet, home: DaytonaFace(fleet, newer=True),
}
"""Face names to how they are made."""


class Emulator:
    """Loopback servers that speak the protocols of sandbox services and really run the commands.

    A context manager. Each face has a port of its own on 127.0.0.1. Every method may be called from any thread.

    Args:
        faces: Which services to be.
        provider: Provider in which the commands run: its id, or a provider itself.
        port: Port of the first face; 0 for a free one. Further faces always take free ones.
        home: Workspace and home directory inside the sandboxes of every face; by default the spec's workspace where a
            spec names one, else `HOMES` and `HOME`.
        spec: What to create sandboxes with, instead of a workspace at `home` and the provider's defaults.
        registry: Where a provider's id is looked up; the installed ones by default.
        clock: Seconds since 1970, for lifetimes.

    Attributes:
        faults: The faults in force (`faults.Fault`).
        requests: What clients asked.
    """

    def __init__(
        self,
        faces: Sequence[str] = ("e2b",),
        provider: str | SandboxProvider = "local",
        *,
        port: int = 0,
        home: str | None = None,
        spec: SandboxSpec | None = None,
        registry: SandboxRegistry | None = None,
        clock: Clock = time.time,
    ) -> None:
        unknown = [name for name in faces if name not in FACES]
        if unknown or not faces:
            raise SandboxConfigError(f"faces must be among {', '.join(FACES)}, got {', '.join(unknown) or 'none'}")
        self.faults = FaultBoard()
        self.requests = Recorder()
        self._names = tuple(dict.fromkeys(faces))
        self._provider = provider
        self._port = port
        self._home = home
        self._spec = spec
        self._registry = registry
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stopping: asyncio.Event | None = None
        self._served: dict[str, _Served] = {}

    # --- life -----------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Serve; returns once every port is open.

        Raises:
            SandboxProviderError: There is no such provider, or it does not work.
            OSError: The port is taken.
        """
        if self._thread is not None:
            return self
        open_session = self._session_factories()
        ready: _Outcome = _Outcome()
        thread = threading.Thread(target=self._serve, args=(open_session, ready), name="ai4j-emulator", daemon=True)
        thread.start()
        try:
            ready.wait()
        except BaseException:
            thread.join(_STOP_SECONDS)
            raise
        self._thread = thread
        return self

    def stop(self) -> None:
        """Destroy every sandbox and close the ports. Idempotent."""
        thread, self._thread = self._thread, None
        if thread is None or self._loop is None or self._stopping is None:
            return
        self._loop.call_soon_threadsafe(self._stopping.set)
        thread.join(_STOP_SECONDS)
        self._served = {}

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    # --- what a client needs --------------------------------------------------------------------------------------

    def url(self, face: str | None = None) -> str:
        """Return where a face is served; the first face without a name.

        Raises:
            SandboxConfigError: It is not served.
        """
        name = face or self._names[0]
        if name not in self._served:
            raise SandboxConfigError(f"the emulator does not serve {name!r} now", hint="start it with that face")
        return self._served[name].url

    @property
    def environment(self) -> dict[str, str]:
        """The variables that make official SDKs, and our providers, use this emulator."""
        merged: dict[str, str] = {}
        for served in self._served.values():
            merged |= served.face.environment(served.url)
        return merged

    def sandboxes(self, face: str | None = None) -> list[Sandbox]:
        """Return the sandboxes of a face as they are now, for looking at."""
        served = self._served.get(face or self._names[0])
        return [] if served is None else served.fleet.all()

    # --- the server's own thread ----------------------------------------------------------------------------------

    def _home_of(self, face: str) -> str:
        named = None if self._spec is None else self._spec.workspace_id
        return self._home or named or HOMES.get(face, HOME)

    def _session_factories(self) -> dict[str, SessionFactory]:
        """Return how the sessions of each face are made."""
        provider = self._provider
        if isinstance(provider, str):
            provider = (self._registry or default_registry()).provider(provider)
        specs = {name: self._spec or _usual_spec(provider, self._home_of(name)) for name in self._names}
        return {name: partial(provider.create_session, spec) for name, spec in specs.items()}

    def _serve(self, open_session: Mapping[str, SessionFactory], ready: _Outcome) -> None:
        with asyncio.Runner() as runner:
            runner.run(self._main(open_session, ready))

    async def _main(self, open_session: Mapping[str, SessionFactory], ready: _Outcome) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        async with contextlib.AsyncExitStack() as stack:
            try:
                for index, name in enumerate(self._names):
                    served = await self._open(name, open_session[name], self._port if index == 0 else 0)
                    stack.push_async_callback(served.close)
                    self._served[name] = served
            except BaseException as error:  # noqa: BLE001  handed to the thread that waits in `start`
                ready.failed(error)
                return
            ready.succeeded()
            while not self._stopping.is_set():
                for served in self._served.values():
                    served.fleet.end_due()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_EVICTION_SECONDS):
                        await self._stopping.wait()

    async def _open(self, name: str, open_session: SessionFactory, port: int) -> _Served:
        home = self._home_of(name)
        fleet = Fleet(open_session, home=home, clock=self._clock)
        face = FACES[name](fleet, home)
        admin = AdminApi(self.faults, self.requests)

        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                if request.path.startswith(PREFIX):
                    return await deliver(request, await admin.handle(request))
                return await self._answer(request, face)
            except web.RequestPayloadError:
                return await deliver(request, text_reply("the body is not compressed as its header says", 400))
            except ConnectionError:
                # The client left, or a fault ended the connection; aiohttp learns it from an answer it cannot send.
                drop_connection(request.transport)
                return web.Response()

        application = web.Application(client_max_size=MOST_REQUEST_BYTES)
        application.router.add_route("*", "/{path:.*}", handle)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        protocols = cast("Callable[[], asyncio.Protocol]", runner.server)  # there since `setup`
        listener = await asyncio.get_running_loop().create_server(protocols, HOST, port)
        return _Served(face, fleet, runner, listener)

    async def _answer(self, request: web.Request, face: Face) -> web.StreamResponse:
        self.requests.add(
            RecordedRequest(
                face=face.name,
                method=request.method,
                path=request.path,
                query=request.query_string,
                headers=dict(request.headers),
            )
        )
        effect = self.faults.strike(request.method, request.path)
        await before_handling(request, effect)
        failure = hand_over(effect)
        reply = answered_instead(effect) or await face.handle(request)
        return await deliver(request, not_taken(failure) or reply, effect)


class _Served:
    """A face that is being served."""

    def __init__(self, face: Face, fleet: Fleet, runner: web.AppRunner, listener: asyncio.Server) -> None:
        self.face = face
        self.fleet = fleet
        self.url = f"http://{HOST}:{listener.sockets[0].getsockname()[1]}"
        self._runner = runner
        self._listener = listener

    async def close(self) -> None:
        """Close the port, so that nothing new comes, then destroy the sandboxes."""
        for listening in self._listener.sockets:
            asyncio.get_running_loop().remove_reader(listening.fileno())
        await asyncio.sleep(_ACCEPT_SECONDS)
        self._listener.close()
        await self._runner.cleanup()
        await self.fleet.close()


class _Outcome:
    """Whether the server came up, told from its thread to the one that waits."""

    def __init__(self) -> None:
        self._known = threading.Event()
        self._error: BaseException | None = None

    def succeeded(self) -> None:
        """It serves."""
        self._known.set()

    def failed(self, error: BaseException) -> None:
        """It does not, and why."""
        self._error = error
        self._known.set()

    def wait(self) -> None:
        """Return once it serves; raise why it does not."""
        self._known.wait()
        if self._error is not None:
            raise self._error


def _usual_spec(provider: SandboxProvider, home: str) -> SandboxSpec:
    """Return a spec with the workspace at `home`, or without one for a provider that has its own."""
    spec = SandboxSpec(provider_id=provider.provider_id, workspace_id=home)
    return spec if provider.supports(spec) else SandboxSpec(provider_id=provider.provider_id)
