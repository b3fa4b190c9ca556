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
import stat
import uuid
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import zip_longest

from . import shell_scripts
from .deadline import Deadline
from .errors import SandboxFileError, SandboxNotFoundError, SandboxOutputLimitError
from .files import LISTING_LIMIT_BYTES, ShellFiles, Start, require_success, run_listing, script_command
from .globs import glob_depth, glob_regex, split_glob
from .model import SandboxArtifact, SandboxCommand
from .shell_scripts import joined_path, parse_entries, path_argument

ARTIFACT_LIMIT = 1000
"""How many files one command may leave behind as artifacts."""

COLLECTION_SECONDS = 60.0
"""How long looking at what a command left behind may take: what is there is the sandbox's choice, not ours."""

_BATCH_CHARACTERS = 16 * 1024  # of paths in one command, so that it also fits where a service only takes a line


def collect_artifacts(
    start: Start, command: SandboxCommand, *, seconds: float = COLLECTION_SECONDS
) -> tuple[SandboxArtifact, ...]:
    """Return the files that match the command's patterns, sorted by path.

    Takes `seconds` at most; a file that could not be read by then has no digest.

    Raises:
        SandboxOutputLimitError: More than `ARTIFACT_LIMIT` files match, or a directory holds too many to look at.
        SandboxFileError: The files cannot be looked at, or the sandbox lacks the tools for it.
    """
    deadline = Deadline(seconds)
    sizes = {path: size for pattern in command.artifacts for path, size in _matches(start, command, pattern, deadline)}
    if len(sizes) > ARTIFACT_LIMIT:
        raise SandboxOutputLimitError(
            f"{len(sizes)} files match the artifact patterns; the limit is {ARTIFACT_LIMIT}",
            hint="narrow the patterns, or fetch the directory with session.files.download",
        )
    digests = file_digests(start, sorted(sizes), deadline)
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


def _matches(start: Start, command: SandboxCommand, pattern: str, deadline: Deadline) -> Iterator[tuple[str, int]]:
    """Yield absolute path and size of the files that one pattern means."""
    directory, rest = split_glob(pattern)
    listing = script_command(
        shell_scripts.FIND,
        path_argument(directory),
        str(glob_depth(rest) or shell_scripts.UNLIMITED_DEPTH),
        "anywhere" if pattern.startswith("/") else "",
        working_directory=command.working_directory,
        output_limit_bytes=LISTING_LIMIT_BYTES,
        timeout_millis=_millis_left(deadline),
    )
    try:
        answer = run_listing(start, listing, pattern)
    except SandboxNotFoundError:
        return
    accepts = glob_regex(rest).fullmatch
    real_directory = answer.rpartition(b"\0")[2].decode("utf-8", "surrogateescape")
    for entry in parse_entries(answer):
        # By the mode, not by find's word for it: over a mount point, readdir may call a device a file.
        if stat.S_ISREG(entry.mode) and accepts(entry.path.removeprefix("./")):
            yield joined_path(real_directory, entry), entry.size_bytes


def file_digests(
    start: Start, paths: Sequence[str], deadline: Deadline | None = None
) -> Iterator[tuple[str, str | None]]:
    """Yield each path with the sha256 of its content, computed inside the sandbox if it can.

    ``None`` for what cannot be read, or not by the deadline.
    """
    deadline = deadline or Deadline(COLLECTION_SECONDS)
    for batch in _batches(paths):
        if deadline.expired:
            yield from ((path, None) for path in batch)
            continue
        command = script_command(shell_scripts.DIGEST, *batch, timeout_millis=_millis_left(deadline))
        with start(command) as process:
            result = process.wait()
        if result.exit_code == shell_scripts.NO_TOOL:
            yield from ((path, _streamed_digest(start, path, deadline)) for path in batch)
        elif result.timed_out:
            told = result.stdout.splitlines()
            yield from zip_longest(batch, map(_told_digest, told[: len(batch)]))
        else:
            lines = require_success(result, batch[0]).stdout.splitlines()
            yield from ((path, _told_digest(line)) for path, line in zip(batch, lines, strict=True))


def _told_digest(line: str) -> str | None:
    digest = line.split()[0]
    return None if digest == "-" else digest


def _streamed_digest(start: Start, path: str, deadline: Deadline) -> str | None:
    digest = hashlib.sha256()
    try:
        for chunk in ShellFiles(start).read_chunks(path):
            if deadline.expired:
                return None
            digest.update(chunk)
    except (SandboxFileError, SandboxNotFoundError):
        return None
    return digest.hexdigest()


def _millis_left(deadline: Deadline) -> int:
    return max(1, round((deadline.remaining() or 0) * 1000))


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
