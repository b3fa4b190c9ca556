"""Git calls, by the ``git`` program in the sandbox."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

from ai4j_sandbox.model import SandboxCommand, SandboxResult
from ai4j_sandbox.spi import SandboxSession
from ai4j_sandbox_emulator.json_text import whole_number

from .errors import ToolboxError

_WORDS = {
    " ": "Unmodified",
    "?": "Untracked",
    "M": "Modified",
    "A": "Added",
    "D": "Deleted",
    "R": "Renamed",
    "C": "Copied",
    "U": "Updated but unmerged",
}
_SECONDS = 120

GitCall = Callable[[SandboxSession, Mapping[str, Any]], Any]


def clone(session: SandboxSession, body: Mapping[str, Any]) -> None:
    """Clone a repository."""
    branch = ["--branch", str(body["branch"])] if body.get("branch") else []
    depth = ["--depth", str(body["depth"])] if body.get("depth") else []
    _git(session, None, "clone", *branch, *depth, "--", _signed(body), _required(body, "path"))
    if body.get("commit_id"):
        _git(session, str(body["path"]), "checkout", str(body["commit_id"]))


def status(session: SandboxSession, query: Mapping[str, Any]) -> dict[str, Any]:
    """Return branch and changed files."""
    lines = _git(session, _required(query, "path"), "status", "--porcelain=v1", "--branch", "-z").stdout.split("\0")
    head = lines[0].removeprefix("## ").removeprefix("No commits yet on ")
    branch, _, tracking = head.partition("...")
    return {
        "currentBranch": branch.split(" ")[0],
        "fileStatus": [_file(line) for line in lines[1:] if line[2:3] == " "],
        "branchPublished": bool(tracking),
        "ahead": _count(tracking, "ahead "),
        "behind": _count(tracking, "behind "),
    }


def branches(session: SandboxSession, query: Mapping[str, Any]) -> dict[str, Any]:
    """Return the branches."""
    found = _git(session, _required(query, "path"), "branch", "--format=%(refname:short)").stdout
    return {"branches": found.split()}


def create_branch(session: SandboxSession, body: Mapping[str, Any]) -> None:
    """Create a branch and switch to it, as the daemon does."""
    _git(session, _required(body, "path"), "checkout", "-b", _required(body, "name"))


def delete_branch(session: SandboxSession, body: Mapping[str, Any]) -> None:
    """Delete a branch."""
    _git(session, _required(body, "path"), "branch", "-D", _required(body, "name"))


def checkout(session: SandboxSession, body: Mapping[str, Any]) -> None:
    """Switch to a branch."""
    _git(session, _required(body, "path"), "checkout", _required(body, "branch"))


def add(session: SandboxSession, body: Mapping[str, Any]) -> None:
    """Stage files."""
    _git(session, _required(body, "path"), "add", "--", *(str(name) for name in body.get("files") or ()))


def commit(session: SandboxSession, body: Mapping[str, Any]) -> dict[str, Any]:
    """Commit what is staged."""
    author, email = _required(body, "author"), _required(body, "email")
    identity = ("-c", f"user.name={author}", "-c", f"user.email={email}")
    empty = ["--allow-empty"] if body.get("allow_empty") else []
    _git(session, _required(body, "path"), "commit", *empty, "-m", _required(body, "message"), options=identity)
    return {"hash": _git(session, str(body["path"]), "rev-parse", "HEAD").stdout.strip()}


def push(session: SandboxSession, body: Mapping[str, Any]) -> None:
    """Push the current branch."""
    _git(session, _required(body, "path"), "push", "origin", "HEAD")


def pull(session: SandboxSession, body: Mapping[str, Any]) -> None:
    """Pull the current branch."""
    _git(session, _required(body, "path"), "pull", "origin")


def history(session: SandboxSession, query: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the commits, the newest first."""
    text = _git(session, _required(query, "path"), "log", "--format=%H%x00%an%x00%ae%x00%aI%x00%s").stdout
    names = ("hash", "author", "email", "timestamp", "message")
    return [dict(zip(names, line.split("\0"), strict=True)) for line in text.splitlines()]


def _file(line: str) -> dict[str, Any]:
    return {
        "name": line[3:],
        "extra": "",
        "staging": _WORDS.get(line[0], "Unmodified"),
        "worktree": _WORDS.get(line[1], "Unmodified"),
    }


def _count(tracking: str, word: str) -> int:
    digits = tracking.partition(word)[2].partition(",")[0].rstrip("]")
    return whole_number(digits) or 0


def _required(source: Mapping[str, Any], name: str) -> str:
    value = source.get(name)
    if not value:
        raise ToolboxError(400, f"{name} is required")
    return str(value)


def _signed(body: Mapping[str, Any]) -> str:
    url = _required(body, "url")
    if not body.get("username"):
        return url
    parts = urlsplit(url)
    user = f"{quote(str(body['username']), safe='')}:{quote(str(body.get('password', '')), safe='')}"
    return urlunsplit(parts._replace(netloc=f"{user}@{parts.hostname}"))


def _git(session: SandboxSession, path: str | None, *arguments: str, options: tuple[str, ...] = ()) -> SandboxResult:
    command = SandboxCommand(
        command=("git", *options, *arguments),
        working_directory=path,
        environment={"GIT_TERMINAL_PROMPT": "0"},
        timeout_millis=_SECONDS * 1000,
    )
    result = session.execute(command)
    if result.exit_code != 0:
        raise _refused(result.stderr.strip())
    return result


def _refused(words: str) -> ToolboxError:
    if "not a git repository" in words:
        return ToolboxError(404, words, code="GIT_REPO_NOT_FOUND")
    if "already exists" in words:
        return ToolboxError(409, words, code="GIT_BRANCH_EXISTS")
    if "did not match" in words or "not found" in words:
        return ToolboxError(404, words, code="GIT_BRANCH_NOT_FOUND")
    return ToolboxError(500, words)
