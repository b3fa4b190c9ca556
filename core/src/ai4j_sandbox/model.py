"""The provider-neutral data model: what is asked for, what comes back, what happens in between.

Every type is frozen, keyword-only and deeply immutable: containers are copied and frozen on the way in, so
neither the caller's object nor a nested list can change it later. JSON is `schema`'s business.

Texts that may hold secrets (`SandboxSpec.config`, environment values, stdin, metadata) never appear in a ``repr``.
"""

from __future__ import annotations

import re
import shlex
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from .arguments import require_whole
from .errors import SandboxConfigError
from .frozen import EMPTY, empty_mapping, freeze, type_name
from .redaction import mask_message, mask_value

DEFAULT_OUTPUT_LIMIT_BYTES = 10 * 1024 * 1024
"""What a result keeps of each stream unless the command says otherwise."""

HEAD_ONLY_BELOW_BYTES = 1024
"""Below this limit a result keeps only the beginning: two fragments of a few bytes would help nobody."""

_MOST_CELLS = 0xFFFF

ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class SandboxStatus(StrEnum):
    """Life of a session: created, running, then closed or failed for good."""

    CREATED = "CREATED"
    RUNNING = "RUNNING"
    CLOSED = "CLOSED"
    FAILED = "FAILED"


class SandboxEventType(StrEnum):
    """Kinds of `SandboxEvent`; names and order are the contract's."""

    SESSION_CREATED = "SESSION_CREATED"
    SESSION_CLOSED = "SESSION_CLOSED"
    COMMAND_STARTED = "COMMAND_STARTED"
    COMMAND_OUTPUT = "COMMAND_OUTPUT"
    COMMAND_FINISHED = "COMMAND_FINISHED"
    COMMAND_CANCELED = "COMMAND_CANCELED"
    ARTIFACT_CREATED = "ARTIFACT_CREATED"
    ERROR = "ERROR"


class OutputStream(StrEnum):
    """Where output came from; a terminal and a service that merges its streams report `STDOUT`."""

    STDOUT = "stdout"
    STDERR = "stderr"


class StreamMode(StrEnum):
    """How far a result's stdout and stderr can be trusted to be apart."""

    SEPARATE = "separate"
    MERGED = "merged"
    EMULATED = "emulated"


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalSize:
    """Size of a terminal in character cells, each from 1 to 65535 (``struct winsize`` holds unsigned shorts)."""

    rows: int = 24
    columns: int = 80

    def __post_init__(self) -> None:
        require_whole("rows", self.rows, minimum=1, maximum=_MOST_CELLS)
        require_whole("columns", self.columns, minimum=1, maximum=_MOST_CELLS)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SandboxSpec:
    """Which sandbox is wanted (seed 1 section 2).

    Attributes:
        provider_id: Id of the provider, or ``None`` to let the host choose.
        profile: Host's name for a kind of sandbox; part of the session summary.
        image: Template, image or snapshot, in the provider's terms.
        workspace_id: Name or directory of the workspace, in the provider's terms.
        labels: Non-sensitive tags.
        config: Provider-specific settings (the provider's page lists them). Hidden from ``repr``.
    """

    provider_id: str | None = None
    profile: str | None = None
    image: str | None = None
    workspace_id: str | None = None
    labels: Mapping[str, str | None] = field(default_factory=empty_mapping)
    config: Mapping[str, Any] = field(default_factory=empty_mapping, repr=False)

    def __post_init__(self) -> None:
        for name in ("provider_id", "profile", "image", "workspace_id"):
            _set(self, name, _stripped(f"spec.{name}", getattr(self, name)))
        _set(self, "labels", _text_map("spec.labels", self.labels))
        _set(self, "config", _any_map("spec.config", self.config))

    def __repr__(self) -> str:
        return _masked_repr(self)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SandboxCommand:
    """One command to run (seed 1 section 2).

    Attributes:
        command: A string is a shell line and reaches the shell unchanged; a sequence is an argument list and is run
            directly.
        command_id: Names this execution; a random UUID by default.
        working_directory: Directory to run in; the provider's default otherwise.
        stdin: What the command reads; text is sent as UTF-8. Without it the command reads end-of-file at once.
        keep_stdin_open: Leave the input open after `stdin`, for `SandboxProcess.write_stdin`.
        timeout_millis: Wall-clock limit for the whole command in milliseconds; ``None`` for no limit.
        environment: Variables added to the sandbox's own. Values are hidden from ``repr``.
        metadata: For the host's own use; not sent to the sandbox.
        artifacts: Glob patterns relative to the working directory (``reports/**/*.xml``); after the command the
            matches become `SandboxArtifact`s.
        output_limit_bytes: How much of each stream the result keeps: head and tail, the middle is dropped.
        terminal: Run the command on a terminal of this size; its output then is one stream.
    """

    command: str | Sequence[str]
    command_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    working_directory: str | None = None
    stdin: str | bytes | None = field(default=None, repr=False)
    keep_stdin_open: bool = False
    timeout_millis: int | None = None
    environment: Mapping[str, str] = field(default_factory=empty_mapping, repr=False)
    metadata: Mapping[str, Any] = field(default_factory=empty_mapping, repr=False)
    artifacts: Sequence[str] = ()
    output_limit_bytes: int = DEFAULT_OUTPUT_LIMIT_BYTES
    terminal: TerminalSize | None = None

    def __post_init__(self) -> None:
        _set(self, "command", _valid_command(self.command))
        _set(self, "command_id", _stripped("command_id", self.command_id) or str(uuid.uuid4()))
        directory = _stripped("working_directory", self.working_directory)
        _set(self, "working_directory", directory and _sendable("working_directory", directory))
        _set(self, "stdin", _stdin(self.stdin))
        if self.timeout_millis is not None:
            hint = "leave it out (None) for no limit"
            require_whole("timeout_millis", self.timeout_millis, minimum=1, hint=hint)
        _set(self, "environment", _environment(self.environment))
        _set(self, "metadata", _any_map("metadata", self.metadata))
        _set(self, "artifacts", _patterns(self.artifacts))
        require_whole("output_limit_bytes", self.output_limit_bytes, minimum=0)
        if not isinstance(self.terminal, TerminalSize | None):
            raise SandboxConfigError(f"terminal must be a TerminalSize, got {type_name(self.terminal)}")

    def __repr__(self) -> str:
        return _masked_repr(self)

    @property
    def stdin_bytes(self) -> bytes:
        """What the command reads, as bytes."""
        return self.stdin.encode() if isinstance(self.stdin, str) else self.stdin or b""

    def argv(self, shell: Sequence[str] = ("/bin/sh", "-c")) -> tuple[str, ...]:
        """Return the argument list to execute: `shell` with the line appended, or the sequence itself."""
        if not isinstance(self.command, str):
            return tuple(self.command)
        # A line that begins like an option would be taken for one.
        guard = ("--",) if self.command.startswith(("-", "+")) else ()
        return (*shell, *guard, self.command)

    def shell_line(self) -> str:
        """Return a line for a service that only takes lines; a sequence is quoted so that it survives the shell."""
        return self.command if isinstance(self.command, str) else shlex.join(self.command)


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxArtifact:
    """A file that a command left behind, described; `session.files.download` fetches it.

    Attributes:
        path: Absolute path inside the sandbox.
        size_bytes: Size in bytes.
        sha256: Lower-case hexadecimal digest of the content.
    """

    artifact_id: str | None = None
    name: str | None = None
    path: str | None = None
    mime_type: str | None = None
    size_bytes: int | None = None
    sha256: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxEvent:
    """Something that happened in a session, safe to show and to store: known secrets are masked.

    Attributes:
        sequence: Position within the command (from 1) or, for session events, within the session.
        stream, data, offset: For output: where it came from, its bytes and how many bytes of that stream came before.
        dropped_bytes: On the one event that tells that a result was cut: how many bytes of `stream` were dropped.
        exit_code, timed_out: On the event that ends a command: as in its `SandboxResult`.
        timestamp_epoch_ms: Milliseconds since 1970.
    """

    type: SandboxEventType
    event_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    session_id: str | None = None
    command_id: str | None = None
    message: str | None = None
    timestamp_epoch_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    sequence: int | None = None
    stream: OutputStream | None = None
    data: bytes | None = None
    offset: int | None = None
    dropped_bytes: int | None = None
    exit_code: int | None = None
    timed_out: bool | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.type, SandboxEventType):
            raise SandboxConfigError(f"event type must be a SandboxEventType, got {self.type!r}; it must not be null")
        _set(self, "event_id", _stripped("event_id", self.event_id) or str(uuid.uuid4()))


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedOutput:
    """What was kept of one stream: everything, or its head and tail.

    Attributes:
        head, tail: The kept bytes; `tail` is empty unless something between was dropped.
        total_bytes: How many bytes the command wrote.
    """

    head: bytes = b""
    tail: bytes = b""
    total_bytes: int = 0

    @classmethod
    def whole(cls, output: str | bytes) -> CapturedOutput:
        """Return an output of which nothing was dropped."""
        data = output.encode("utf-8", "surrogatepass") if isinstance(output, str) else bytes(output)
        return cls(head=data, total_bytes=len(data))

    @property
    def data(self) -> bytes:
        """The kept bytes in order."""
        return self.head + self.tail if self.tail else self.head

    @property
    def dropped_bytes(self) -> int:
        """How many bytes are missing between head and tail."""
        return self.total_bytes - len(self.head) - len(self.tail)

    @property
    def truncated(self) -> bool:
        """Whether something is missing."""
        return self.dropped_bytes > 0

    def text(self) -> str:
        """Return the output as text: UTF-8, invalid bytes as U+FFFD, the gap told on a line of its own."""
        if not self.truncated:
            return self.data.decode("utf-8", "replace")
        head = _cut_at_character(self.head).decode("utf-8", "replace")
        if not self.tail:
            return head
        tail = _start_at_character(self.tail).decode("utf-8", "replace")
        return f"{head}\n[... truncated {self.dropped_bytes} of {self.total_bytes} bytes ...]\n{tail}"


NO_OUTPUT = CapturedOutput()


@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False)
class SandboxResult:
    """How a command ended (seed 1 section 2). A non-zero exit, a timeout and a cancellation are results.

    Give output as ``stdout=`` / ``stderr=`` (text or bytes), or as a `CapturedOutput` when some was dropped.

    Attributes:
        exit_code: The command's exit code; 128 + n after signal n; ``None`` when it is not known. Never a made-up 0.
        signal: Name of the signal that ended it (``"SIGKILL"``), or ``None``.
        timed_out, canceled: Whether it was stopped by its deadline or by `cancel`; output until then is kept.
        duration_millis: Wall-clock milliseconds from start to end.
        artifacts: What matched the command's patterns.
        artifacts_error: Why they could not be collected, for people; `artifacts` then is empty although the command may
            have left some. ``None`` when they were, or none were wanted.
        events: Lifecycle events in order; output is in `stdout` and `stderr`, not here a second time.
        streams: Whether stdout and stderr are really apart.
        status_text: The service's own words about the end (``"signal: killed"``), or ``None``.
    """

    command_id: str | None
    exit_code: int | None
    captured_stdout: CapturedOutput
    captured_stderr: CapturedOutput
    signal: str | None
    timed_out: bool
    canceled: bool
    duration_millis: int | None
    artifacts: tuple[SandboxArtifact, ...]
    events: tuple[SandboxEvent, ...]
    streams: StreamMode
    status_text: str | None
    artifacts_error: str | None

    def __init__(
        self,
        *,
        command_id: str | None = None,
        exit_code: int | None = None,
        stdout: str | bytes | None = None,
        stderr: str | bytes | None = None,
        captured_stdout: CapturedOutput = NO_OUTPUT,
        captured_stderr: CapturedOutput = NO_OUTPUT,
        signal: str | None = None,
        timed_out: bool = False,
        canceled: bool = False,
        duration_millis: int | None = None,
        artifacts: Sequence[SandboxArtifact | None] = (),
        events: Sequence[SandboxEvent | None] = (),
        streams: StreamMode = StreamMode.SEPARATE,
        status_text: str | None = None,
        artifacts_error: str | None = None,
    ) -> None:
        if exit_code is not None:
            require_whole("exit_code", exit_code)
        _set(self, "command_id", command_id)
        _set(self, "exit_code", exit_code)
        _set(self, "captured_stdout", captured_stdout if stdout is None else CapturedOutput.whole(stdout))
        _set(self, "captured_stderr", captured_stderr if stderr is None else CapturedOutput.whole(stderr))
        _set(self, "signal", signal)
        _set(self, "timed_out", timed_out)
        _set(self, "canceled", canceled)
        _set(self, "duration_millis", duration_millis)
        _set(self, "artifacts", tuple(artifact for artifact in artifacts if artifact is not None))
        _set(self, "events", tuple(event for event in events if event is not None))
        _set(self, "streams", StreamMode(streams))
        _set(self, "status_text", status_text)
        _set(self, "artifacts_error", artifacts_error)

    def __repr__(self) -> str:
        parts = (
            f"{item.name}={getattr(self, item.name)!r}"
            for item in fields(self)
            if not item.name.startswith("captured_") and item.name not in ("events", "artifacts")
        )
        sizes = (
            f"stdout=<{self.stdout_total_bytes} bytes>, stderr=<{self.stderr_total_bytes} bytes>, "
            f"artifacts={len(self.artifacts)}, events={len(self.events)}"
        )
        return f"SandboxResult({', '.join(parts)}, {sizes})"

    @property
    def stdout(self) -> str:
        """Standard output as text (`CapturedOutput.text`)."""
        return self.captured_stdout.text()

    @property
    def stderr(self) -> str:
        """Standard error as text (`CapturedOutput.text`)."""
        return self.captured_stderr.text()

    @property
    def stdout_bytes(self) -> bytes:
        """The kept bytes of standard output, exactly as written."""
        return self.captured_stdout.data

    @property
    def stderr_bytes(self) -> bytes:
        """The kept bytes of standard error, exactly as written."""
        return self.captured_stderr.data

    @property
    def stdout_total_bytes(self) -> int:
        """How many bytes the command wrote to standard output."""
        return self.captured_stdout.total_bytes

    @property
    def stderr_total_bytes(self) -> int:
        """How many bytes the command wrote to standard error."""
        return self.captured_stderr.total_bytes

    @property
    def stdout_truncated(self) -> bool:
        """Whether some standard output was dropped."""
        return self.captured_stdout.truncated

    @property
    def stderr_truncated(self) -> bool:
        """Whether some standard error was dropped."""
        return self.captured_stderr.truncated

    @property
    def truncated(self) -> bool:
        """Whether any output was dropped."""
        return self.stdout_truncated or self.stderr_truncated

    @property
    def succeeded(self) -> bool:
        """Whether the command is known to have ended by itself with exit code 0."""
        return self.exit_code == 0 and not self.timed_out and not self.canceled


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSummary:
    """A sandbox as the service lists it, for ``ls`` and ``cleanup``.

    Attributes:
        state: The service's own word (``"started"``, ``"paused"``).
        status: The same in the contract's four states.
        created_at_epoch_ms, expires_at_epoch_ms: Milliseconds since 1970, where the service tells.
    """

    session_id: str
    provider_id: str
    status: SandboxStatus
    state: str | None = None
    name: str | None = None
    image: str | None = None
    labels: Mapping[str, str | None] = field(default_factory=empty_mapping)
    created_at_epoch_ms: int | None = None
    expires_at_epoch_ms: int | None = None

    def __post_init__(self) -> None:
        _set(self, "labels", _text_map("summary.labels", self.labels))


# --- validation and normalisation -------------------------------------------------------------------------------


def _set(instance: object, name: str, value: object) -> None:
    object.__setattr__(instance, name, value)


def _masked_repr(instance: SandboxSpec | SandboxCommand) -> str:
    parts: list[str] = []
    for item in fields(instance):
        value = getattr(instance, item.name)
        if item.repr:
            parts.append(f"{item.name}={mask_value(value) if isinstance(value, Mapping) else value!r}")
    return mask_message(f"{type(instance).__name__}({', '.join(parts)})")


def _stripped(name: str, value: object) -> str | None:
    """Trim-to-null: blank text means "not given" (rule of the Java original)."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise SandboxConfigError(f"{name} must be text, got {type_name(value)}")
    return value.strip() or None


def _sendable(name: str, value: str) -> str:
    """Refuse text that no process can be given: NUL ends a C string, a lone surrogate has no UTF-8."""
    if "\0" in value:
        raise SandboxConfigError(f"{name} must not contain a NUL character")
    return encodable(name, value)


def is_utf8(text: str) -> bool:
    """Whether UTF-8 can write it: it holds no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def encodable(name: str, value: str) -> str:
    """Return text that UTF-8 can write, as everything that is sent must be.

    Raises:
        SandboxConfigError: It holds a lone surrogate.
    """
    if not is_utf8(value):
        raise SandboxConfigError(
            f"{name} holds a lone surrogate, which UTF-8 cannot write", hint="pass bytes, or repair the text"
        )
    return value


def _valid_command(command: object) -> str | tuple[str, ...]:
    if isinstance(command, str):
        if not command.strip():
            raise SandboxConfigError("command must not be blank")
        return _sendable("command", command)
    if isinstance(command, bytes | bytearray) or not isinstance(command, Sequence):
        raise SandboxConfigError(f"command must be text or a sequence of arguments, got {type_name(command)}")
    if not command or not command[0]:
        raise SandboxConfigError("command must not be blank: the argument list needs a program")
    for argument in command:
        if not isinstance(argument, str):
            raise SandboxConfigError(f"every argument of command must be text, got {type_name(argument)}")
        _sendable("command", argument)
    return tuple(command)


def _stdin(value: object) -> str | bytes | None:
    if value is None:
        return None
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if not isinstance(value, str | bytes):
        raise SandboxConfigError(f"stdin must be text or bytes, got {type_name(value)}")
    return encodable("stdin", value) if isinstance(value, str) else value


def _mapping(name: str, value: object) -> Mapping[Any, Any]:
    if value is None:
        return EMPTY
    if not isinstance(value, Mapping):
        raise SandboxConfigError(f"{name} must be a mapping, got {type_name(value)}")
    return value


def _any_map(name: str, value: object) -> Mapping[str, Any]:
    mapping = _mapping(name, value)
    for key in mapping:
        if key is not None and not isinstance(key, str):
            raise SandboxConfigError(f"keys of {name} must be text, got {type_name(key)}")
    if not mapping:
        return EMPTY
    try:
        return freeze(mapping)  # type: ignore[no-any-return]  # freeze keeps the kind of its argument
    except ValueError as error:
        raise SandboxConfigError(f"{name} {error}") from None


def _text_map(name: str, value: object) -> Mapping[str, str | None]:
    mapping = _any_map(name, value)
    for key, text in mapping.items():
        if not isinstance(text, str | None):
            raise SandboxConfigError(f"{name}[{key!r}] must be text, got {type_name(text)}")
    return mapping


def _environment(value: object) -> Mapping[str, str]:
    mapping = _any_map("environment", value)
    for name, text in mapping.items():
        if not ENVIRONMENT_NAME.fullmatch(name):
            raise SandboxConfigError(
                f"environment name {name!r} is not valid",
                hint="use letters, digits and underscores, not starting with a digit",
            )
        if not isinstance(text, str):
            raise SandboxConfigError(f"environment value of {name} must be text, got {type_name(text)}")
        _sendable(f"environment value of {name}", text)
    return mapping


def _patterns(value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise SandboxConfigError("artifacts must be a sequence of glob patterns", hint='write ["*.xml"]')
    for pattern in value:
        _check_pattern(pattern)
    return tuple(value)


def _check_pattern(pattern: object) -> None:
    if not isinstance(pattern, str) or not pattern:
        raise SandboxConfigError(f"artifacts patterns must be non-empty text, got {pattern!r}")
    names = _sendable("artifacts", pattern).split("/")
    if ".." in names:
        hint = "use an absolute pattern to look outside of the working directory"
        raise SandboxConfigError(f"artifacts pattern {pattern!r} must not contain '..'", hint=hint)
    if not names[-1]:
        raise SandboxConfigError(f"artifacts pattern {pattern!r} names a directory", hint=f"write {pattern}**")


def _cut_at_character(data: bytes) -> bytes:
    """Drop an incomplete UTF-8 character at the end, so that a cut invents no U+FFFD."""
    for back in range(1, min(4, len(data)) + 1):
        lead = data[-back]
        if lead & 0xC0 == 0x80:
            continue
        needed = 2 if lead >> 5 == 0b110 else 3 if lead >> 4 == 0b1110 else 4 if lead >> 3 == 0b11110 else 1
        return data[:-back] if needed > back else data
    return data


def _start_at_character(data: bytes) -> bytes:
    """Drop up to three continuation bytes at the start, for the same reason."""
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]
