"""The `git` tool, with a real git and real HTTP: actions, confinement, and where a credential may not show."""

from __future__ import annotations

import base64
import http.server
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ai4j_agent.coding import GitCredential, GitIdentity, LocalWorkspace
from ai4j_agent.coding.git_tool import Git, git_definition
from support.coding_bench import Bench

PASSWORD = "canary-git-4711-$'\" x"


def git(bench: Bench, action: str, **arguments: Any) -> dict[str, Any]:
    facts = bench.call("git", action=action, **arguments)
    assert facts["exitCode"] == 0, facts
    return facts  # type: ignore[no-any-return]


@pytest.fixture
def repository(bench: Bench) -> Bench:
    """A repository with one commit."""
    bench.sh("git init --quiet --initial-branch=main .")
    bench.put("notes.txt", "one\n")
    git(bench, "add", paths=["notes.txt"])
    git(bench, "commit", message="First\n\nwith 'quotes' and $(things)")
    return bench


def test_a_change_is_seen_staged_and_committed(repository: Bench) -> None:
    repository.put("notes.txt", "one\ntwo\n")
    repository.put("-odd *name", "x")

    assert git(repository, "status")["stdout"].splitlines() == ["## main", " M notes.txt", '?? "-odd *name"']
    assert "+two" in git(repository, "diff", paths=["notes.txt"])["stdout"]
    git(repository, "add", paths=["-odd *name", "notes.txt"])
    assert "+two" in git(repository, "diff", staged=True)["stdout"]
    git(repository, "commit", message="Second")
    log = git(repository, "log", maxCount=2)["stdout"]

    assert log.index("Second") < log.index("with 'quotes' and $(things)")
    assert "Author: ai4j agent <agent@ai4j.invalid>" in log
    assert git(repository, "status")["stdout"] == "## main\n"


def test_branches_are_made_and_switched(repository: Bench) -> None:
    git(repository, "branch", name="side")
    git(repository, "checkout", revision="side")
    git(repository, "checkout", name="third", revision="main")

    assert git(repository, "status")["stdout"] == "## third\n"
    assert [
        line.split()[0].strip("*") or line.split()[1] for line in git(repository, "branch")["stdout"].splitlines()
    ] == [
        "main",
        "side",
        "third",
    ]


def test_a_file_is_brought_back(repository: Bench) -> None:
    repository.put("notes.txt", "spoiled")

    git(repository, "checkout", paths=["notes.txt"])

    assert repository.bytes("notes.txt") == b"one\n"


def test_a_diff_is_applied_as_git_wrote_it(repository: Bench) -> None:
    repository.put("notes.txt", "one\ntwo\n")
    diff = git(repository, "diff")["stdout"]
    git(repository, "checkout", paths=["notes.txt"])

    git(repository, "apply", patch=diff)

    assert repository.bytes("notes.txt") == b"one\ntwo\n"


def test_a_refusal_of_git_is_a_result(repository: Bench) -> None:
    facts = repository.call("git", action="checkout", revision="nowhere")

    assert facts["exitCode"] != 0
    assert "nowhere" in facts["stderr"]


def test_a_repository_of_the_workspace_is_cloned(repository: Bench) -> None:
    git(repository, "clone", url=".", path="copies/one")

    assert repository.bytes("copies/one/notes.txt") == b"one\n"


def test_hooks_of_a_host_do_not_run_for_looking(repository: Bench) -> None:
    repository.sh("git config core.fsmonitor 'touch ran; false'; git config diff.external 'touch ran'")
    repository.put("notes.txt", "two\n")

    git(repository, "status")
    git(repository, "diff")

    assert not repository.exists("ran")


@pytest.mark.parametrize(
    ("action", "arguments", "refusal"),
    [
        ("diff", {"revision": "--output=/tmp/x"}, "is not a name git could know"),
        ("log", {"revision": "-x"}, "is not a name git could know"),
        ("branch", {"name": "-D"}, "is not a name git could know"),
        ("checkout", {"revision": "--orphan"}, "is not a name git could know"),
        ("checkout", {}, "needs revision, name or paths"),
        ("add", {"paths": ["../x"]}, "escapes the workspace root"),
        ("add", {}, "missing a required argument: 'paths'"),
        ("status", {"message": "x"}, "unexpected keyword argument 'message'"),
        ("push", {}, "action must be one of"),
        ("clone", {"url": "https://user:secret@example.org/x", "path": "x"}, "must not hold a user name"),
        ("clone", {"url": "ssh://example.org/x", "path": "x"}, "only http, https and paths"),
        ("clone", {"url": "git@example.org:x", "path": "x"}, "only http, https and paths"),
        ("clone", {"url": "ext::sh -c touch% x", "path": "x"}, "only http, https and paths"),
        ("clone", {"url": "http://[bad", "path": "x"}, "the url cannot be read"),
        ("clone", {"url": "../other", "path": "x"}, "escapes the workspace root"),
        ("clone", {"url": "file:///etc", "path": "x"}, "escapes the workspace root"),
        ("clone", {"url": ".", "path": "../x"}, "escapes the workspace root"),
        ("apply", {"patch": "nonsense"}, "the patch cannot be read"),
    ],
)
def test_what_may_not_be_is_refused(repository: Bench, action: str, arguments: dict[str, Any], refusal: str) -> None:
    assert refusal in repository.refusal("git", action=action, **arguments)


# --- credentials ----------------------------------------


class GitServer(http.server.ThreadingHTTPServer):
    """A bare repository over plain HTTP that wants a password."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seen: list[str | None] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(http.server.SimpleHTTPRequestHandler):
    server: GitServer

    def do_GET(self) -> None:
        given = self.headers.get("Authorization")
        self.server.seen.append(given)
        if given is None:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="test"')
            self.end_headers()
            return
        super().do_GET()

    def translate_path(self, path: str) -> str:
        return str(self.server.folder / path.split("?")[0].lstrip("/"))

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    """A served repository ``/project.git``."""
    bare = tmp_path / "served" / "project.git"
    work = tmp_path / "made"
    work.mkdir()
    (work / "notes.txt").write_text("one\n")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    for line in (
        "git init -q -b main .",
        "git add .",
        "git -c user.name=n -c user.email=e commit -qm first",
        f"git clone -q --bare . {bare}",
        f"git -C {bare} update-server-info",
    ):
        subprocess.run(line, shell=True, cwd=work, env=environment, check=True)
    with GitServer(bare.parent) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Put a git in front of the real one that writes down its arguments and environment; return what was written."""
    folder = tmp_path / "bin"
    folder.mkdir()
    notes = tmp_path / "notes"
    real = subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout.strip()
    script = folder / "git"
    script.write_text(f'#!/bin/sh\n{{ printf "%s\\n" "$@"; env; }} >> {notes}\nexec {real} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return notes.read_text


def test_a_credential_of_the_host_reaches_git_and_nothing_else(
    tmp_path: Path, server: GitServer, watched: Callable[[], str]
) -> None:
    asked: list[str] = []

    def credentials(origin: str) -> GitCredential:
        asked.append(origin)
        return GitCredential(username="robot", password=PASSWORD)

    root = tmp_path / "workspace"
    root.mkdir()
    bench = Bench(LocalWorkspace(root), git=Git(credentials=credentials))

    facts = git(bench, "clone", url=f"{server.url}/project.git", path="copy")

    assert bench.bytes("copy/notes.txt") == b"one\n"
    assert asked == [server.url]
    basic = f"Basic {base64.b64encode(f'robot:{PASSWORD}'.encode()).decode()}"
    assert basic in server.seen
    written = "".join(path.read_text("utf-8", "replace") for path in root.rglob("*") if path.is_file())
    for text in (watched(), str(facts), written, repr(GitCredential(username="u", password=PASSWORD))):
        assert PASSWORD not in text
        assert "canary-git-4711" not in text


def test_without_a_credential_a_private_address_is_refused_and_nobody_is_asked(
    tmp_path: Path, server: GitServer
) -> None:
    root = tmp_path / "workspace"
    root.mkdir()
    (tmp_path / ".gitconfig").write_text(
        "[credential]\n\thelper = !echo password=of-the-machine; echo username=me; :\n"
        f'[http "{server.url}"]\n\textraHeader = Authorization: Basic b2YtdGhlLW1hY2hpbmU=\n'
    )
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password of-the-machine\n")
    bench = Bench(LocalWorkspace(root, environment={"HOME": str(tmp_path)}))

    facts = bench.call("git", action="clone", url=f"{server.url}/project.git", path="copy")

    assert facts["exitCode"] == 128
    assert set(server.seen) == {None}


def test_a_credential_with_a_line_break_is_refused(tmp_path: Path) -> None:
    bench = Bench(
        LocalWorkspace(tmp_path),
        git=Git(credentials=lambda origin: GitCredential(username="u", password="a\nhost=evil")),
    )

    assert "line break" in bench.refusal("git", action="clone", url="https://example.org/x", path="x")


def test_the_host_says_who_commits(tmp_path: Path) -> None:
    bench = Bench(LocalWorkspace(tmp_path), git=Git(identity=GitIdentity(name="Robo", email="robo@example.org")))
    bench.sh("git init -q -b main .")
    bench.put("a", "a")
    git(bench, "add", paths=["a"])
    git(bench, "commit", message="m")

    assert "Author: Robo <robo@example.org>" in git(bench, "log")["stdout"]


def test_the_tool_tells_what_it_can_do() -> None:
    actions = git_definition(Git()).properties["action"]["enum"]

    assert actions == ("status", "diff", "log", "add", "commit", "branch", "checkout", "clone", "apply")
