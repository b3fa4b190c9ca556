"""Git in the sandbox, by the toolbox's own calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ai4j_sandbox.errors import SandboxProtocolError

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
        self._post("clone", url=url, path=path, branch=branch, commit_id=commit, **_signed_in(credential))

    def status(self, path: str) -> GitStatus:
        """Return the branch and what differs from its last commit."""
        answer = self._object(self._toolbox.call("GET", "/git/status", query={"path": path}))
        return GitStatus(
            branch=str(answer.get("currentBranch", "")),
            ahead=int(answer.get("ahead") or 0),
            behind=int(answer.get("behind") or 0),
            files=tuple(_file(item) for item in answer.get("fileStatus") or ()),
        )

    def branches(self, path: str) -> list[str]:
        """Return the names of the branches."""
        answer = self._object(self._toolbox.call("GET", "/git/branches", query={"path": path}))
        return [str(name) for name in answer.get("branches") or ()]

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
        answer = self._object(self._post("commit", path=path, message=message, author=author, email=email))
        return str(answer.get("hash", ""))

    def push(self, path: str, credential: GitCredential | None = None) -> None:
        """Push the current branch."""
        self._post("push", path=path, **_signed_in(credential))

    def pull(self, path: str, credential: GitCredential | None = None) -> None:
        """Pull the current branch."""
        self._post("pull", path=path, **_signed_in(credential))

    def _post(self, call: str, **body: object) -> Any:
        given = {name: value for name, value in body.items() if value is not None}
        return self._toolbox.call("POST", f"/git/{call}", json=given)

    def _object(self, answer: Any) -> dict[str, Any]:
        if not isinstance(answer, dict):
            raise SandboxProtocolError(f"an object was expected from git, got {type(answer).__name__}")
        return answer


def _signed_in(credential: GitCredential | None) -> dict[str, str]:
    return {} if credential is None else {"username": credential.username, "password": credential.password}


def _file(item: Any) -> GitFile:
    if not isinstance(item, dict):
        raise SandboxProtocolError("a file of the git status is no object")
    return GitFile(
        path=str(item.get("name", "")), staging=str(item.get("staging", "")), worktree=str(item.get("worktree", ""))
    )
