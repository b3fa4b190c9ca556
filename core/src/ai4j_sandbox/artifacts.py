"""Finding what a command left behind: glob patterns to files with size, media type and digest.

Patterns (`globs`) are relative to the working directory, or absolute. Only regular files match; links are not
followed, and a relative pattern never leaves the working directory. Only directories that can match are walked: from
the part of a pattern before its first wildcard, no deeper than its last name.

Names and paths are the sandbox's own words: not to be trusted as host paths.
"""

from __future__ import annotations

import hashlib
import mimetypes
import posixpath
import uuid
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from . import shell_scripts
from .errors import SandboxFileError, SandboxNotFoundError, SandboxOutputLimitError
from .files import LISTING_LIMIT_BYTES, ShellFiles, Start, require_success, run_listing, script_command
from .globs import glob_depth, glob_regex, split_glob
from .model import SandboxArtifact, SandboxCommand
from .shell_scripts import joined_path, parse_entries, path_argument

ARTIFACT_LIMIT = 1000
"""How many files one command may leave behind as artifacts."""

_BATCH_CHARACTERS = 16 * 1024  # of paths in one command, so that it also fits where a service only takes a line


def collect_artifacts(start: Start, command: SandboxCommand) -> tuple[SandboxArtifact, ...]:
    """Return the files that match the command's patterns, sorted by path.

    Raises:
        SandboxOutputLimitError: More than `ARTIFACT_LIMIT` files match, or a directory holds too many to look at.
        SandboxFileError: The files cannot be looked at, or the sandbox lacks the tools for it.
    """
    sizes = {path: size for pattern in command.artifacts for path, size in _matches(start, command, pattern)}
    if len(sizes) > ARTIFACT_LIMIT:
        raise SandboxOutputLimitError(
            f"{len(sizes)} files match the artifact patterns; the limit is {ARTIFACT_LIMIT}",
            hint="narrow the patterns, or fetch the directory with session.files.download",
        )
    digests = file_digests(start, sorted(sizes))
    return tuple(describe(path, size_bytes=sizes[path], sha256=digest) for path, digest in digests)


def describe(path: str, *, size_bytes: int, sha256: str | None) -> SandboxArtifact:
    """Return the artifact for a file, with an id of its own."""
    return SandboxArtifact(
        artifact_id=str(uuid.uuid4()),
        name=posixpath.basename(path),
        path=path,
        mime_type=media_type(path),
        size_bytes=size_bytes,
        sha256=sha256,
    )


def media_type(path: str) -> str:
    """Return the media type that the name suggests; the same on every host, whatever its own tables say."""
    kind, encoding = _media_types().guess_type(f"name{posixpath.splitext(path)[1]}")
    return "application/octet-stream" if kind is None or encoding else kind


@cache
def _media_types() -> mimetypes.MimeTypes:
    return mimetypes.MimeTypes()


def _matches(start: Start, command: SandboxCommand, pattern: str) -> Iterator[tuple[str, int]]:
    """Yield absolute path and size of the files that one pattern means."""
    directory, rest = split_glob(pattern)
    listing = script_command(
        shell_scripts.FIND,
        path_argument(directory),
        str(glob_depth(rest) or shell_scripts.UNLIMITED_DEPTH),
        "anywhere" if pattern.startswith("/") else "",
        working_directory=command.working_directory,
        output_limit_bytes=LISTING_LIMIT_BYTES,
    )
    try:
        answer = run_listing(start, listing, pattern)
    except SandboxNotFoundError:
        return
    accepts = glob_regex(rest).fullmatch
    real_directory = answer.rpartition(b"\0")[2].decode("utf-8", "replace")
    for entry in parse_entries(answer):
        if accepts(entry.path.removeprefix("./")):
            yield joined_path(real_directory, entry), entry.size_bytes


def file_digests(start: Start, paths: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """Yield each path with the sha256 of its content, computed inside the sandbox if it can; ``None`` if unreadable."""
    for batch in _batches(paths):
        with start(script_command(shell_scripts.DIGEST, *batch)) as process:
            result = process.wait()
        if result.exit_code == shell_scripts.NO_TOOL:
            yield from ((path, _streamed_digest(start, path)) for path in batch)
        else:
            lines = require_success(result, batch[0]).stdout.splitlines()
            yield from ((path, _told_digest(line)) for path, line in zip(batch, lines, strict=True))


def _told_digest(line: str) -> str | None:
    digest = line.split()[0]
    return None if digest == "-" else digest


def _streamed_digest(start: Start, path: str) -> str | None:
    digest = hashlib.sha256()
    try:
        for chunk in ShellFiles(start).read_chunks(path):
            digest.update(chunk)
    except (SandboxFileError, SandboxNotFoundError):
        return None
    return digest.hexdigest()


def _batches(paths: Iterable[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    length = 0
    for path in paths:
        if batch and length + len(path) > _BATCH_CHARACTERS:
            yield batch
            batch, length = [], 0
        batch.append(path)
        length += len(path)
    if batch:
        yield batch
