"""A sandbox's files: content through the toolbox's own streams, everything else by the core's scripts.

The toolbox follows links where it describes, leaves out those that lead nowhere, does not replace on a move, and
overwrites in place. So it moves the bytes, and the scripts keep the core's promises; each operation is one call either
way, a write two.
"""

from __future__ import annotations

import contextlib
import posixpath
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ai4j_sandbox import shell_scripts
from ai4j_sandbox.errors import (
    Outcome,
    SandboxConfigError,
    SandboxException,
    SandboxFileError,
    SandboxNotFoundError,
    SandboxProtocolError,
    SandboxSessionLostError,
    SessionState,
)
from ai4j_sandbox.files import ShellFiles, Start, require_success, script_command
from ai4j_sandbox.shell_scripts import path_argument
from ai4j_sandbox_wire.message import Body

from .toolbox import Toolbox

# What was uploaded beside the file takes its place, with its permissions; a link is written through.
_INSTALL = """
fail() { rm -f "$2"; printf '%s\\n' "$1" >&2; exit 1; }
target=$1
if [ -h "$1" ]; then
    target=$(readlink -f "$1" && echo .) || fail 'is a link that leads nowhere' "$2"
    target=${target%??}
fi
[ ! -d "$target" ] || fail 'is a directory' "$2"
arrived=$(($(wc -c <"$2")))
[ "$arrived" -eq "$3" ] || fail "the transfer broke: $arrived of $3 bytes arrived" "$2"
if [ -e "$target" ]; then
    [ -f "$target" ] || fail 'is not a regular file' "$2"
    [ -w "$target" ] || fail 'is not writable' "$2"
    chown "$(stat -c %u:%g "$target")" "$2" 2>/dev/null || :
    chmod "$(stat -c %a "$target")" "$2" || fail 'its permissions cannot be kept' "$2"
fi
exec mv -f "$2" "$target"
"""


_NOT_ABOUT_THE_FILE = (SandboxSessionLostError, SandboxProtocolError, SandboxFileError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A line that contains what was searched for."""

    path: str
    line: int
    content: str


class DaytonaFiles(ShellFiles):
    """Files of one sandbox.

    Args:
        start: Runs a small script to its end.
    """

    def __init__(self, toolbox: Toolbox, start: Start) -> None:
        super().__init__(start)
        self._toolbox = toolbox

    def read_chunks(self, path: str) -> Iterator[bytes]:
        """Yield a file's content as it arrives."""
        with _file_errors(path):
            yield from (chunk for chunk in self._toolbox.read_file(path) if chunk)

    def write_chunks(self, path: str, chunks: Iterable[bytes]) -> None:
        """Create or replace a file, with its parent directories. A failed write leaves the old content."""
        staged = posixpath.join(posixpath.dirname(path_argument(path)), f".ai4j-{uuid.uuid4().hex}")
        size = _Counted(chunks)
        try:
            with _file_errors(path):
                self._toolbox.write_file(staged, size)
            self._script(_INSTALL, path, staged, str(size.bytes))
        except BaseException:
            with contextlib.suppress(SandboxException):
                self._script(shell_scripts.REMOVE, staged, "")
            raise

    # --- what only Daytona has ----------------------------------------------------------------------------------

    def find_text(self, path: str, text: str) -> list[Found]:
        """Return the lines below a directory that contain `text`, literally."""
        with _file_errors(path):
            query = {"path": path, "pattern": text}
            found = self._toolbox.call("GET", "/files/find", query=query, expect=Body.LIST)
        return [_found(item) for item in found]

    def search(self, path: str, pattern: str) -> list[str]:
        """Return the paths below a directory whose last component matches a glob pattern."""
        with _file_errors(path):
            query = {"path": path, "pattern": pattern}
            found = self._toolbox.call("GET", "/files/search", query=query, expect=Body.OBJECT).get("files")
        if not isinstance(found, list | None) or not all(isinstance(item, str) for item in found or ()):
            raise SandboxProtocolError("a list of paths was expected from the toolbox")
        return found or []

    def set_permissions(
        self, path: str, *, mode: int | None = None, owner: str | None = None, group: str | None = None
    ) -> None:
        """Change mode (``0o644``), owner or group of a path."""
        if mode is not None and not (type(mode) is int and 0 <= mode <= 0o7777):
            raise SandboxConfigError(f"mode must be a whole number from 0 to 0o7777, got {mode!r}")
        octal = None if mode is None else f"{mode:04o}"
        with _file_errors(path):
            self._toolbox.call(
                "POST", "/files/permissions", query={"path": path, "mode": octal, "owner": owner, "group": group}
            )

    def _script(self, script: str, path: str, *arguments: str) -> None:
        with self._start(script_command(script, path_argument(path), *arguments)) as process:
            require_success(process.wait(), path)


class _Counted:
    """Chunks, and how many bytes of them were taken."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self.bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            self.bytes += len(chunk)
            yield chunk


@contextlib.contextmanager
def _file_errors(path: str) -> Iterator[None]:
    """Turn the toolbox's refusals, which often come without a word, into errors that name the path."""
    try:
        yield
    except SandboxNotFoundError as error:
        raise SandboxNotFoundError(
            f"{path!r} does not exist", http_status=error.http_status, session_state=SessionState.UNKNOWN
        ) from None
    except SandboxException as error:
        if isinstance(error, _NOT_ABOUT_THE_FILE) or error.http_status not in (400, 403, 409, 500):
            raise
        reason = "is a directory, or cannot be read or written" if error.http_status == 400 else "refused"
        raise SandboxFileError(
            f"{path!r}: {reason} ({error.message})",
            path=path,
            http_status=error.http_status,
            outcome=Outcome.COMPLETED,
            session_state=SessionState.INTACT,
        ) from None


def _found(item: Any) -> Found:
    match item:
        case {"file": str(path), "line": int(line), "content": str(content)}:
            return Found(path=path, line=line, content=content)
    raise SandboxProtocolError("the toolbox answered something else than a match")
