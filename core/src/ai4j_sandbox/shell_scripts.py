"""The POSIX ``sh`` scripts behind `files.ShellFiles` and `artifacts`, and the text they answer with.

Rules they keep:

* Whatever varies is an argument (``$1``); nothing is ever pasted into a script.
* Paths start with ``/`` or ``./`` and hold no ``//`` (`path_argument`), so none can be taken for an option.
* They use what GNU and busybox have alike, under dash, bash and busybox ``sh``.
* Exit code `MISSING` says that the path does not exist; every other failure gives its reason on stderr.

Names are data of the sandbox and may hold anything but ``/`` and NUL. A path therefore ends with ``//`` in a
record, which no path contains, and with NUL where it stands alone.
"""

from __future__ import annotations

import posixpath
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass

MISSING = 61
"""Exit code of a script whose path does not exist; none of the tools uses it."""

NO_TOOL = 127
"""What a shell exits with when a program is not installed."""

UNLIMITED_DEPTH = 1_000_000
"""More levels than any path can have (they are limited to 4096 bytes)."""

_FAIL = """
fail() { printf '%s\\n' "$1" >&2; exit 1; }
"""

# Mode in hexadecimal, size, seconds since 1970, owner, group, path.
_RECORD = "stat -c '%f %s %Y %U %G %n//'"

DECODE_ARGUMENTS = """
for argument; do
    shift
    argument=$(printf '%b.' "$argument")
    set -- "$@" "${argument%.}"
done
"""
"""Stands before a script whose arguments are `encoded_argument`s: no service carries bytes that are not UTF-8."""

READ = (
    _FAIL
    + f"""
[ -e "$1" ] || exit {MISSING}
[ ! -d "$1" ] || fail 'is a directory'
[ -f "$1" ] || fail 'is not a regular file'
exec cat "$1"
"""
)
"""Write the content of file $1 to stdout."""

# A file is written beside its target and renamed when it is complete. $2 makes the name beside it unique. Writing
# through a link replaces what it points to; ``echo .`` keeps a newline at the end of that path from being cut off.
_STAGED = (
    _FAIL
    + """
target=$1
if [ -h "$1" ]; then
    target=$(readlink -f "$1" && echo .) || fail 'is a link that leads nowhere'
    target=${target%??}
fi
folder=${target%/*}/
staged=$folder.ai4j-$2
"""
)

STAGE = (
    _STAGED
    + """
[ ! -d "$target" ] || fail 'is a directory'
mkdir -p "$folder" && : > "$staged" || exit 1
if [ -e "$target" ]; then
    [ -f "$target" ] || fail 'is not a regular file'
    [ -w "$target" ] || fail 'is not writable'
    chown "$(stat -c %u:%g "$target")" "$staged" 2>/dev/null || :
    chmod "$(stat -c %a "$target")" "$staged" || exit 1
fi
exec cat > "$staged"
"""
)
"""Begin a new content for file $1, with the permissions of the old one, from stdin; $2 names the transfer."""

APPEND = (
    _STAGED
    + """
printf '%s' "$3" | base64 -d >> "$staged"
"""
)
"""Add the base64 text $3 to transfer $2 of file $1."""

COMMIT = (
    _STAGED
    + """
arrived=$(($(wc -c < "$staged")))
[ "$arrived" -eq "$3" ] || fail "the transfer broke: $arrived of $3 bytes arrived"
exec mv -f "$staged" "$target"
"""
)
"""Put transfer $2 in the place of file $1 if all of its $3 bytes arrived."""

DISCARD = (
    _STAGED
    + """
exec rm -f "$staged"
"""
)
"""Forget transfer $2 of file $1."""

_LINKS = """for link; do printf "%s\\0" "$link"; readlink -n "$link"; printf "\\0"; done"""

LIST = (
    _FAIL
    + f"""
[ -e "$1" ] || exit {MISSING}
[ -d "$1" ] || fail 'is not a directory'
cd "$1" || exit 1
find . -mindepth 1 -maxdepth "$2" -exec {_RECORD} {{}} +
status=$?
printf '\\0'
find . -mindepth 1 -maxdepth "$2" -type l -exec sh -c '{_LINKS}' sh {{}} + 2>/dev/null
exit $status
"""
)
"""Describe what is below directory $1, down to $2 levels (`parse_entries`)."""

STAT = f"""
[ -e "$1" ] || [ -h "$1" ] || exit {MISSING}
{_RECORD} "$1" || exit 1
printf '\\0'
if [ -h "$1" ]; then
    printf '%s\\0' "$1"; readlink -n "$1"; printf '\\0'
fi
"""
"""Describe path $1 (`parse_entries`)."""

MAKE_DIR = 'exec mkdir -p "$1"'
"""Create directory $1 and its parents."""

REMOVE = (
    _FAIL
    + f"""
[ -e "$1" ] || [ -h "$1" ] || exit {MISSING}
if [ -h "$1" ] || [ ! -d "$1" ]; then
    exec rm -f "$1"
fi
[ "$2" != recursive ] || exec rm -rf "$1"
[ -z "$(ls -A "$1")" ] || fail 'the directory is not empty'
exec rmdir "$1"
"""
)
"""Remove path $1; a directory with entries only if $2 says ``recursive``."""

MOVE = (
    _FAIL
    + f"""
[ -e "$1" ] || [ -h "$1" ] || exit {MISSING}
[ ! -d "$2" ] || fail 'the destination is a directory'
mkdir -p "${{2%/*}}/" || exit 1
exec mv -f "$1" "$2"
"""
)
"""Rename $1 to $2, replacing a file there."""

MAKE_EXECUTABLE = f"""
[ -e "$1" ] || exit {MISSING}
exec chmod +x -- "$1"
"""
"""Let whoever may read file $1 execute it."""

FIND = f"""
home=$(pwd -P && echo .) && home=${{home%??}}
cd -P "$1" 2>/dev/null || exit {MISSING}
here=$(pwd -P && echo .) && here=${{here%??}}
[ "$3" = anywhere ] || case $here/ in "${{home%/}}"/*) ;; *) exit {MISSING};; esac
find . -mindepth 1 -maxdepth "$2" -type f -exec {_RECORD} {{}} +
status=$?
printf '\\0%s' "$here"
exit $status
"""
"""Describe the files below directory $1, down to $2 levels (`parse_entries`), then NUL and its real path.

Unless $3 says ``anywhere``, a directory outside of the working directory (behind a link) counts as missing.
"""

DIGEST = f"""
command -v sha256sum >/dev/null || exit {NO_TOOL}
for path; do sha256sum < "$path" || echo -; done
"""
"""Write one line for each path: its sha256, or ``-`` if it cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One file system entry as a script describes it."""

    path: str
    mode: int
    size_bytes: int
    modified_at_seconds: int
    owner: str
    group: str
    target: str | None = None

    @property
    def permissions(self) -> int:
        """Permission bits of the mode."""
        return stat.S_IMODE(self.mode)


def path_argument(path: str) -> str:
    """Return `path` in the form the scripts take: with ``/`` or ``./`` in front, no ``//``, no slash at the end."""
    if not path.startswith("/"):
        path = f"./{path}"
    return re.sub("/+", "/", path).rstrip("/") or "/"


def encoded_argument(argument: str) -> str:
    """Return an argument as ASCII, for a script that begins with `DECODE_ARGUMENTS`. A NUL stays, to be refused.

    Raises:
        ValueError: A lone surrogate in it stands for no byte.
    """
    data = argument.encode("utf-8", "surrogateescape")
    return "".join(f"\\0{byte:03o}" if byte > 0x7E or byte == ord("\\") else chr(byte) for byte in data)


def joined_path(directory: str, entry: Entry) -> str:
    """Return the path of an entry that was found below `directory` (its own path then starts with ``./``)."""
    return posixpath.join(directory, entry.path.removeprefix("./"))


_PARSED_RECORD = re.compile(rb"([0-9a-f]+) (\d+) (-?\d+) (\S+) (\S+) (.*?)//\n", re.DOTALL)


def parse_entries(output: bytes) -> Iterator[Entry]:
    """Yield the entries in the answer of `LIST`, `STAT` or `FIND`: records, NUL, then pairs of link and target.

    Bytes that are not UTF-8 stand in names as lone surrogates, as `os.fsdecode` gives them.
    """
    records, _, links = output.partition(b"\0")
    fields = links.split(b"\0")
    targets = dict(zip(fields[0::2], fields[1::2], strict=False))
    for mode, size, modified, owner, group, path in _PARSED_RECORD.findall(records):
        target = targets.get(path)
        yield Entry(
            path=_text(path),
            mode=int(mode, 16),
            size_bytes=int(size),
            modified_at_seconds=int(modified),
            owner=_text(owner),
            group=_text(group),
            target=None if target is None else _text(target),
        )


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
