"""The Connect protocol on the server side: content types, errors, and what a request's headers say. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from ai4j_sandbox.errors import (
    SandboxConfigError,
    SandboxException,
    SandboxNotFoundError,
    SandboxOutcomeUnknownError,
    SandboxSessionLostError,
)
from ai4j_sandbox_emulator.envelope import END_OF_STREAM, Envelope
from ai4j_sandbox_emulator.json_text import json_bytes, whole_number
from ai4j_sandbox_emulator.reply import Reply

from .codec import CodecError, Document, decode_binary, decode_json, encode_binary, encode_json
from .messages import Message


class Code(StrEnum):
    """Connect's error codes."""

    CANCELED = "canceled"
    UNKNOWN = "unknown"
    INVALID_ARGUMENT = "invalid_argument"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    NOT_FOUND = "not_found"
    ALREADY_EXISTS = "already_exists"
    PERMISSION_DENIED = "permission_denied"
    RESOURCE_EXHAUSTED = "resource_exhausted"
    FAILED_PRECONDITION = "failed_precondition"
    ABORTED = "aborted"
    OUT_OF_RANGE = "out_of_range"
    UNIMPLEMENTED = "unimplemented"
    INTERNAL = "internal"
    UNAVAILABLE = "unavailable"
    DATA_LOSS = "data_loss"
    UNAUTHENTICATED = "unauthenticated"


HTTP_STATUS: Mapping[Code, int] = {
    Code.CANCELED: 499,
    Code.UNKNOWN: 500,
    Code.INVALID_ARGUMENT: 400,
    Code.DEADLINE_EXCEEDED: 504,
    Code.NOT_FOUND: 404,
    Code.ALREADY_EXISTS: 409,
    Code.PERMISSION_DENIED: 403,
    Code.RESOURCE_EXHAUSTED: 429,
    Code.FAILED_PRECONDITION: 400,
    Code.ABORTED: 409,
    Code.OUT_OF_RANGE: 400,
    Code.UNIMPLEMENTED: 501,
    Code.INTERNAL: 500,
    Code.UNAVAILABLE: 503,
    Code.DATA_LOSS: 500,
    Code.UNAUTHENTICATED: 401,
}


class ConnectError(Exception):
    """A call fails with a code and a text for people."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    def body(self) -> bytes:
        """Return the error as a JSON object."""
        return json_bytes({"code": self.code, "message": self.message})


def as_connect_error(error: ConnectError | SandboxException) -> ConnectError:
    """Return what a failure of the provider is to the client of a call: its own mistake, or an internal one."""
    if isinstance(error, ConnectError):
        return error
    if isinstance(error, SandboxNotFoundError):
        return ConnectError(Code.NOT_FOUND, error.message)
    if isinstance(error, SandboxConfigError):
        return ConnectError(Code.INVALID_ARGUMENT, error.message)
    lost = isinstance(error, SandboxSessionLostError | SandboxOutcomeUnknownError)
    return ConnectError(Code.UNAVAILABLE if lost else Code.INTERNAL, error.message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """How the messages of one call are written.

    Attributes:
        streaming: Whether they come in envelopes.
        binary: Whether they are binary; else JSON.
        gzip: Whether the envelopes of the answer are compressed.
    """

    streaming: bool
    binary: bool = False
    gzip: bool = False

    @property
    def content_type(self) -> str:
        """The answer's content type."""
        return ("application/connect+" if self.streaming else "application/") + ("proto" if self.binary else "json")

    def encode(self, message: Message, document: Document) -> bytes:
        """Return a message's bytes.

        Raises:
            ConnectError: It holds text that is no UTF-8, as a file's name need not be; envd cannot tell of that.
        """
        try:
            return (encode_binary if self.binary else encode_json)(message, document)
        except UnicodeEncodeError:
            raise ConnectError(Code.INTERNAL, "marshal message: a field contains invalid UTF-8") from None

    def decode(self, message: Message, data: bytes) -> Document:
        """Return the message in a request's bytes.

        Raises:
            ConnectError: They hold none.
        """
        try:
            return (decode_binary if self.binary else decode_json)(message, data)
        except CodecError as error:
            raise ConnectError(Code.INVALID_ARGUMENT, f"unmarshal message: {error}") from error

    def frame(self, message: Message, document: Document) -> bytes:
        """Return a message in an envelope."""
        return self._encoded(Envelope(self.encode(message, document)))

    def end_frame(self, error: ConnectError | None = None) -> bytes:
        """Return the last envelope of a stream. Its JSON is the same for both ways to write messages."""
        payload = b"{}" if error is None else b'{"error":' + error.body() + b"}"
        return self._encoded(Envelope(payload, END_OF_STREAM))

    def _encoded(self, envelope: Envelope) -> bytes:
        return (envelope.compressed() if self.gzip else envelope).encoded()


def request_format(headers: Mapping[str, str], *, streaming: bool) -> Format | None:
    """Return how a call is written, or ``None`` when its content type does not fit the method's kind."""
    content_type = headers.get("Content-Type", "").partition(";")[0].strip().lower()
    offered = headers.get("Connect-Accept-Encoding", "")
    gzip = streaming and "gzip" in (part.strip() for part in offered.split(","))
    for binary in (False, True):
        candidate = Format(streaming=streaming, binary=binary, gzip=gzip)
        if candidate.content_type == content_type:
            return candidate
    return None


def accepted_types(*, streaming: bool) -> str:
    """Return the ``Accept-Post`` header of a 415."""
    return ", ".join(Format(streaming=streaming, binary=binary).content_type for binary in (False, True))


def check_protocol_headers(headers: Mapping[str, str]) -> None:
    """Refuse what envd refuses.

    Raises:
        ConnectError: Another protocol version, or a compression that is not offered.
    """
    version = headers.get("Connect-Protocol-Version", "1")
    if version != "1":
        raise ConnectError(Code.INVALID_ARGUMENT, f'connect-protocol-version must be "1": got "{version}"')
    for name in ("Content-Encoding", "Connect-Content-Encoding"):
        encoding = headers.get(name, "identity")
        if encoding not in ("identity", "gzip"):
            raise ConnectError(Code.UNIMPLEMENTED, f'unknown compression "{encoding}": supported encodings are gzip')


def timeout_seconds(headers: Mapping[str, str]) -> float | None:
    """Return the call's deadline in seconds, or ``None`` without one.

    Raises:
        ConnectError: The header is no such number.
    """
    text = headers.get("Connect-Timeout-Ms", "")
    if not text:
        return None
    milliseconds = whole_number(text)
    if milliseconds is None or len(text) > 10:
        raise ConnectError(Code.INVALID_ARGUMENT, f'protocol error: invalid timeout "{text}"')
    return milliseconds / 1000


def keepalive_seconds(headers: Mapping[str, str]) -> float:
    """Return the interval of keepalives; real envd panics on 0, here it counts as the default."""
    return float(whole_number(headers.get("Keepalive-Ping-Interval", "")) or 90)


def unary_reply(form: Format, message: Message, document: Document) -> Reply:
    """Return the answer of a unary call."""
    return Reply(headers={"Content-Type": form.content_type}, body=form.encode(message, document))


def unary_error(error: ConnectError) -> Reply:
    """Return the failure of a unary call; always JSON."""
    return Reply(status=HTTP_STATUS[error.code], headers={"Content-Type": "application/json"}, body=error.body())


def stream_error(form: Format, error: ConnectError) -> Reply:
    """Return a stream that holds nothing but its failure; HTTP calls that a success."""
    return Reply(headers={"Content-Type": form.content_type}, body=form.end_frame(error))
