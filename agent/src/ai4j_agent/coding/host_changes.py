"""Writing to a host directory so that everything happens or nothing: deletions and new contents, by relative path.

* Nothing is touched before every new content is on the disk, in a folder of the directory that goes away in the end.
* A name in the directory is at every moment the old file or the new one, also if the program is killed. Doing it again
  then completes it.
* Directories come and go with their files, as in git. Symlinks are not followed: one at the path itself is replaced.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from ai4j_sandbox.errors import SandboxFileError

from .git_diff import FileVersion
from .manifest import RESERVED, directories_above

_EXECUTE = 0o111


def host_path(directory: Path, path: str) -> Path:
    """Return where a path of a workspace is on the host.

    Raises:
        SandboxFileError: It would leave the directory, through its names or through a symlink there, or is in ``.git``,
            as any file system spells that.
    """
    names = path.split("/")
    if any(name in ("", ".", "..") or "\0" in name for name in names):
        raise SandboxFileError(f"{path!r} would leave the host's directory", path=path)
    if any(map(_means_repository, names)):
        raise SandboxFileError(f"{path!r} would change the host's repository", path=path)
    if any((directory / above).is_symlink() for above in directories_above(path)):
        raise SandboxFileError(f"{path!r} would leave the host's directory through a symlink", path=path)
    return directory.joinpath(*names)


def host_version(target: Path) -> FileVersion | None:
    """Return the regular file at a path of the host, if there is one.

    Raises:
        SandboxFileError: There is one, and it cannot be read.
    """
    try:
        mode = target.lstat().st_mode
        if not stat.S_ISREG(mode):
            return None
        return FileVersion(content=target.read_bytes(), executable=bool(mode & stat.S_IXUSR))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SandboxFileError(f"{str(target)!r}: {error.strerror}", path=str(target)) from error


def is_occupied(target: Path) -> bool:
    """Whether something is there that is neither a regular file nor a directory; a symlink counts whatever it is to."""
    try:
        mode = target.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


class HostChanges:
    """Changes of one directory.

    Args:
        directory: The host's.
        changes: The new file by relative path; ``None`` deletes it.
    """

    def __init__(self, directory: Path, changes: Mapping[str, FileVersion | None]) -> None:
        self._directory = directory
        self._changes = changes
        self._undo: list[Callable[[], object]] = []

    def in_the_way(self) -> list[str]:
        """Return the paths that cannot be changed: a directory is there, or a file where they need one above."""
        leaving = {path for path, version in self._changes.items() if version is None}
        return [
            path
            for path in self._changes
            if self._holds_others(path, leaving) or (path not in leaving and self._is_below_a_file(path, leaving))
        ]

    def make(self) -> None:
        """Make the changes.

        Raises:
            SandboxFileError: One cannot be made; nothing was changed.
        """
        try:
            staging = Path(tempfile.mkdtemp(prefix=f"{RESERVED}pull-", dir=self._directory))
        except OSError as error:
            raise SandboxFileError(f"{str(self._directory)!r}: {error.strerror}") from error
        try:
            self._make(staging)
        except BaseException as error:
            self._take_back(staging, error)
            shutil.rmtree(staging, ignore_errors=True)
            if isinstance(error, OSError):
                where = f"{error.filename!r}: " if error.filename else ""
                raise SandboxFileError(f"nothing was changed: {where}{error.strerror}") from error
            raise
        shutil.rmtree(staging, ignore_errors=True)

    def _make(self, staging: Path) -> None:
        staged = {
            path: self._staged(staging / f"new-{number}", path, version)
            for number, (path, version) in enumerate(self._changes.items())
            if version is not None
        }
        for number, path in enumerate(self._changes.keys() - staged.keys()):
            self._delete(self._directory / path, staging / f"deleted-{number}")
        for number, (path, new) in enumerate(staged.items()):
            self._put(new, self._directory / path, staging / f"old-{number}")

    def _staged(self, staged: Path, path: str, version: FileVersion) -> Path:
        with staged.open("xb") as file:
            file.write(version.content)
        mode = _mode_of(self._directory / path)
        if mode is None:
            mode = stat.S_IMODE(staged.stat().st_mode)
        executable = mode | (mode & 0o444) >> 2
        staged.chmod(executable if version.executable else mode & ~_EXECUTE)
        return staged

    def _delete(self, target: Path, backup: Path) -> None:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.rename(target, backup)
            self._undo.append(lambda: os.rename(backup, target))
            self._remove_empty(target.parent)

    def _put(self, new: Path, target: Path, backup: Path) -> None:
        self._make_directory(target.parent)
        if target.is_dir() and not target.is_symlink():
            self._remove_empty_below(target)
        if os.path.lexists(target):
            _keep(target, backup)
            self._undo.append(lambda: os.replace(backup, target))
        else:
            self._undo.append(lambda: target.unlink(missing_ok=True))
        os.replace(new, target)

    def _make_directory(self, directory: Path) -> None:
        if not directory.exists():
            self._make_directory(directory.parent)
            directory.mkdir()
            self._undo.append(directory.rmdir)

    def _remove_empty(self, directory: Path) -> None:
        """Remove a directory and those above it as far as nothing is in them any more."""
        while directory != self._directory:
            mode = stat.S_IMODE(directory.stat().st_mode)
            try:
                directory.rmdir()
            except OSError:
                return
            self._undo.append(_remaker(directory, mode))
            directory = directory.parent

    def _remove_empty_below(self, directory: Path) -> None:
        for folder, _, _ in os.walk(directory, topdown=False):
            mode = stat.S_IMODE(os.stat(folder).st_mode)
            os.rmdir(folder)
            self._undo.append(_remaker(Path(folder), mode))

    def _take_back(self, staging: Path, error: BaseException) -> None:
        while self._undo:
            try:
                self._undo.pop()()
            except OSError as failure:
                raise SandboxFileError(
                    f"not everything could be put back: {failure}", hint=f"the old files are in {str(staging)!r}"
                ) from error

    def _holds_others(self, path: str, leaving: set[str]) -> bool:
        """Whether a directory is at the path, with something in it that does not go."""
        target = self._directory / path
        if target.is_symlink() or not target.is_dir():
            return False
        return any(file not in leaving for file in _files_below(self._directory, path))

    def _is_below_a_file(self, path: str, leaving: set[str]) -> bool:
        return any(
            above not in leaving and os.path.lexists(self._directory / above) and not (self._directory / above).is_dir()
            for above in directories_above(path)
        )


def _files_below(directory: Path, path: str) -> Iterator[str]:
    for folder, folders, names in os.walk(directory / path):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in (*names, *links):
            yield os.path.relpath(os.path.join(folder, name), directory)


def _mode_of(target: Path) -> int | None:
    """Return the permissions of a regular file, ``None`` where there is none."""
    try:
        mode = target.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    return stat.S_IMODE(mode) if stat.S_ISREG(mode) else None


def _keep(target: Path, backup: Path) -> None:
    """Give the old file a second name; where a file system has no hard links, move it there."""
    try:
        os.link(target, backup, follow_symlinks=False)
    except OSError:
        os.rename(target, backup)


def _remaker(directory: Path, mode: int) -> Callable[[], object]:
    def remake() -> None:
        directory.mkdir()
        directory.chmod(mode)

    return remake


def _means_repository(name: str) -> bool:
    """Whether some file system takes the name for ``.git``: case, invisible letters, ends and short names differ."""
    visible = "".join(letter for letter in name if unicodedata.category(letter) != "Cf")
    return visible.casefold().rstrip(". ") in (".git", "git~1")
