"""The messages of envd, the daemon inside E2B and CubeSandbox machines: pure functions from data to bytes and back.

Rules of proto3 JSON that are obeyed here (protobuf.dev/programming-guides/json): a field at its default is left out,
``bytes`` are base64 in any of its spellings, 64-bit numbers are strings, enums are names or numbers, unknown fields
are ignored. The binary codec is written by hand for the streamed messages only; unary calls are JSON.

Field numbers: envd's ``process.proto``.
"""

from __future__ import annotations

import binascii
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

import pybase64

from ai4j_sandbox.errors import SandboxProtocolError
from ai4j_sandbox.files import FileInfo, FileKind
from ai4j_sandbox.frozen import empty_mapping
from ai4j_sandbox.model import OutputStream, TerminalSize
from ai4j_sandbox.process import OutputChunk, ProcessExit

from .connect import Codec
from .message import excerpt
from .protobuf import bytes_field, fields, map_field, number_field, read_varint, repeated_field, unzigzag

# --- what is sent -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRequest:
    """A process to start.

    Attributes:
        working_directory: ``None`` for the user's default.
        terminal: Run it on a terminal of this size.
        tag: Name by which it can be found again.
        stdin: Whether it gets a pipe to read from; ``None`` leaves it out, for an envd that does not know the field.
    """

    program: str
    arguments: tuple[str, ...] = field(default=(), repr=False)
    environment: Mapping[str, str] = field(default_factory=empty_mapping, repr=False)
    working_directory: str | None = None
    terminal: TerminalSize | None = None
    tag: str | None = None
    stdin: bool | None = False

    def encode(self, codec: Codec) -> bytes:
        """Return the message in a codec."""
        return self._binary() if codec is Codec.BINARY else encode_json(self._document())

    def _document(self) -> dict[str, Any]:
        process: dict[str, Any] = {
            "cmd": self.program,
            "args": list(self.arguments),
            "envs": dict(self.environment),
        }
        if self.working_directory is not None:
            process["cwd"] = self.working_directory
        document: dict[str, Any] = {"process": process}
        if self.terminal is not None:
            document["pty"] = terminal_document(self.terminal)
        if self.tag is not None:
            document["tag"] = self.tag
        if self.stdin is not None:
            document["stdin"] = self.stdin
        return document

    def _binary(self) -> bytes:
        process = bytes_field(1, self.program) + repeated_field(2, self.arguments) + map_field(3, self.environment)
        if self.working_directory is not None:
            process += bytes_field(4, self.working_directory)
        message = bytes_field(1, process)
        if self.terminal is not None:
            size = number_field(1, self.terminal.columns) + number_field(2, self.terminal.rows)
            message += bytes_field(2, bytes_field(1, size))
        if self.tag is not None:
            message += bytes_field(3, self.tag)
        if self.stdin is not None:
            message += number_field(4, self.stdin)
        return message


@dataclass(frozen=True, slots=True)
class Selector:
    """Names a process: by its pid, or by the tag it was started with."""

    value: int | str

    def document(self) -> dict[str, Any]:
        """Return it as JSON document."""
        return {"pid": self.value} if isinstance(self.value, int) else {"tag": self.value}

    def encode_connect(self, codec: Codec) -> bytes:
        """Return the request to follow this process in a codec."""
        if codec is Codec.JSON:
            return encode_json({"process": self.document()})
        chosen = number_field(1, self.value) if isinstance(self.value, int) else bytes_field(2, self.value)
        return bytes_field(1, chosen)


def input_document(selector: Selector, data: bytes, *, terminal: bool) -> dict[str, Any]:
    """Return the request that hands input to a process."""
    kind = "pty" if terminal else "stdin"
    return {"process": selector.document(), "input": {kind: pybase64.b64encode(data).decode("ascii")}}


def terminal_document(size: TerminalSize) -> dict[str, Any]:
    """Return a terminal's size as JSON document."""
    return {"size": {"cols": size.columns, "rows": size.rows}}


_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def encode_json(document: Mapping[str, Any]) -> bytes:
    """Return a JSON message."""
    return _JSON.encode(document).encode("utf-8", "surrogatepass")


# --- process events ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProcessStarted:
    """The first event of a process."""

    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEnded:
    """The last event of a process, as envd words it; `process_exit` says what it means.

    Attributes:
        exit_code: ``None`` when it was left out, which 0 is.
        exited: It ended by itself, not by a signal.
    """

    exit_code: int | None = None
    exited: bool = False
    status: str = ""
    error: str | None = None


ProcessEvent = ProcessStarted | OutputChunk | ProcessEnded
"""What a process stream tells. Keepalives and unknown events are ``None`` where one of these is decoded."""

_STREAM_BY_NAME = {"stdout": OutputStream.STDOUT, "stderr": OutputStream.STDERR, "pty": OutputStream.STDOUT}
_STREAM_BY_FIELD = {1: OutputStream.STDOUT, 2: OutputStream.STDERR, 3: OutputStream.STDOUT}

# The form in which Go and every emulator write a data event: taken apart without a JSON parser.
_HOT_PREFIXES = {f'{{"event":{{"data":{{"{name}":"'.encode(): stream for name, stream in _STREAM_BY_NAME.items()}
_HOT_SUFFIX = b'"}}}'
_HOT_STDOUT = b'{"event":{"data":{"stdout":"'
_HOT_START = len(_HOT_STDOUT)


def event_decoder(codec: Codec) -> Callable[[bytes], ProcessEvent | None]:
    """Return the function that decodes a process event of this codec."""
    return decode_binary_event if codec is Codec.BINARY else decode_json_event


def decode_json_event(payload: bytes) -> ProcessEvent | None:
    """Return the event in a message of ``application/connect+json``; ``None`` for a keepalive or an unknown one.

    Raises:
        SandboxProtocolError: The message is not what the protocol promises.
    """
    return _decode_hot(payload) or _decode_json_event(payload)


def _decode_hot(payload: bytes) -> OutputChunk | None:
    if not payload.endswith(_HOT_SUFFIX):
        return None
    if payload.startswith(_HOT_STDOUT):
        stream, start = OutputStream.STDOUT, _HOT_START
    else:
        end = payload.find(b'":"') + 3
        found = _HOT_PREFIXES.get(payload[:end])
        if found is None:
            return None
        stream, start = found, end
    try:
        data = pybase64.b64decode(memoryview(payload)[start:-4], validate=True)
    except binascii.Error:
        return None  # another spelling of base64, or garbage: the slow path knows
    return OutputChunk(stream, data) if data else None


def _decode_json_event(payload: bytes) -> ProcessEvent | None:
    event = _object(_parse_object(payload), "event")
    if "data" in event:
        return _output(_object(event, "data"))
    if "end" in event:
        return _ended(_object(event, "end"))
    if "start" in event:
        return ProcessStarted(_natural(_object(event, "start"), "pid") or 0)
    return None


def _output(data: Mapping[str, Any]) -> OutputChunk | None:
    for name, stream in _STREAM_BY_NAME.items():
        if data.get(name):
            content = decode_base64(data[name])
            return OutputChunk(stream, content) if content else None
    return None


def _ended(end: Mapping[str, Any]) -> ProcessEnded:
    exit_code = _whole(end, "exitCode")
    return ProcessEnded(
        exit_code=_whole(end, "exit_code") if exit_code is None else exit_code,
        exited=end.get("exited") is True,
        status=_text(end, "status") or "",
        error=_text(end, "error"),
    )


def decode_binary_event(payload: bytes) -> ProcessEvent | None:
    """Return the event in a message of ``application/connect+proto``; ``None`` for a keepalive or an unknown one.

    Raises:
        SandboxProtocolError: The message is not what the protocol promises.
    """
    return _decode_hot_binary(payload) or _decode_binary_event(payload)


def _decode_hot_binary(payload: bytes) -> OutputChunk | None:
    """A message that is nothing but event { data { bytes } }, read from outside inwards."""
    try:
        position = 0
        for key in (0x0A, 0x12):
            if payload[position] != key:
                return None
            size, position = read_varint(payload, position + 1)
            if position + size != len(payload):
                return None
        stream = _STREAM_BY_FIELD[payload[position] >> 3]
        size, position = read_varint(payload, position + 1)
    except (IndexError, KeyError):
        return None
    if not size or position + size != len(payload):
        return None
    return OutputChunk(stream, payload[position:])


def _decode_binary_event(payload: bytes) -> ProcessEvent | None:
    event = _submessage(payload, 1)
    for number, value in fields(event):
        if not isinstance(value, bytes):
            continue
        if number == 1:
            pid = dict(fields(value)).get(1, 0)
            return ProcessStarted(pid if isinstance(pid, int) else 0)
        if number == 2:
            return _binary_output(value)
        if number == 3:
            return _binary_ended(value)
    return None


def _binary_output(message: bytes) -> OutputChunk | None:
    for number, value in fields(message):
        if value and isinstance(value, bytes) and number in _STREAM_BY_FIELD:
            return OutputChunk(_STREAM_BY_FIELD[number], value)
    return None


def _binary_ended(message: bytes) -> ProcessEnded:
    values = dict(fields(message))
    code, exited, status, error = (values.get(number) for number in (1, 2, 3, 4))
    return ProcessEnded(
        exit_code=unzigzag(code) if isinstance(code, int) else None,
        exited=bool(exited),
        status=status.decode("utf-8", "replace") if isinstance(status, bytes) else "",
        error=error.decode("utf-8", "replace") if isinstance(error, bytes) else None,
    )


# --- how it ended -----------------------------------------------------------------------------------------------

_SIGNALS: Mapping[int, tuple[str, str]] = {
    1: ("SIGHUP", "hangup"),
    2: ("SIGINT", "interrupt"),
    3: ("SIGQUIT", "quit"),
    4: ("SIGILL", "illegal instruction"),
    5: ("SIGTRAP", "trace/breakpoint trap"),
    6: ("SIGABRT", "aborted"),
    7: ("SIGBUS", "bus error"),
    8: ("SIGFPE", "floating point exception"),
    9: ("SIGKILL", "killed"),
    10: ("SIGUSR1", "user defined signal 1"),
    11: ("SIGSEGV", "segmentation fault"),
    12: ("SIGUSR2", "user defined signal 2"),
    13: ("SIGPIPE", "broken pipe"),
    14: ("SIGALRM", "alarm clock"),
    15: ("SIGTERM", "terminated"),
    24: ("SIGXCPU", "cpu time limit exceeded"),
    25: ("SIGXFSZ", "file size limit exceeded"),
    31: ("SIGSYS", "bad system call"),
}
"""Linux signals: number to name and to the words in which Go reports them."""

_NUMBER_BY_WORD = {word: number for number, names in _SIGNALS.items() for word in (names[0].lower(), names[1])}
_SIGNAL_TEXT = re.compile(
    r"(?:signal: *(?:signal )?|(?:terminated|killed) by signal |signal )(.+?)(?: \(core dumped\))?"
)
_CODE_TEXT = re.compile(r"(?:exit status|exited with code|exit code) (-?[0-9]{1,10})")
_LARGEST_CODE = 0xFFFFFFFF
_LAST_SIGNAL = 64


def process_exit(end: ProcessEnded) -> ProcessExit:
    """Return how a process ended: signals as 128 + n, and nothing known as ``None``, never as 0."""
    texts = [text.strip().lower() for text in (end.status, end.error or "")]
    status_text = end.status or end.error or None
    number = next((number for text in texts if (number := _signal_number(text))), None)
    if number is not None:
        name = _SIGNALS[number][0] if number in _SIGNALS else f"SIG{number}"
        return ProcessExit(exit_code=128 + number, signal=name, status_text=status_text)
    return ProcessExit(exit_code=_exit_code(end, texts), status_text=status_text)


def _exit_code(end: ProcessEnded, texts: Iterable[str]) -> int | None:
    if end.exit_code:
        # Go says -1 for "not by exiting"; without a signal's name that is all there is to know.
        return end.exit_code if 0 < end.exit_code <= _LARGEST_CODE else None
    for text in texts:
        if match := _CODE_TEXT.fullmatch(text):
            code = int(match[1])
            return code if code >= 0 else None
    # proto3 leaves out an exit code of 0. A complaint without a code says that there was no exit to speak of.
    says_exited = end.exited or end.exit_code == 0 or end.status == "exited"
    return 0 if says_exited and not end.error else None


def _signal_number(text: str) -> int | None:
    match = _SIGNAL_TEXT.fullmatch(text)
    word = match[1] if match else text
    if match and re.fullmatch("[0-9]+", word):
        return int(word) if len(word) < 3 and 0 < int(word) <= _LAST_SIGNAL else None
    # A live-upgraded envd reports the bare word.
    return _NUMBER_BY_WORD.get(word)


# --- processes and files ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRecord:
    """A process that envd started and that still runs."""

    pid: int
    program: str
    arguments: tuple[str, ...] = ()
    working_directory: str | None = None
    tag: str | None = None


def parse_processes(document: Any) -> list[ProcessRecord]:
    """Return the processes of a ``List`` answer."""
    return [_parse_process(item) for item in _list(document, "processes")]


def _parse_process(item: Mapping[str, Any]) -> ProcessRecord:
    config = _object(item, "config")
    arguments = config.get("args") or []
    return ProcessRecord(
        pid=_natural(item, "pid") or 0,
        program=_text(config, "cmd") or "",
        arguments=tuple(str(argument) for argument in arguments),
        working_directory=_text(config, "cwd"),
        tag=_text(item, "tag"),
    )


_KIND_BY_TYPE = {
    "FILE_TYPE_FILE": FileKind.FILE, 1: FileKind.FILE,
    "FILE_TYPE_DIRECTORY": FileKind.DIRECTORY, 2: FileKind.DIRECTORY,
    "FILE_TYPE_SYMLINK": FileKind.SYMLINK, 3: FileKind.SYMLINK,
}  # fmt: skip


def parse_entry(entry: Any) -> FileInfo:
    """Return the file that an ``EntryInfo`` describes.

    envd gives a symlink the type of its target and tells the target in a field of its own.
    """
    item = _as_object(entry, "entry")
    target = _text(item, "symlinkTarget") or _text(item, "symlink_target")
    kind = FileKind.SYMLINK if target else _KIND_BY_TYPE.get(item.get("type"), FileKind.OTHER)
    return FileInfo(
        path=_text(item, "path") or _text(item, "name") or "",
        kind=kind,
        size_bytes=_natural(item, "size") or 0,
        mode=_natural(item, "mode"),
        modified_at_epoch_ms=parse_timestamp(_text(item, "modifiedTime") or _text(item, "modified_time")),
        owner=_text(item, "owner"),
        group=_text(item, "group"),
        target=target,
    )


class FileChange(StrEnum):
    """What happened to a file."""

    CREATED = "created"
    WRITTEN = "written"
    REMOVED = "removed"
    RENAMED = "renamed"
    PERMISSIONS = "permissions"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEvent:
    """Something that happened below a watched directory.

    Attributes:
        name: Path relative to the directory.
        entry: The file as it is now, when it was asked for and still exists.
    """

    name: str
    change: FileChange
    entry: FileInfo | None = None


_CHANGES = (FileChange.CREATED, FileChange.WRITTEN, FileChange.REMOVED, FileChange.RENAMED, FileChange.PERMISSIONS)
_CHANGE_NAMES = ("CREATE", "WRITE", "REMOVE", "RENAME", "CHMOD")
_CHANGE_BY_TYPE: Mapping[object, FileChange] = {
    **{f"EVENT_TYPE_{name}": change for name, change in zip(_CHANGE_NAMES, _CHANGES, strict=True)},
    **dict(enumerate(_CHANGES, start=1)),
}


def parse_file_event(item: Mapping[str, Any]) -> FileEvent | None:
    """Return a file event; ``None`` for a kind that is not known here."""
    change = _CHANGE_BY_TYPE.get(item.get("type"))
    if change is None:
        return None
    entry = item.get("entry")
    return FileEvent(name=_text(item, "name") or "", change=change, entry=None if entry is None else parse_entry(entry))


def parse_file_events(document: Any) -> list[FileEvent]:
    """Return the events of a ``GetWatcherEvents`` answer."""
    return [event for item in _list(document, "events") if (event := parse_file_event(item)) is not None]


def decode_watch_message(payload: bytes) -> FileEvent | None:
    """Return the event in a message of a ``WatchDir`` stream; ``None`` for its start and keepalives."""
    message = _parse_object(payload)
    return parse_file_event(_object(message, "filesystem")) if "filesystem" in message else None


# --- reading JSON strictly --------------------------------------------------------------------------------------


def decode_base64(text: object) -> bytes:
    """Return the bytes of base64 text: standard or URL-safe, padded or not, nothing else.

    Raises:
        SandboxProtocolError: It is none of these.
    """
    if not isinstance(text, str):
        raise SandboxProtocolError(f"base64 text was expected, got {type(text).__name__}")
    standard = text.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return pybase64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise SandboxProtocolError("output was sent that is not valid base64") from None


def parse_timestamp(text: str | None) -> int | None:
    """Return the milliseconds since 1970 of an RFC 3339 time, ``None`` without one or for nonsense."""
    if not text:
        return None
    # Nanoseconds are more than `datetime` takes.
    try:
        return int(datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text)).timestamp() * 1000)
    except ValueError:
        return None


def _parse_object(payload: bytes) -> Mapping[str, Any]:
    try:
        document = json.loads(payload or b"{}")
    except (ValueError, RecursionError):
        text = payload[:200].decode("utf-8", "replace")
        raise SandboxProtocolError(f"a message of the stream is not JSON: {excerpt(text, 80)!r}") from None
    return _as_object(document, "message")


def _as_object(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise SandboxProtocolError(f"a JSON object was expected as {name}, got {type(value).__name__}")
    return value


def _object(parent: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A sub-message; one that was left out has all its defaults."""
    value = parent.get(name)
    return {} if value is None else _as_object(value, name)


def _list(document: Any, name: str) -> list[Mapping[str, Any]]:
    value = _as_object(document or {}, "answer").get(name)
    if value is not None and not isinstance(value, list):
        raise SandboxProtocolError(f"a list was expected as {name}, got {type(value).__name__}")
    return [_as_object(item, name) for item in value or []]


def _text(parent: Mapping[str, Any], name: str) -> str | None:
    value = parent.get(name)
    return value if isinstance(value, str) else None


def _whole(parent: Mapping[str, Any], name: str) -> int | None:
    """A number; 64-bit ones are strings, and some emulators write 3.0."""
    value = parent.get(name)
    if value is None:
        return None
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,20}", value):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise SandboxProtocolError(f"{name} must be a whole number, got {excerpt(repr(value), 40)}")


def _natural(parent: Mapping[str, Any], name: str) -> int | None:
    value = _whole(parent, name)
    if value is not None and value < 0:
        raise SandboxProtocolError(f"{name} must not be negative, got {value}")
    return value


def _submessage(data: bytes, number: int) -> bytes:
    return b"".join(value for key, value in fields(data) if key == number and isinstance(value, bytes))
