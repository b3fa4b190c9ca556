"""envd's messages as tables: field names, numbers and kinds, read off the published protocol.

A message in memory is a plain dict with the JSON field names. Bytes are `bytes`, 64-bit integers `int`, enums their
names, timestamps milliseconds since 1970. `codec` turns tables and dicts into JSON or binary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto


class Scalar(Enum):
    """Kinds of single values."""

    STRING = auto()
    BYTES = auto()
    BOOL = auto()
    UINT32 = auto()
    SINT32 = auto()
    INT64 = auto()
    TIMESTAMP = auto()


@dataclass(frozen=True, slots=True)
class Enumeration:
    """Names by number; 0 is the default."""

    names: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class Field:
    """One field.

    Attributes:
        presence: Whether "given" differs from "default": it is written even when it is the default.
    """

    number: int
    name: str
    kind: Scalar | Enumeration | Message
    presence: bool = False
    repeated: bool = False
    string_map: bool = False

    @property
    def is_message(self) -> bool:
        """Whether its value is a message."""
        return isinstance(self.kind, Message)


@dataclass(frozen=True, slots=True)
class Message:
    """One message type."""

    fields: tuple[Field, ...] = ()
    by_number: Mapping[int, Field] = field(init=False)
    by_name: Mapping[str, Field] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_number", {item.number: item for item in self.fields})
        names = {item.name: item for item in self.fields}
        # proto3 JSON: a parser takes lowerCamelCase and the original snake_case.
        object.__setattr__(self, "by_name", {**{_snake(name): item for name, item in names.items()}, **names})


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def _message(
    **fields: tuple[int, Scalar | Enumeration | Message] | tuple[int, Scalar | Enumeration | Message, str],
) -> Message:
    return Message(tuple(_field(name, *description) for name, description in fields.items()))


def _field(name: str, number: int, kind: Scalar | Enumeration | Message, label: str = "") -> Field:
    return Field(
        number,
        name,
        kind,
        presence=label == "optional" or (isinstance(kind, Message) and not label),
        repeated=label == "repeated",
        string_map=label == "map",
    )


STRING, BYTES, BOOL = Scalar.STRING, Scalar.BYTES, Scalar.BOOL
UINT32, SINT32, INT64 = Scalar.UINT32, Scalar.SINT32, Scalar.INT64

EMPTY = _message()

# --- process.Process ----------------------------------------------------------------------------------------------

SIGNAL = Enumeration({0: "SIGNAL_UNSPECIFIED", 9: "SIGNAL_SIGKILL", 15: "SIGNAL_SIGTERM"})
SELECTOR = _message(pid=(1, UINT32, "optional"), tag=(2, STRING, "optional"))
PTY = _message(size=(1, _message(cols=(1, UINT32), rows=(2, UINT32))))
PROCESS_CONFIG = _message(
    cmd=(1, STRING), args=(2, STRING, "repeated"), envs=(3, STRING, "map"), cwd=(4, STRING, "optional")
)
PROCESS_INPUT = _message(stdin=(1, BYTES, "optional"), pty=(2, BYTES, "optional"))
PROCESS_EVENT = _message(
    start=(1, _message(pid=(1, UINT32))),
    data=(2, _message(stdout=(1, BYTES, "optional"), stderr=(2, BYTES, "optional"), pty=(3, BYTES, "optional"))),
    end=(3, _message(exitCode=(1, SINT32), exited=(2, BOOL), status=(3, STRING), error=(4, STRING, "optional"))),
    keepalive=(4, EMPTY),
)

LIST_RESPONSE = _message(
    processes=(1, _message(config=(1, PROCESS_CONFIG), pid=(2, UINT32), tag=(3, STRING, "optional")), "repeated")
)
START_REQUEST = _message(
    process=(1, PROCESS_CONFIG), pty=(2, PTY), tag=(3, STRING, "optional"), stdin=(4, BOOL, "optional")
)
PROCESS_EVENT_RESPONSE = _message(event=(1, PROCESS_EVENT))
SELECTOR_REQUEST = _message(process=(1, SELECTOR))
UPDATE_REQUEST = _message(process=(1, SELECTOR), pty=(2, PTY))
SEND_INPUT_REQUEST = _message(process=(1, SELECTOR), input=(2, PROCESS_INPUT))
SEND_SIGNAL_REQUEST = _message(process=(1, SELECTOR), signal=(2, SIGNAL))
STREAM_INPUT_REQUEST = _message(
    start=(1, _message(process=(1, SELECTOR))), data=(2, _message(input=(2, PROCESS_INPUT))), keepalive=(3, EMPTY)
)

# --- filesystem.Filesystem ----------------------------------------------------------------------------------------

FILE_TYPE = Enumeration(
    {0: "FILE_TYPE_UNSPECIFIED", 1: "FILE_TYPE_FILE", 2: "FILE_TYPE_DIRECTORY", 3: "FILE_TYPE_SYMLINK"}
)
EVENT_TYPE = Enumeration(
    {
        0: "EVENT_TYPE_UNSPECIFIED",
        1: "EVENT_TYPE_CREATE",
        2: "EVENT_TYPE_WRITE",
        3: "EVENT_TYPE_REMOVE",
        4: "EVENT_TYPE_RENAME",
        5: "EVENT_TYPE_CHMOD",
    }
)
ENTRY = _message(
    name=(1, STRING),
    type=(2, FILE_TYPE),
    path=(3, STRING),
    size=(4, INT64),
    mode=(5, UINT32),
    permissions=(6, STRING),
    owner=(7, STRING),
    group=(8, STRING),
    modifiedTime=(9, Scalar.TIMESTAMP, "optional"),
    symlinkTarget=(10, STRING, "optional"),
    metadata=(11, STRING, "map"),
    isSymlink=(12, BOOL),
)
PATH_REQUEST = _message(path=(1, STRING))
MOVE_REQUEST = _message(source=(1, STRING), destination=(2, STRING))
ENTRY_RESPONSE = _message(entry=(1, ENTRY))
LIST_DIR_REQUEST = _message(path=(1, STRING), depth=(2, UINT32))
LIST_DIR_RESPONSE = _message(entries=(1, ENTRY, "repeated"))
WATCH_REQUEST = _message(path=(1, STRING), recursive=(2, BOOL), includeEntry=(3, BOOL), allowNetworkMounts=(4, BOOL))
FILESYSTEM_EVENT = _message(name=(1, STRING), type=(2, EVENT_TYPE), entry=(3, ENTRY))
WATCH_DIR_RESPONSE = _message(start=(1, EMPTY), filesystem=(2, FILESYSTEM_EVENT), keepalive=(3, EMPTY))
WATCHER_REQUEST = _message(watcherId=(1, STRING))
CREATE_WATCHER_RESPONSE = WATCHER_REQUEST
WATCHER_EVENTS_RESPONSE = _message(events=(1, FILESYSTEM_EVENT, "repeated"))
