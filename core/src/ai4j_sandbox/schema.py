"""JSON for the data model: camelCase in and out, one marshmallow schema per type.

The schemas live at the edge and the model does not know them. `dump` and `load` are the way in and out; a wrong
document becomes one `SandboxConfigError` that lists the paths of all wrong fields. Documents of the Java original load
too: its extra spellings are accepted, unknown keys are refused with the nearest known one.
"""

from __future__ import annotations

import base64
import difflib
from collections.abc import Mapping
from typing import Any, TypeVar

import marshmallow as ma
from marshmallow import fields

from .binding import AgentSessionSandboxBinding
from .errors import SandboxConfigError
from .frozen import thaw, type_name
from .model import (
    CapturedOutput,
    OutputStream,
    SandboxArtifact,
    SandboxCommand,
    SandboxEvent,
    SandboxEventType,
    SandboxResult,
    SandboxSpec,
    SandboxStatus,
    SandboxSummary,
    StreamMode,
    TerminalSize,
)

T = TypeVar("T")


def dump(value: Any) -> dict[str, Any]:
    """Return a model object as JSON-ready data. Fields that are not given (``None``) are left out.

    Raises:
        SandboxConfigError: There is no schema for this type.
    """
    schema = _SCHEMAS.get(type(value))
    if schema is None:
        raise SandboxConfigError(f"no JSON form for {type(value).__name__}")
    return schema().dump(value)  # type: ignore[no-any-return]  # marshmallow types dump as Any


def load(schema: type[ModelSchema], data: Any, expected: type[T]) -> T:
    """Return the `expected` object that `data` describes.

    Raises:
        SandboxConfigError: `data` is no such document; `fields` maps each wrong path to its messages.
    """
    if not isinstance(data, Mapping):
        raise SandboxConfigError(f"{expected.__name__} must be a JSON object, got {type(data).__name__}")
    try:
        loaded = schema().load(thaw(data))
    except ma.ValidationError as error:
        problems = dict(_flatten(error.messages_dict))
        text = "; ".join(f"{path}: {' '.join(messages)}".removeprefix(": ") for path, messages in problems.items())
        raise SandboxConfigError(f"not a valid {expected.__name__}: {text}", fields=problems) from None
    assert isinstance(loaded, expected)
    return loaded


def load_spec(data: Any) -> SandboxSpec:
    """Return the `SandboxSpec` of a JSON object. Raises `SandboxConfigError`."""
    return load(SpecSchema, data, SandboxSpec)


def load_command(data: Any) -> SandboxCommand:
    """Return the `SandboxCommand` of a JSON object. Raises `SandboxConfigError`."""
    return load(CommandSchema, data, SandboxCommand)


def load_result(data: Any) -> SandboxResult:
    """Return the `SandboxResult` of a JSON object. Raises `SandboxConfigError`."""
    return load(ResultSchema, data, SandboxResult)


def load_event(data: Any) -> SandboxEvent:
    """Return the `SandboxEvent` of a JSON object. Raises `SandboxConfigError`."""
    return load(EventSchema, data, SandboxEvent)


def load_artifact(data: Any) -> SandboxArtifact:
    """Return the `SandboxArtifact` of a JSON object. Raises `SandboxConfigError`."""
    return load(ArtifactSchema, data, SandboxArtifact)


def load_summary(data: Any) -> SandboxSummary:
    """Return the `SandboxSummary` of a JSON object. Raises `SandboxConfigError`."""
    return load(SummarySchema, data, SandboxSummary)


def _flatten(messages: Mapping[Any, Any], path: str = "") -> list[tuple[str, list[str]]]:
    flat: list[tuple[str, list[str]]] = []
    for key, value in messages.items():
        below = path if key == "_schema" else f"{path}.{key}".removeprefix(".")
        if isinstance(value, Mapping):
            flat += _flatten(value, below)
        else:
            flat.append((below, [str(message) for message in value]))
    return flat


# --- field types ------------------------------------------------------------------------------------------------


class WholeNumber(fields.Integer):
    """An integer that is one: no strings, booleans or fractions."""

    def __init__(self, **options: Any) -> None:
        super().__init__(strict=True, allow_none=True, **options)

    def _validated(self, value: Any) -> int:
        if isinstance(value, bool | str):
            raise self.make_error("invalid", input=value)
        return super()._validated(value)


class Base64(fields.Field[bytes]):
    """Bytes as standard base64 text."""

    def _serialize(self, value: Any, attr: str | None, obj: Any, **options: Any) -> str | None:
        return None if value is None else base64.b64encode(value).decode("ascii")

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> bytes:
        return _from_base64(value)


class AnyMap(fields.Field[Mapping[str, Any]]):
    """A JSON object of any content."""

    def _serialize(self, value: Any, attr: str | None, obj: Any, **options: Any) -> Any:
        return thaw(value) or None

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise ma.ValidationError("must be a mapping")
        return value


class LineOrArguments(fields.Field[Any]):
    """A command: text is a shell line, a list an argument list."""

    def _serialize(self, value: Any, attr: str | None, obj: Any, **options: Any) -> Any:
        return thaw(value)


def _text(**options: Any) -> fields.String:
    return fields.String(allow_none=True, **options)


def _flag(key: str) -> fields.Boolean:
    return fields.Boolean(data_key=key, truthy={True}, falsy={False})


def _word(enum: type[Any]) -> fields.Enum[Any]:
    return fields.Enum(enum, by_value=True, allow_none=True)


# --- schemas ----------------------------------------------------------------------------------------------------


class ModelSchema(ma.Schema):
    """Camel-case JSON for one model type."""

    class Meta:
        unknown = ma.RAISE

    model: type[Any]

    def _accept(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return the document in our own spelling; the place for variants that load too."""
        return data

    def _arguments(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return the model's constructor arguments for the loaded fields."""
        return data

    @ma.pre_load
    def _prepare(self, data: Any, **options: Any) -> dict[str, Any]:
        if not isinstance(data, Mapping):
            raise ma.ValidationError(f"must be a JSON object, got {type_name(data)}")
        accepted = self._accept(dict(data))
        known = {field.data_key or name: name for name, field in self.load_fields.items()}
        unknown = {key: [_unknown_key(key, known)] for key in accepted if key not in known}
        if unknown:
            raise ma.ValidationError(unknown)
        return accepted

    @ma.post_load
    def _make(self, data: dict[str, Any], **options: Any) -> Any:
        given = self._arguments({name: value for name, value in data.items() if value is not None})
        try:
            return self.model(**given)
        except SandboxConfigError as error:
            raise ma.ValidationError(error.message) from None

    @ma.post_dump
    def _leave_out_absent(self, data: dict[str, Any], **options: Any) -> dict[str, Any]:
        return {key: value for key, value in data.items() if value is not None}


def _unknown_key(key: str, known: Mapping[str, str]) -> str:
    nearest = difflib.get_close_matches(key, known, n=1)
    return f"unknown key; did you mean {nearest[0]!r}?" if nearest else "unknown key"


class SpecSchema(ModelSchema):
    """`SandboxSpec`."""

    model = SandboxSpec
    provider_id = _text(data_key="providerId")
    profile = _text()
    image = _text()
    workspace_id = _text(data_key="workspaceId")
    labels = AnyMap(allow_none=True)
    config = AnyMap(allow_none=True)


class TerminalSchema(ModelSchema):
    """`TerminalSize`."""

    model = TerminalSize
    rows = WholeNumber()
    columns = WholeNumber()


class CommandSchema(ModelSchema):
    """`SandboxCommand`. Input that is no text is `stdinBase64`; a Java timeout of 0 or less meant "no limit"."""

    model = SandboxCommand
    command_id = _text(data_key="commandId")
    command = LineOrArguments(required=True)
    working_directory = _text(data_key="workingDirectory")
    stdin = fields.Function(lambda command: _as_text(command.stdin), lambda value: value, allow_none=True)
    stdin_base64 = fields.Function(lambda command: _as_base64(command.stdin), data_key="stdinBase64")
    keep_stdin_open = _flag("keepStdinOpen")
    timeout_millis = WholeNumber(data_key="timeoutMillis")
    environment = AnyMap(allow_none=True)
    metadata = AnyMap(allow_none=True)
    artifacts = fields.List(fields.String(), allow_none=True)
    output_limit_bytes = WholeNumber(data_key="outputLimitBytes")
    terminal = fields.Nested(TerminalSchema, allow_none=True)

    def _accept(self, data: dict[str, Any]) -> dict[str, Any]:
        if (encoded := data.pop("stdinBase64", None)) is not None:
            data["stdin"] = _from_base64(encoded)
        timeout = data.get("timeoutMillis")
        if isinstance(timeout, int) and timeout <= 0:
            data["timeoutMillis"] = None
        return data


class ArtifactSchema(ModelSchema):
    """`SandboxArtifact`."""

    model = SandboxArtifact
    artifact_id = _text(data_key="artifactId")
    name = _text()
    path = _text()
    mime_type = _text(data_key="mimeType")
    size_bytes = WholeNumber(data_key="sizeBytes")
    sha256 = _text()


class EventSchema(ModelSchema):
    """`SandboxEvent`; output is base64, because a chunk may end inside a character."""

    model = SandboxEvent
    event_id = _text(data_key="eventId")
    type = _word(SandboxEventType)
    session_id = _text(data_key="sessionId")
    command_id = _text(data_key="commandId")
    message = _text()
    timestamp_epoch_ms = WholeNumber(data_key="timestampEpochMs")
    sequence = WholeNumber()
    stream = _word(OutputStream)
    data = Base64(allow_none=True)
    offset = WholeNumber()
    dropped_bytes = WholeNumber(data_key="droppedBytes")
    exit_code = WholeNumber(data_key="exitCode")
    timed_out = fields.Boolean(data_key="timedOut", truthy={True}, falsy={False}, allow_none=True)


class CapturedSchema(ModelSchema):
    """`CapturedOutput`."""

    model = CapturedOutput
    head = Base64()
    tail = Base64()
    total_bytes = WholeNumber(data_key="totalBytes")


class ResultSchema(ModelSchema):
    """`SandboxResult`. Output is text; what it cannot carry (binary, truncation) is in `captured…` too."""

    model = SandboxResult
    command_id = _text(data_key="commandId")
    exit_code = WholeNumber(data_key="exitCode")
    stdout = _text()
    stderr = _text()
    captured_stdout = fields.Nested(CapturedSchema, data_key="capturedStdout")
    captured_stderr = fields.Nested(CapturedSchema, data_key="capturedStderr")
    signal = _text()
    timed_out = _flag("timedOut")
    canceled = _flag("canceled")
    duration_millis = WholeNumber(data_key="durationMillis")
    artifacts = fields.List(fields.Nested(ArtifactSchema, allow_none=True), allow_none=True)
    events = fields.List(fields.Nested(EventSchema, allow_none=True), allow_none=True)
    streams = _word(StreamMode)
    status_text = _text(data_key="statusText")
    artifacts_error = _text(data_key="artifactsError")

    @ma.post_dump(pass_original=True)
    def _leave_out_plain_captures(self, data: dict[str, Any], original: Any, **options: Any) -> dict[str, Any]:
        for key, captured in (
            ("capturedStdout", original.captured_stdout),
            ("capturedStderr", original.captured_stderr),
        ):
            if captured == CapturedOutput.whole(captured.text()):
                del data[key]
        return data

    def _arguments(self, data: dict[str, Any]) -> dict[str, Any]:
        for text, captured in (("stdout", "captured_stdout"), ("stderr", "captured_stderr")):
            if captured in data:
                data.pop(text, None)
        return data


class SummarySchema(ModelSchema):
    """`SandboxSummary`."""

    model = SandboxSummary
    session_id = _text(data_key="sessionId", required=True)
    provider_id = _text(data_key="providerId", required=True)
    status = _word(SandboxStatus)
    state = _text()
    name = _text()
    image = _text()
    labels = AnyMap(allow_none=True)
    created_at_epoch_ms = WholeNumber(data_key="createdAtEpochMs")
    expires_at_epoch_ms = WholeNumber(data_key="expiresAtEpochMs")


class BindingSchema(ModelSchema):
    """`AgentSessionSandboxBinding`; the Java original calls its times `boundAtEpochMs` and `updatedAtEpochMs`."""

    model = AgentSessionSandboxBinding
    provider_id = _text(data_key="providerId")
    sandbox_session_id = _text(data_key="sandboxSessionId")
    status = _word(SandboxStatus)
    profile = _text()
    image = _text()
    workspace_id = _text(data_key="workspaceId")
    labels = AnyMap(allow_none=True)
    bound_at = WholeNumber(data_key="boundAt")
    updated_at = WholeNumber(data_key="updatedAt")

    def _accept(self, data: dict[str, Any]) -> dict[str, Any]:
        return {key.replace("AtEpochMs", "At"): value for key, value in data.items()}


def _as_text(value: str | bytes | None) -> str | None:
    return value if isinstance(value, str) else None


def _as_base64(value: str | bytes | None) -> str | None:
    return base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else None


def _from_base64(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError):
        raise ma.ValidationError("must be base64 text") from None


_SCHEMAS: Mapping[type[Any], type[ModelSchema]] = {
    schema.model: schema
    for schema in (
        SpecSchema,
        CommandSchema,
        TerminalSchema,
        ArtifactSchema,
        EventSchema,
        CapturedSchema,
        ResultSchema,
        SummarySchema,
        BindingSchema,
    )
}
