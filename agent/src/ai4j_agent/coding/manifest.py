"""The files of a host directory and of a workspace, as far as they belong to the project, with what tells a change.

What ``.gitignore`` excludes does not belong, nor what is in ``.git``, nor names that begin with `RESERVED`: those are
files of a transfer. Symlinks, special files and what cannot be read are not looked into, but told by name.

Names are bytes on both sides. Here they are texts in which what is no UTF-8 is as `os.fsdecode` gives it; a workspace
hears and says them through stdin and stdout, separated by NUL.
"""

from __future__ import annotations

import base64
import hashlib
import os
import posixpath
import re
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from ai4j_agent.errors import AgentConfigError
from ai4j_sandbox.errors import SandboxException, SandboxFileError, SandboxNotFoundError
from ai4j_sandbox.model import DEFAULT_OUTPUT_LIMIT_BYTES, SandboxCommand, SandboxResult, is_utf8

from . import gitignore
from .gitignore import IgnoreRules
from .output_view import failure_text
from .workspace import Workspace

RESERVED = ".ai4j-"
"""What names of files begin with that exist while something is transferred, or after that was killed."""

_REPOSITORY = ".git"
_IGNORE_FILE_BYTES = 1_000_000
_LISTING_BYTES = 256 * 1024 * 1024
_SCAN_MILLIS = 600_000
_FILES_PER_COMMAND = 2000
_NO_TOOL = 127


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """What tells whether a file changed."""

    sha256: str
    executable: bool = False


Manifest: TypeAlias = Mapping[str, FileState]
"""The files of a tree, by path relative to its root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedPath:
    """What was not copied, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """One side.

    Attributes:
        files: What belongs to the project.
        sizes: Bytes of each of them.
        skipped: Reasons, by path: for files that cannot be copied, and for directories that cannot be looked into.
        rules: What is ignored there.
    """

    files: Manifest
    sizes: Mapping[str, int]
    skipped: Mapping[str, str]
    rules: IgnoreRules = field(repr=False)

    def hides(self, path: str) -> bool:
        """Whether nothing is known about a path, because it or a directory above it was skipped."""
        return not self.skipped.keys().isdisjoint((path, *directories_above(path)))


def directories_above(path: str) -> Iterator[str]:
    """Yield the directories a relative path is in, the deepest first, without the root."""
    while path := posixpath.dirname(path):
        yield path


def digest(content: bytes) -> str:
    """Return the sha256 of a content, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


# --- the host -------------------------------------------------------------------------------------------------------


def scan_host(directory: Path) -> Tree:
    """Return the files of a host directory.

    Raises:
        AgentConfigError: The directory, or one of its ignore files, cannot be read.
    """
    files: dict[str, FileState] = {}
    sizes: dict[str, int] = {}
    skipped: dict[str, str] = {}
    rules = IgnoreRules()
    pending = [""]
    while pending:
        below = pending.pop()
        try:
            names = os.listdir(directory / below)
        except OSError as error:
            if not below:
                raise AgentConfigError(f"{str(directory)!r} cannot be read: {error.strerror}") from error
            skipped[below] = str(error.strerror)
            continue
        _add_ignore_file(rules, directory, below)
        for name in names:
            path = posixpath.join(below, name)
            try:
                status = os.lstat(directory / path)
                if _is_reserved(name) or rules.excludes(path, directory=stat.S_ISDIR(status.st_mode)):
                    continue
                if stat.S_ISDIR(status.st_mode):
                    pending.append(path)
                elif not stat.S_ISREG(status.st_mode):
                    skipped[path] = _what_it_is(status.st_mode)
                else:
                    files[path] = FileState(
                        sha256=_file_digest(directory / path), executable=bool(status.st_mode & stat.S_IXUSR)
                    )
                    sizes[path] = status.st_size
            except FileNotFoundError:
                continue  # it went while we looked
            except OSError as error:
                skipped[path] = str(error.strerror)
    return Tree(files=dict(sorted(files.items())), sizes=sizes, skipped=dict(sorted(skipped.items())), rules=rules)


def _add_ignore_file(rules: IgnoreRules, directory: Path, below: str) -> None:
    path = directory / below / gitignore.FILE_NAME
    if path.is_symlink() or not path.is_file():
        return
    try:
        rules.add(below, path.read_text("utf-8", "surrogateescape"))
    except OSError as error:  # without its rules, what must not leave would
        raise AgentConfigError(f"{str(path)!r} cannot be read: {error.strerror}") from error


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_reserved(name: str) -> bool:
    return name == _REPOSITORY or name.startswith(RESERVED)


def _what_it_is(mode: int) -> str:
    return "is a symlink" if stat.S_ISLNK(mode) else "is not a regular file"


# --- the workspace --------------------------------------------------------------------------------------------------

# Records of what is no directory, NUL, directories that cannot be looked into, a word that says that this is all.
_SCAN = f"""
cd "$1" || exit 1
skip() {{ find . -mindepth 1 \\( -name {_REPOSITORY} -o -name '{RESERVED}*' \\) -prune -o "$@"; }}
skip ! -type d -exec stat -c '%f %s %n//' {{}} +
printf '\\0'
skip -type d -exec /bin/sh -c '
for path; do [ -r "$path" ] && [ -x "$path" ] || printf "%s\\0" "$path"; done' sh {{}} +
printf end
"""
_RECORD = re.compile(rb"([0-9a-f]+) (\d+) \./(.*?)//\n", re.DOTALL)

_DIGESTS = f"""
cd "$1" || exit 1
command -v sha256sum >/dev/null || exit {_NO_TOOL}
xargs -0 /bin/sh -c 'for path; do sha256sum < "$path" || echo -; done' sh
"""

_READ = """
cd "$1" && xargs -0 /bin/sh -c 'base64 < "$1"' sh
"""


def scan_workspace(workspace: Workspace, *, tracked: Collection[str] = (), limit_bytes: int | None = None) -> Tree:
    """Return the files of a workspace.

    Args:
        tracked: Paths that belong to the project even if they are ignored there.
        limit_bytes: Larger files are skipped.

    Raises:
        SandboxException: The workspace cannot be looked at.
    """
    listed, unreadable = _listed(workspace)
    wanted = frozenset(tracked)
    rules = _workspace_rules(workspace, listed)
    kept = {path: item for path, item in listed.items() if path in wanted or not rules.excludes(path)}
    skipped = {path: "cannot be read" for path in unreadable if not rules.excludes(path, directory=True)}
    skipped |= {path: _what_it_is(mode) for path, (mode, _) in kept.items() if not stat.S_ISREG(mode)}
    if limit_bytes is not None:
        too_large = f"is larger than {limit_bytes} bytes"
        skipped |= {path: too_large for path, (_, size) in kept.items() if size > limit_bytes}
    files: dict[str, FileState] = {}
    for path, sha256 in _digests(workspace, sorted(kept.keys() - skipped.keys())):
        if sha256 is None:
            skipped[path] = "cannot be read"
        else:
            files[path] = FileState(sha256=sha256, executable=bool(kept[path][0] & stat.S_IXUSR))
    sizes = {path: kept[path][1] for path in files}
    return Tree(files=files, sizes=sizes, skipped=dict(sorted(skipped.items())), rules=rules)


def read_workspace_file(workspace: Workspace, path: str, limit_bytes: int) -> bytes:
    """Return the content of a file of the workspace, whatever its name is.

    Raises:
        SandboxException: It cannot be read.
    """
    location = posixpath.join(workspace.root, path)
    if is_utf8(path):  # a service's own calls for files take no other names
        return workspace.files.read(location, limit_bytes=limit_bytes)
    return base64.b64decode(_said(workspace, _READ, [path], output_limit_bytes=2 * limit_bytes).stdout_bytes)


def run_on_paths(
    workspace: Workspace,
    script: str,
    paths: Sequence[str] = (),
    *arguments: str,
    output_limit_bytes: int = DEFAULT_OUTPUT_LIMIT_BYTES,
) -> SandboxResult:
    """Run a script: $1 is the workspace's root, stdin the relative paths, each ended by NUL."""
    return workspace.execute_helper(
        SandboxCommand(
            command=("/bin/sh", "-c", script, "sh", workspace.root, *arguments),
            stdin=b"".join(b"./%s\0" % os.fsencode(path) for path in paths),
            environment={"LC_ALL": "C"},  # names are bytes
            timeout_millis=_SCAN_MILLIS,
            output_limit_bytes=output_limit_bytes,
        )
    )


def _said(workspace: Workspace, script: str, paths: Sequence[str], *, output_limit_bytes: int) -> SandboxResult:
    result = run_on_paths(workspace, script, paths, output_limit_bytes=output_limit_bytes)
    if not result.succeeded or result.truncated:
        how = "it is too much" if result.truncated else failure_text(result)
        raise SandboxFileError(f"{workspace.root!r} cannot be read: {how}", operation="files")
    return result


def _listed(workspace: Workspace) -> tuple[dict[str, tuple[int, int]], list[str]]:
    """Return mode and size of everything that is no directory, and the directories that cannot be looked into."""
    output = _said(workspace, _SCAN, (), output_limit_bytes=_LISTING_BYTES).stdout_bytes
    records, *unreadable, end = output.split(b"\0")
    if end != b"end":
        raise SandboxFileError(f"{workspace.root!r} cannot be listed: the answer is not complete", operation="files")
    found = {os.fsdecode(path): (int(mode, 16), int(size)) for mode, size, path in _RECORD.findall(records)}
    return found, [os.fsdecode(path.removeprefix(b"./")) for path in unreadable]


def _workspace_rules(workspace: Workspace, listed: Mapping[str, tuple[int, int]]) -> IgnoreRules:
    """Read the ignore files, the shallow ones first: those in directories that are ignored do not count."""
    rules = IgnoreRules()
    named = [path for path in listed if posixpath.basename(path) == gitignore.FILE_NAME]
    for path in sorted(named, key=lambda path: path.count("/")):
        if stat.S_ISREG(listed[path][0]) and not rules.excludes(path):
            try:
                content = read_workspace_file(workspace, path, _IGNORE_FILE_BYTES)
            except SandboxException:
                continue  # an agent's ignore file may be anything; what it would exclude is looked at then
            rules.add(posixpath.dirname(path), content.decode("utf-8", "surrogateescape"))
    return rules


def _digests(workspace: Workspace, paths: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """Yield each path with the sha256 of its content; ``None`` for what cannot be read."""
    for start in range(0, len(paths), _FILES_PER_COMMAND):
        batch = paths[start : start + _FILES_PER_COMMAND]
        result = run_on_paths(workspace, _DIGESTS, batch)
        if result.exit_code == _NO_TOOL:
            yield from ((path, _digest_here(workspace, path)) for path in batch)
            continue
        lines = result.stdout.splitlines()
        if not result.succeeded or len(lines) != len(batch):
            raise SandboxFileError(f"the files cannot be compared: {failure_text(result)}", operation="files")
        yield from zip(batch, (None if line == "-" else line.split()[0] for line in lines), strict=True)


def _digest_here(workspace: Workspace, path: str) -> str | None:
    sha256 = hashlib.sha256()
    try:
        for chunk in workspace.files.read_chunks(posixpath.join(workspace.root, path)):
            sha256.update(chunk)
    except (SandboxFileError, SandboxNotFoundError):
        return None
    return sha256.hexdigest()
