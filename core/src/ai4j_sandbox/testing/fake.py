"""A provider without a sandbox, for the tests of whoever uses sandboxes. No process, no file, no network.

Script what commands do, run the code under test, look at what it asked for::

    provider = FakeProvider({"make test": FakeResult(stdout="1 failed", exit_code=1)})
    session = provider.create_session()
    assert session.execute(SandboxCommand(command="make test")).exit_code == 1
    assert [command.command for command in provider.commands] == ["make test"]
"""

from __future__ import annotations

import hashlib
import posixpath
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from signal import Signals

from ai4j_sandbox.artifacts import describe
from ai4j_sandbox.capability import (
    NATIVE,
    Capabilities,
    Capability,
    IsolationLevel,
    ProviderInfo,
    emulated,
)
from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.errors import (
    SandboxException,
    SandboxNotFoundError,
    SandboxOutcomeUnknownError,
    SandboxSessionLostError,
)
from ai4j_sandbox.files import SandboxFiles
from ai4j_sandbox.frozen import EMPTY, empty_mapping
from ai4j_sandbox.globs import glob_regex
from ai4j_sandbox.model import (
    OutputStream,
    SandboxArtifact,
    SandboxCommand,
    SandboxSpec,
    SandboxStatus,
    SandboxSummary,
    TerminalSize,
)
from ai4j_sandbox.process import OutputChunk, ProcessChannel, ProcessExit
from ai4j_sandbox.redaction import filter_labels
from ai4j_sandbox.settings import Kind, Setting, SettingsTable
from ai4j_sandbox.spi import Health, SandboxProvider, SandboxSession, SessionDescription

from .memory_files import MemoryFiles, absolute

FAKE_INFO = ProviderInfo(
    provider_id="fake",
    display_name="Fake",
    distribution="ai4j-sandbox",
    version="0.1.0",
    capabilities=Capabilities(
        {
            Capability.STREAMING: NATIVE,
            Capability.STDIN: NATIVE,
            Capability.SEPARATE_STREAMS: NATIVE,
            Capability.TIMEOUT: NATIVE,
            Capability.CANCEL: NATIVE,
            Capability.FILES: emulated("files are kept in memory"),
            Capability.ARTIFACTS: emulated("artifacts are files in memory"),
            Capability.CONNECT: NATIVE,
            Capability.HEALTH: NATIVE,
            Capability.LISTING: NATIVE,
        }
    ),
    isolation=IsolationLevel.NONE,
)

SETTINGS = SettingsTable(
    "fake",
    (
        Setting(name="image", spec="image", help="Recorded; a fake starts from nothing."),
        Setting(name="workspace", spec="workspace_id", help="Recorded; a fake has no workspace."),
        Setting(
            name="delete_on_close",
            kind=Kind.BOOLEAN,
            config=("deleteOnClose",),
            default=True,
            help="Whether closing the session ends the sandbox.",
        ),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeResult:
    """What a scripted command does: give out `output`, `stdout` and `stderr`, echo, block, end. In this order.

    Attributes:
        output: Chunks exactly as they shall arrive.
        echoes_stdin: Give back everything written to stdin, and end when it is closed.
        blocks: Run until a signal ends it.
        survives: Signals that do not end it.
        breaks: End without an exit, as a stream that is cut.
        raises: Do not start at all but raise this.
        files: What it leaves behind, by path; artifact patterns find it.
    """

    stdout: str | bytes = b""
    stderr: str | bytes = b""
    output: Sequence[OutputChunk] = ()
    exit_code: int | None = 0
    signal: str | None = None
    status_text: str | None = None
    echoes_stdin: bool = False
    blocks: bool = False
    survives: Sequence[str] = ()
    breaks: bool = False
    raises: SandboxException | None = None
    files: Mapping[str, str | bytes] = field(default_factory=empty_mapping)

    def chunks(self) -> Iterator[OutputChunk]:
        """Yield the scripted output."""
        yield from self.output
        for stream, text in ((OutputStream.STDOUT, self.stdout), (OutputStream.STDERR, self.stderr)):
            if text:
                yield OutputChunk(stream, _encoded(text))

    def end(self) -> ProcessExit:
        """Return the scripted end."""
        return ProcessExit(exit_code=self.exit_code, signal=self.signal, status_text=self.status_text)


Script = Callable[[SandboxCommand], FakeResult | ProcessChannel]
"""Decides what a command does. Returning a channel of one's own lets something else really run it."""


class FakeChannel(ProcessChannel):
    """Plays a `FakeResult`."""

    pid = 4242

    def __init__(self, result: FakeResult, command: SandboxCommand) -> None:
        self._result = result
        self._pieces: deque[OutputChunk | ProcessExit] = deque(result.chunks())
        self._changed = threading.Condition()
        self._accepts_stdin = command.keep_stdin_open
        self._ended = False
        self._closed = False
        self.stdin = b""
        self.sizes: list[TerminalSize] = []
        self._take(command.stdin_bytes)
        if not self._accepts_stdin or not result.echoes_stdin:
            self._end_unless_blocked()

    def receive(self, timeout: float | None) -> OutputChunk | ProcessExit | None:
        with self._changed:
            self._changed.wait_for(lambda: self._pieces or self._closed or self._cut(), timeout)
            if self._pieces:
                return self._pieces.popleft()
            if self._closed or self._cut():
                raise SandboxOutcomeUnknownError("the stream ended without an exit")
            return None

    def kill(self, signal: str) -> bool:
        if self._ended:
            return False
        if signal not in self._result.survives:
            self._end(ProcessExit(exit_code=128 + Signals[signal].value, signal=signal))
        return True

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def write_stdin(self, data: bytes) -> None:
        if self._ended or not self._accepts_stdin:
            raise SandboxException("the command reads no more input")
        self._take(data)

    def close_stdin(self) -> None:
        if self._accepts_stdin and self._result.echoes_stdin:
            self._end_unless_blocked()
        self._accepts_stdin = False

    def resize(self, size: TerminalSize) -> None:
        self.sizes.append(size)

    def _take(self, data: bytes) -> None:
        self.stdin += data
        if data and self._result.echoes_stdin:
            self._add(OutputChunk(OutputStream.STDOUT, data))

    def _end_unless_blocked(self) -> None:
        if self._result.breaks:
            self._ended = True
        elif not self._result.blocks:
            self._end(self._result.end())

    def _cut(self) -> bool:
        return self._ended and self._result.breaks

    def _end(self, end: ProcessExit) -> None:
        with self._changed:
            if not self._ended:
                self._ended = True
                self._add(end)

    def _add(self, piece: OutputChunk | ProcessExit) -> None:
        with self._changed:
            self._pieces.append(piece)
            self._changed.notify_all()


class FakeSandbox:
    """What lives behind one or more fake sessions.

    Attributes:
        alive: Whether it was not destroyed yet.
        channels: Everything that was ever started in it.
    """

    def __init__(self, session_id: str, spec: SandboxSpec) -> None:
        self.session_id = session_id
        self.spec = spec
        self.files = MemoryFiles()
        self.alive = True
        self.channels: list[ProcessChannel] = []

    def destroy(self) -> None:
        """End it, with everything that runs in it."""
        self.alive = False
        for channel in self.channels:
            channel.kill("SIGKILL")
            channel.close()


class FakeSession(SandboxSession):
    """A session of a `FakeProvider`.

    Attributes:
        sandbox: What it is attached to, for tests to look into.
    """

    def __init__(
        self, description: SessionDescription, provider: FakeProvider, sandbox: FakeSandbox, *, keep: bool
    ) -> None:
        super().__init__(description)
        self._provider = provider
        self._keep = keep
        self.sandbox = sandbox

    def _open_channel(self, command: SandboxCommand, deadline: Deadline) -> ProcessChannel:
        if not self.sandbox.alive:
            raise SandboxSessionLostError(f"the fake sandbox {self.session_id} was destroyed")
        self._provider.commands.append(command)
        answer = self._provider.script(command)
        channel = self._play(answer, command) if isinstance(answer, FakeResult) else answer
        self.sandbox.channels.append(channel)
        return channel

    def _play(self, result: FakeResult, command: SandboxCommand) -> FakeChannel:
        if result.raises is not None:
            raise result.raises
        for path, content in result.files.items():
            self.sandbox.files.write(posixpath.join(command.working_directory or "", path), content)
        return FakeChannel(result, command)

    def _destroy(self) -> None:
        if not self._keep:
            self.sandbox.destroy()

    def _files(self) -> SandboxFiles:
        return super()._files() if self._provider.shell_files else self.sandbox.files

    def _find_artifacts(self, command: SandboxCommand) -> tuple[SandboxArtifact, ...]:
        if self._provider.shell_files:
            return super()._find_artifacts(command)
        directory = absolute(command.working_directory or "")
        accepts = [glob_regex(posixpath.join(directory, pattern)).fullmatch for pattern in command.artifacts]
        return tuple(
            describe(path, size_bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
            for path, content in sorted(self.sandbox.files.entries.items())
            if content is not None and any(accept(path) for accept in accepts)
        )


class FakeProvider(SandboxProvider):
    """Creates sandboxes that only exist in memory.

    Args:
        script: What commands do: a mapping of the command (a line, or a tuple of arguments) to a `FakeResult` or to the
            text it prints, or a function of the command. A command that is not in the mapping is "not found" (127).
        info: What to claim, for tests of hosts that must cope with less.
        shell_files: Use the fallbacks that work through commands for files and artifacts, instead of memory.

    Attributes:
        commands: Every command that was started, in order.
        sandboxes: Every sandbox ever made, by id.
    """

    settings = SETTINGS

    def __init__(
        self,
        script: Mapping[str | tuple[str, ...], FakeResult | str] | Script = EMPTY,
        *,
        info: ProviderInfo = FAKE_INFO,
        shell_files: bool = False,
    ) -> None:
        self.info = info
        self.script: Script = script if callable(script) else _script_of(script)
        self.shell_files = shell_files
        self.commands: list[SandboxCommand] = []
        self.sandboxes: dict[str, FakeSandbox] = {}

    def connect(self, session_id: str, spec: SandboxSpec | None = None) -> FakeSession:
        """Attach to a fake sandbox that lives."""
        if spec is not None:
            self._admit(spec)
        sandbox = self.sandboxes.get(session_id)
        if sandbox is None or not sandbox.alive:
            raise SandboxNotFoundError(f"no fake sandbox {session_id!r}", provider_id=self.provider_id)
        return self._session(sandbox, spec or sandbox.spec, owned=False)

    def health(self) -> Health:
        """A fake is always well."""
        return Health(healthy=True, summary="nothing real to go wrong")

    def list_sessions(self, labels: Mapping[str, str] | None = None) -> list[SandboxSummary]:
        """Return the fake sandboxes that live and carry all of `labels`."""
        wanted = (labels or {}).items()
        return [
            self._summary(sandbox)
            for sandbox in self.sandboxes.values()
            if sandbox.alive and wanted <= sandbox.spec.labels.items()
        ]

    def destroy(self, session_id: str) -> None:
        """End one fake sandbox, as its expiry would."""
        if session_id in self.sandboxes:
            self.sandboxes[session_id].destroy()

    def _create(self, spec: SandboxSpec) -> FakeSession:
        sandbox = FakeSandbox(f"fake-{uuid.uuid4()}", spec)
        self.sandboxes[sandbox.session_id] = sandbox
        return self._session(sandbox, spec, owned=True)

    def _session(self, sandbox: FakeSandbox, spec: SandboxSpec, *, owned: bool) -> FakeSession:
        description = SessionDescription(session_id=sandbox.session_id, info=self.info, spec=spec, owned=owned)
        delete_on_close = SETTINGS.resolve(spec, environ={})["delete_on_close"]
        return FakeSession(description, self, sandbox, keep=not (owned and delete_on_close))

    def _summary(self, sandbox: FakeSandbox) -> SandboxSummary:
        return SandboxSummary(
            session_id=sandbox.session_id,
            provider_id=self.provider_id,
            status=SandboxStatus.RUNNING,
            image=sandbox.spec.image,
            labels=filter_labels(sandbox.spec.labels),
        )


def _script_of(results: Mapping[str | tuple[str, ...], FakeResult | str]) -> Script:
    def script(command: SandboxCommand) -> FakeResult:
        result = results.get(command.command if isinstance(command.command, str) else tuple(command.command))
        if result is None:
            return FakeResult(stderr=f"{command.argv()[-1]}: not scripted\n", exit_code=127)
        return FakeResult(stdout=result) if isinstance(result, str) else result

    return script


def _encoded(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text
