"""Everything envd offers, one method per call. What a call means for a command or a file is decided above.

Unary calls are JSON. Streams are `MessageStream`s; the process streams speak the codec the client was given, and fall
back to JSON once, when the server refuses the other before anything ran.
"""

from __future__ import annotations

import base64
import functools
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.errors import SandboxException, SandboxProtocolError, UnsupportedCapabilityError
from ai4j_sandbox.files import FileInfo
from ai4j_sandbox.model import TerminalSize

from .connect import (
    DEFAULT_ENVELOPE_LIMIT_BYTES,
    Codec,
    Envelope,
    EnvelopeDecoder,
    encode_envelope,
    stream_headers,
    unary_headers,
)
from .direct import StreamingResponse
from .envd import (
    FileEvent,
    ProcessRecord,
    Selector,
    StartRequest,
    encode_json,
    input_document,
    parse_entry,
    parse_file_events,
    parse_processes,
    terminal_document,
)
from .http import HttpClient
from .message import Body, HttpLimits, excerpt, media_type

_CODEC_BY_TYPE = {codec.stream_type: codec for codec in Codec}
_SLOWEST_READER_SECONDS = 24 * 3600.0  # a command may leave its input unread for as long as it runs
_VERSION = re.compile(r"v?([0-9]{1,9}(?:\.[0-9]{1,9})*)(?:[-+].*)?")
_CONTENT_REFUSED = frozenset((415, 501))


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvdOptions:
    """How to talk to one envd.

    Attributes:
        version: As the control plane tells it; ``None`` is taken for a current one.
        user: Linux user for calls that do not name another; ``None`` for the sandbox's default.
        codec: How process streams are written.
        keepalive_seconds: How often a silent stream says that it lives. Positive: envd does not survive a zero.
        envelope_limit_bytes, limit_setting: The longest message accepted, and the knob's name.
    """

    version: str | None = None
    user: str | None = None
    codec: Codec = Codec.JSON
    keepalive_seconds: int = 30
    envelope_limit_bytes: int = DEFAULT_ENVELOPE_LIMIT_BYTES
    limit_setting: str = "connectEnvelopeLimitBytes"

    def at_least(self, *version: int) -> bool:
        """Whether envd is of this version or newer; one that does not say is."""
        own = _version_numbers(self.version)
        return own is None or own >= version


class MessageStream:
    """The messages of a streaming answer. `receive` by one thread at a time, `close` from any."""

    def __init__(self, response: StreamingResponse, options: EnvdOptions) -> None:
        self.codec = _codec_of(response)
        self._response = response
        self._decoder = EnvelopeDecoder(
            limit_bytes=options.envelope_limit_bytes,
            limit_setting=options.limit_setting,
            compression=response.headers.get("connect-content-encoding", "identity"),
        )

    def receive(self, timeout: float | None) -> list[Envelope] | None:
        """Return the messages that arrived, possibly none yet whole; ``None`` after `timeout` seconds of silence.

        The last one says that it is the end of the stream; not called again after it.

        Raises:
            StreamCutError: The connection or the stream ended before that.
            SandboxProtocolError, SandboxOutputLimitError: As `EnvelopeDecoder.feed`.
        """
        self._decoder.raise_pending()
        data = self._response.receive(timeout)
        if data is None:
            return None
        if not data:
            self._decoder.finish()
        envelopes = self._decoder.feed(data)
        if self._decoder.ended:
            self.finish()
        return envelopes

    def finish(self) -> None:
        """Let go of the stream after its last message, keeping the connection."""
        self._response.finish()

    def close(self) -> None:
        """Let go of the stream wherever it is."""
        self._response.close()


class EnvdClient:
    """Calls one envd. Thread-safe.

    Args:
        http: Client for the data plane, with `connect.unary_error` among its explanations.
    """

    def __init__(self, http: HttpClient, options: EnvdOptions | None = None) -> None:
        self.http = http
        self.options = options or EnvdOptions()
        self._codec = self.options.codec

    # --- the daemon ---------------------------------------------------------------------------------------------

    def health(self, deadline: Deadline | None = None) -> None:
        """Return when envd answers.

        Raises:
            SandboxProtocolError: Something else than an envd answers.
            SandboxException: It does not, or something in its place says that the sandbox is gone.
        """
        # Any JSON: behind a port of one's own choice a gateway may answer for envd, in its own words.
        self.http.call("GET", "/health", deadline=deadline, operation="health")

    def metrics(self, deadline: Deadline | None = None) -> Mapping[str, Any]:
        """Return the machine's use: ``cpu_used_pct``, ``mem_used``, ``mem_total``, ``disk_used`` and so on."""
        return self._document("/metrics", "metrics", deadline)

    def environment(self, deadline: Deadline | None = None) -> Mapping[str, Any]:
        """Return the default environment of new processes."""
        return self._document("/envs", "environment", deadline)

    # --- processes ----------------------------------------------------------------------------------------------

    def start(
        self,
        request: StartRequest,
        *,
        timeout_millis: int | None = None,
        deadline: Deadline | None = None,
        user: str | None = None,
    ) -> MessageStream:
        """Start a process and return the stream of its events. Sent at most once to whoever may run it.

        Args:
            timeout_millis: Life of the process on the server's clock.
            deadline: For the answer to begin.
        """
        return self._process_stream("Start", request.encode, timeout_millis, deadline, user)

    def follow(self, selector: Selector, *, deadline: Deadline | None = None) -> MessageStream:
        """Return the stream of a running process's events from now on."""
        return self._process_stream("Connect", selector.encode_connect, None, deadline, None)

    def list_processes(self, deadline: Deadline | None = None) -> list[ProcessRecord]:
        """Return the processes that envd started and that still run."""
        return parse_processes(self._rpc("process.Process/List", {}, deadline=deadline, idempotent=True))

    def send_input(
        self, selector: Selector, data: bytes, *, terminal: bool = False, deadline: Deadline | None = None
    ) -> None:
        """Hand input to a process; returns when its pipe has taken all of it, however long it takes to read."""
        document = input_document(selector, data, terminal=terminal)
        patient = replace(self.http.limits, read_seconds=_SLOWEST_READER_SECONDS)
        self._rpc("process.Process/SendInput", document, deadline=deadline or Deadline(None), limits=patient)

    def close_stdin(self, selector: Selector, deadline: Deadline | None = None) -> None:
        """End a process's input. Idempotent. Needs envd 0.5.2."""
        document = {"process": selector.document()}
        self._rpc("process.Process/CloseStdin", document, deadline=deadline, idempotent=True)

    def send_signal(self, selector: Selector, signal: str, deadline: Deadline | None = None) -> None:
        """Send ``SIGTERM`` or ``SIGKILL`` to this one process.

        Raises:
            SandboxNotFoundError: It has ended.
        """
        document = {"process": selector.document(), "signal": f"SIGNAL_{signal}"}
        self._rpc("process.Process/SendSignal", document, deadline=deadline)

    def resize(self, selector: Selector, size: TerminalSize, deadline: Deadline | None = None) -> None:
        """Change the size of a process's terminal."""
        document = {"process": selector.document(), "pty": terminal_document(size)}
        self._rpc("process.Process/Update", document, deadline=deadline, idempotent=True)

    # --- files --------------------------------------------------------------------------------------------------

    def stat(self, path: str, deadline: Deadline | None = None) -> FileInfo:
        """Describe one path."""
        answer = self._rpc("filesystem.Filesystem/Stat", {"path": path}, deadline=deadline, idempotent=True)
        return parse_entry(answer.get("entry"))

    def list_dir(self, path: str, depth: int = 1, deadline: Deadline | None = None) -> list[FileInfo]:
        """Return the entries below a directory; the directory itself is not among them."""
        document = {"path": path, "depth": depth}
        answer = self._rpc("filesystem.Filesystem/ListDir", document, deadline=deadline, idempotent=True)
        return [parse_entry(entry) for entry in answer.get("entries") or []]

    def make_dir(self, path: str, deadline: Deadline | None = None) -> None:
        """Create a directory and its parents.

        Raises:
            SandboxConflictError: It exists.
        """
        self._rpc("filesystem.Filesystem/MakeDir", {"path": path}, deadline=deadline)

    def move(self, source: str, destination: str, deadline: Deadline | None = None) -> None:
        """Rename; parents of the destination are created, a file there is replaced."""
        document = {"source": source, "destination": destination}
        self._rpc("filesystem.Filesystem/Move", document, deadline=deadline)

    def remove(self, path: str, deadline: Deadline | None = None) -> None:
        """Remove a file or a directory with everything in it; a missing path is fine."""
        self._rpc("filesystem.Filesystem/Remove", {"path": path}, deadline=deadline, idempotent=True)

    def read_file(self, path: str, deadline: Deadline | None = None) -> Iterator[bytes]:
        """Yield a file's content as it arrives. The request is sent when this is called, not when it is iterated."""
        # A download has no total limit of its own: what bounds it is silence.
        deadline = deadline or Deadline(None)
        response = self.http.stream(
            "GET", "/files", query=self._file_query(path), headers={"Accept": "*/*"}, deadline=deadline
        )
        # A file may well be HTML; but envd sends none without this header, and sign-in pages have no reason to.
        page = media_type(response.headers) == "text/html" and "content-disposition" not in response.headers
        packed = response.headers.get("content-encoding", "identity").lower() not in ("", "identity")
        if page or packed or response.status != 200:  # only what was asked for: the whole file, as it is
            raise _not_from_envd(response, "a file")
        return self._download(response, deadline)

    def write_file(self, path: str, chunks: Iterable[bytes], deadline: Deadline | None = None) -> None:
        """Create or overwrite a file, with its parents, from chunks. Not atomic: a cut upload leaves a part."""
        boundary = f"ai4j-{uuid.uuid4().hex}"
        raw = self.options.at_least(0, 5, 7)
        kind = "application/octet-stream" if raw else f"multipart/form-data; boundary={boundary}"
        body = _sized_if_small(chunks if raw else _multipart(chunks, boundary))
        self.http.call(
            "POST",
            "/files",
            query=self._file_query(path),
            body=body,
            headers={"Content-Type": kind},
            deadline=deadline or Deadline(None),
            expect=Body.LIST,
        )

    def watch_dir(
        self, path: str, *, recursive: bool = False, entries: bool = False, deadline: Deadline | None = None
    ) -> MessageStream:
        """Return the stream of what happens below a directory (`envd.decode_watch_message`)."""
        body = encode_json(_watch_document(path, recursive=recursive, entries=entries))
        return self._stream("filesystem.Filesystem/WatchDir", Codec.JSON, body, None, deadline, None)

    def create_watcher(
        self, path: str, *, recursive: bool = False, entries: bool = False, deadline: Deadline | None = None
    ) -> str:
        """Let envd collect what happens below a directory; return the id to ask with."""
        document = _watch_document(path, recursive=recursive, entries=entries)
        answer = self._rpc("filesystem.Filesystem/CreateWatcher", document, deadline=deadline)
        watcher = answer.get("watcherId") or answer.get("watcher_id")
        if not isinstance(watcher, str) or not watcher:
            raise SandboxProtocolError("a watcher was created without an id")
        return watcher

    def watcher_events(self, watcher_id: str, deadline: Deadline | None = None) -> list[FileEvent]:
        """Return what a watcher collected since the last call."""
        document = {"watcherId": watcher_id}
        return parse_file_events(self._rpc("filesystem.Filesystem/GetWatcherEvents", document, deadline=deadline))

    def remove_watcher(self, watcher_id: str, deadline: Deadline | None = None) -> None:
        """Stop a watcher."""
        self._rpc("filesystem.Filesystem/RemoveWatcher", {"watcherId": watcher_id}, deadline=deadline)

    # --- how ----------------------------------------------------------------------------------------------------

    def _document(self, path: str, operation: str, deadline: Deadline | None) -> Mapping[str, Any]:
        document: Mapping[str, Any] = self.http.json(
            "GET", path, deadline=deadline, expect=Body.OBJECT, operation=operation
        )
        return document

    def _rpc(
        self,
        method: str,
        document: Mapping[str, Any],
        *,
        deadline: Deadline | None,
        idempotent: bool = False,
        limits: HttpLimits | None = None,
    ) -> Mapping[str, Any]:
        reply = self.http.call(
            "POST",
            f"/{method}",
            body=encode_json(document),
            headers=unary_headers() | self._user_header(None),
            deadline=deadline,
            idempotent=idempotent,
            limits=limits,
            expect=Body.OBJECT,
            operation=method,
        )
        answer: Mapping[str, Any] = reply.json()
        return answer

    def _process_stream(
        self,
        method: str,
        encode: Callable[[Codec], bytes],
        timeout_millis: int | None,
        deadline: Deadline | None,
        user: str | None,
    ) -> MessageStream:
        codec = self._codec
        name = f"process.Process/{method}"
        try:
            return self._stream(name, codec, encode(codec), timeout_millis, deadline, user)
        except UnsupportedCapabilityError as refusal:
            # Sent again only because this answer says that the content was never looked at.
            if codec is Codec.JSON or refusal.http_status not in _CONTENT_REFUSED:
                raise
            self._codec = Codec.JSON
        return self._stream(name, Codec.JSON, encode(Codec.JSON), timeout_millis, deadline, user)

    def _stream(
        self,
        method: str,
        codec: Codec,
        message: bytes,
        timeout_millis: int | None,
        deadline: Deadline | None,
        user: str | None,
    ) -> MessageStream:
        headers = stream_headers(codec, timeout_millis=timeout_millis) | self._user_header(user)
        headers["Keepalive-Ping-Interval"] = str(max(1, self.options.keepalive_seconds))
        body = encode_envelope(message)
        response = self.http.stream(
            "POST", f"/{method}", body=body, headers=headers, deadline=deadline, operation=method
        )
        try:
            return MessageStream(response, self.options)
        except BaseException:
            response.close()
            raise

    def _user_header(self, user: str | None) -> dict[str, str]:
        """envd takes the Linux user from Basic authentication, without a password."""
        name = user or self.options.user
        if name is None:
            return {}
        return {"Authorization": f"Basic {base64.b64encode(f'{name}:'.encode()).decode('ascii')}"}

    def _file_query(self, path: str) -> dict[str, str | int | bool | None]:
        return {"path": path, "username": self.options.user}

    def _download(self, response: StreamingResponse, deadline: Deadline) -> Iterator[bytes]:
        with response:
            yield from response.pieces(deadline, self.http.limits.read_seconds)


def _codec_of(response: StreamingResponse) -> Codec:
    codec = _CODEC_BY_TYPE.get(media_type(response.headers))
    if codec is None:
        raise _not_from_envd(response, "a Connect stream")
    return codec


def _not_from_envd(response: StreamingResponse, expected: str) -> SandboxProtocolError:
    with response:
        kind = media_type(response.headers) or "of no type"
        return SandboxProtocolError(
            f"{expected} was expected, but the answer (status {response.status}) is {kind!r}: {_beginning(response)}",
            hint="check the URL; a proxy or a sign-in page may have answered in place of the sandbox",
            http_status=response.status,
        )


def _beginning(response: StreamingResponse) -> str:
    try:
        return excerpt((response.receive(1.0) or b"").decode("utf-8", "replace")) or "nothing"
    except SandboxException:
        return "nothing"


@functools.cache
def _version_numbers(version: str | None) -> tuple[int, ...] | None:
    match = _VERSION.fullmatch((version or "").strip())
    return None if match is None else tuple(map(int, match[1].split(".")))


def _watch_document(path: str, *, recursive: bool, entries: bool) -> dict[str, Any]:
    document: dict[str, Any] = {"path": path, "recursive": recursive}
    if entries:  # a field that only envd 0.6.3 and later knows
        document["includeEntry"] = True
    return document


def _multipart(chunks: Iterable[bytes], boundary: str) -> Iterator[bytes]:
    yield (
        f"--{boundary}\r\n"
        'Content-Disposition: form-data; name="file"; filename="file"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n"
    ).encode()
    yield from chunks
    yield f"\r\n--{boundary}--\r\n".encode()


def _sized_if_small(chunks: Iterable[bytes], small: int = 256 * 1024) -> bytes | Iterable[bytes]:
    """Short content as one piece, which is sent with its length; longer content as it comes."""
    source = iter(chunks)
    first: list[bytes] = []
    size = 0
    for chunk in source:
        first.append(chunk)
        size += len(chunk)
        if size > small:
            return chain(first, source)
    return b"".join(first)
