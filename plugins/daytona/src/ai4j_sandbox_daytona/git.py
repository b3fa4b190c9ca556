"""Git in the sandbox, by the toolbox's own calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ai4j_sandbox.errors import SandboxException, SandboxProtocolError
from ai4j_sandbox.redaction import Scrubber
from ai4j_sandbox_wire.message import Body

from .toolbox import Toolbox


@dataclass(frozen=True, slots=True, kw_only=True)
class GitFile:
    """One file that differs, in the words of the service (``"Modified"``, ``"Untracked"``)."""

    path: str
    staging: str
    worktree: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GitStatus:
    """The state of a repository."""

    branch: str
    ahead: int = 0
    behind: int = 0
    files: tuple[GitFile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GitCredential:
    """How to sign in to a remote; sent only with the calls it is given to."""

    username: str
    password: str

    def __repr__(self) -> str:
        return f"GitCredential(username={self.username!r})"


class DaytonaGit:
    """Repositories in one sandbox. Paths are sandbox paths; every method raises `SandboxException` on failure."""

    def __init__(self, toolbox: Toolbox) -> None:
        self._toolbox = toolbox

    def clone(
        self,
        url: str,
        path: str,
        *,
        branch: str | None = None,
        commit: str | None = None,
        credential: GitCredential | None = None,
    ) -> None:
        """Clone a repository into a new directory."""
        self._signed_in("clone", credential, url=url, path=path, branch=branch, commit_id=commit)

    def status(self, path: str) -> GitStatus:
        """Return the branch and what differs from its last commit."""
        answer = self._toolbox.call("GET", "/git/status", query={"path": path}, expect=Body.OBJECT)
        match answer.get("currentBranch"), answer.get("ahead") or 0, answer.get("behind") or 0:
            case str(branch), int(ahead), int(behind):
                files = tuple(_file(item) for item in _list(answer, "fileStatus"))
                return GitStatus(branch=branch, ahead=ahead, behind=behind, files=files)
        raise _unexpected("a git status")

    def branches(self, path: str) -> list[str]:
        """Return the names of the branches."""
        answer = self._toolbox.call("GET", "/git/branches", query={"path": path}, expect=Body.OBJECT)
        return [str(name) for name in _list(answer, "branches")]

    def create_branch(self, path: str, name: str) -> None:
        """Create a branch from the current commit."""
        self._post("branches", path=path, name=name)

    def delete_branch(self, path: str, name: str) -> None:
        """Delete a branch."""
        self._toolbox.call("DELETE", "/git/branches", json={"path": path, "name": name})

    def checkout(self, path: str, branch: str) -> None:
        """Switch to a branch."""
        self._post("checkout", path=path, branch=branch)

    def add(self, path: str, *files: str) -> None:
        """Stage files, given relative to the repository."""
        self._post("add", path=path, files=list(files))

    def commit(self, path: str, message: str, *, author: str, email: str) -> str:
        """Commit what is staged; return the commit's hash."""
        body = {"path": path, "message": message, "author": author, "email": email}
        answer = self._toolbox.call("POST", "/git/commit", json=body, expect=Body.OBJECT)
        if not isinstance(answer.get("hash"), str):
            raise _unexpected("a commit's hash")
        return str(answer["hash"])

    def push(self, path: str, credential: GitCredential | None = None) -> None:
        """Push the current branch."""
        self._signed_in("push", credential, path=path)

    def pull(self, path: str, credential: GitCredential | None = None) -> None:
        """Pull the current branch."""
        self._signed_in("pull", credential, path=path)

    def _signed_in(self, call: str, credential: GitCredential | None, **body: object) -> None:
        if credential is None:
            self._post(call, **body)
            return
        try:
            self._post(call, **body, username=credential.username, password=credential.password)
        except SandboxException as error:
            error.scrubbed(Scrubber((credential.password,)))  # git may quote what it was given
            raise

    def _post(self, call: str, **body: object) -> None:
        given = {name: value for name, value in body.items() if value is not None}
        self._toolbox.call("POST", f"/git/{call}", json=given)


def _list(answer: dict[str, Any], name: str) -> list[Any]:
    value = answer.get(name) or []
    if not isinstance(value, list):
        raise _unexpected(f"a list of {name}")
    return value


def _file(item: Any) -> GitFile:
    match item:
        case {"name": str(name), "staging": str(staging), "worktree": str(worktree)}:
            return GitFile(path=name, staging=staging, worktree=worktree)
    raise _unexpected("a file of the git status")


def _unexpected(expected: str) -> SandboxProtocolError:
    return SandboxProtocolError(f"{expected} was expected from the toolbox, and something else came")
