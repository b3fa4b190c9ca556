"""Which paths tools may use: one rule for file tools, git and the working directory of commands.

* A path is relative to the workspace's root, or absolute. ``.`` and ``..`` are resolved first, by name.
* What comes out must lie in the root; and once more after every symlink of the path was followed, whether or not
  its last part exists yet. More than `workspace.MAX_LINKS` links, or links in a circle, are refused.
* Writing is refused below a directory named ``.ssh`` or ``.aws``, in ``.git/hooks``, and below the excluded names, on
  both the path as given and as it really is.

On the host this keeps the file tools in the workspace; a shell command can go anywhere all the same, which is what the
permission policy and the sandbox are for.
"""

from __future__ import annotations

import itertools
import posixpath
from collections.abc import Iterable
from dataclasses import dataclass

from ai4j_agent.errors import ToolError
from ai4j_sandbox.errors import SandboxFileError

from .workspace import Workspace

EXCLUDED_NAMES = frozenset((".git", "target", "node_modules", ".idea"))
"""Directories that tools do not search and do not write: they belong to other tools."""

_MOST_PATH_BYTES = 4095  # Linux takes no more
_PROTECTED_NAMES = frozenset((".ssh", ".aws"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Resolved:
    """A path as given, as it really is, and its names below the root in both forms."""

    given: str
    real: str
    names: tuple[str, ...] = ()
    real_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PathRules:
    """The rule, with what a host may change of it.

    Attributes:
        excluded_names: Names of directories that are neither searched nor written.
        allow_outside_workspace: Drop the boundary of the workspace; what is protected stays so.
    """

    excluded_names: frozenset[str] = EXCLUDED_NAMES
    allow_outside_workspace: bool = False

    def readable(self, workspace: Workspace, path: str) -> str:
        """Return the real absolute path of what may be read, or worked in.

        Raises:
            ToolError: The path leaves the workspace.
        """
        return self._resolved(workspace, [path])[0].real

    def writable(self, workspace: Workspace, path: str) -> str:
        """Return the real absolute path of what may be written.

        Raises:
            ToolError: The path leaves the workspace, or may not be written.
        """
        return self.all_writable(workspace, [path])[0]

    def all_writable(self, workspace: Workspace, paths: Iterable[str]) -> list[str]:
        """Return the real absolute path of each; all of them may be written.

        Raises:
            ToolError: One of them may not.
        """
        resolved = self._resolved(workspace, list(paths))
        for item in resolved:
            self._require_unprotected(item.given, item.names)
            self._require_unprotected(item.given, item.real_names)
        return [item.real for item in resolved]

    def all_writable_entries(self, workspace: Workspace, paths: Iterable[str]) -> list[str]:
        """Return the absolute path of each entry itself, in its real directory: of a symlink, not of what it points to.

        Raises:
            ToolError: One of them may not be written, or is the workspace itself.
        """
        given = list(paths)
        names = [posixpath.basename(self._lexical(workspace.root, path)) for path in given]
        folders = [posixpath.dirname(self._lexical(workspace.root, path)) for path in given]
        entries = [posixpath.join(*pair) for pair in zip(self.all_writable(workspace, folders), names, strict=True)]
        for path, entry in zip(given, entries, strict=True):
            self._require_unprotected(path, (posixpath.basename(entry),))
        return entries

    def _resolved(self, workspace: Workspace, paths: list[str]) -> list[_Resolved]:
        lexical = [self._lexical(workspace.root, path) for path in paths]
        if all(absolute == workspace.root for absolute in lexical):
            return [_Resolved(given=path, real=workspace.root) for path in paths]
        try:
            root, *reals = workspace.real_paths(workspace.root, *lexical)
        except SandboxFileError as error:
            raise ToolError(error.message) from error
        for path, real in zip(paths, reals, strict=True):
            if not self._inside(root, real):
                raise _escapes(path, "through a symlink")
        return [
            _Resolved(
                given=path,
                real=real,
                names=_names_below(workspace.root, absolute),
                real_names=_names_below(root, real),
            )
            for path, absolute, real in zip(paths, lexical, reals, strict=True)
        ]

    def _lexical(self, root: str, path: str) -> str:
        if not path.strip() or "\0" in path:
            raise ToolError(f"{path!r} is not a path")
        if len(path.encode()) > _MOST_PATH_BYTES:
            raise ToolError(f"a path must not be longer than {_MOST_PATH_BYTES} bytes")
        absolute = posixpath.normpath(posixpath.join(root, path))
        if not self._inside(root, absolute):
            raise _escapes(path)
        return absolute

    def _inside(self, root: str, absolute: str) -> bool:
        names = absolute.split("/")
        if self.allow_outside_workspace:
            return True
        return ".." not in names and (absolute == root or absolute.startswith(f"{root.rstrip('/')}/"))

    def _require_unprotected(self, path: str, names: tuple[str, ...]) -> None:
        protected = _PROTECTED_NAMES.intersection(names)
        if protected:
            raise ToolError(f"{path!r} may not be written: {min(protected)} is protected")
        if any(pair == (".git", "hooks") for pair in itertools.pairwise(names)):
            raise ToolError(f"{path!r} may not be written: .git/hooks is protected")
        excluded = self.excluded_names.intersection(names)
        if excluded:
            raise ToolError(f"{path!r} may not be written: {min(excluded)} is excluded from the workspace")


def relative_path(root: str, path: str) -> str:
    """Return an absolute path as results show it: relative to the root if it lies there."""
    below = f"{root.rstrip('/')}/"
    return path.removeprefix(below) if path.startswith(below) else "." if path == root else path


def _names_below(root: str, absolute: str) -> tuple[str, ...]:
    return tuple(name for name in relative_path(root, absolute).split("/") if name not in ("", "."))


def _escapes(path: str, how: str = "") -> ToolError:
    detail = f" {how}" if how else ""
    return ToolError(f"path escapes the workspace root{detail}: {path!r}", hint="give a path inside of it")
