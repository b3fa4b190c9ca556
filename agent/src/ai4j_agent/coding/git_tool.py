"""The `git` tool: git in the workspace, without any credential of the machine it runs on.

Rules it keeps:

* Only ``http``, ``https`` and files of the workspace can be cloned; an address with a user name or password in it is
  refused, because it would stand in the process list and in ``.git/config``.
* The machine's credential helpers, prompts and SSH keys are switched off, and cloning sees neither the user's settings
  nor ``~/.netrc``. Credentials come from the host's `Credentials` function alone, for the one address it was asked
  about. They reach git through an open pipe: not through an argument, not through a variable, not through a file.
* Values are never taken for options; programs that a repository's configuration names do not run for looking at it:
  pagers, external diffs, file system monitors, signature checkers. Filters do (``filter.<name>.clean``), and hooks run
  for what changes something; only who can already run commands there can name them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from ai4j_agent.errors import ToolError
from ai4j_agent.permission import ToolEffect
from ai4j_sandbox.model import SandboxCommand, SandboxResult

from .output_view import shown
from .workbench import ToolDefinition, Workbench, boolean, integer, text, texts

READING_ACTIONS = ("status", "diff", "log")
ACTIONS = (*READING_ACTIONS, "add", "commit", "branch", "checkout", "clone", "apply")


@dataclass(frozen=True, slots=True, kw_only=True)
class GitCredential:
    """What a git service accepts. Hidden from ``repr``."""

    username: str = field(repr=False)
    password: str = field(repr=False)


Credentials: TypeAlias = Callable[[str], GitCredential | None]
"""The host's: gives the credential for the origin (``https://example.org``) of an address, or ``None``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitIdentity:
    """Who commits."""

    name: str = "ai4j agent"
    email: str = "agent@ai4j.invalid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Git:
    """The tool's function, with what the host gave it."""

    identity: GitIdentity = field(default_factory=GitIdentity)
    credentials: Credentials | None = field(default=None, repr=False)

    def __call__(self, work: Workbench, *, action: str, cwd: str = ".", **arguments: Any) -> dict[str, Any]:
        """Run one of the `ACTIONS` and return what git says."""
        directory = work.rules.readable(work.workspace, cwd)
        planned: Callable[..., _Call] = getattr(self, f"_{action}")
        try:
            inspect.signature(planned).bind(work, directory, **arguments)
        except TypeError as error:
            raise ToolError(f"git {action}: {error}") from None
        result = self._run(work, directory, planned(work, directory, **arguments))
        return {
            "action": action,
            "exitCode": result.exit_code,
            "stdout": shown(result.stdout),
            "stderr": shown(result.stderr),
            "timedOut": result.timed_out,
            "truncated": result.truncated,
        }

    # --- the actions ----------------------------------------------------------------------------------------------

    def _status(self, work: Workbench, directory: str) -> _Call:
        return _Call("status", "--porcelain=v1", "--branch")

    def _diff(
        self,
        work: Workbench,
        directory: str,
        *,
        revision: str | None = None,
        paths: list[str] | None = None,
        staged: bool = False,
    ) -> _Call:
        chosen = (*(["--cached"] if staged else []), *([_value("revision", revision)] if revision else []))
        return _Call("diff", "--no-ext-diff", "--no-textconv", *chosen, "--", *_paths(work, directory, paths))

    def _log(
        self,
        work: Workbench,
        directory: str,
        *,
        revision: str = "HEAD",
        paths: list[str] | None = None,
        max_count: int = 20,
    ) -> _Call:
        what = ("--no-ext-diff", "--no-textconv", "--stat", f"--max-count={max_count}", _value("revision", revision))
        return _Call("log", *what, "--", *_paths(work, directory, paths))

    def _add(self, work: Workbench, directory: str, *, paths: list[str]) -> _Call:
        return _Call("add", "--", *_paths(work, directory, paths))

    def _commit(self, work: Workbench, directory: str, *, message: str) -> _Call:
        return _Call("commit", "--file=-", stdin=message)

    def _branch(self, work: Workbench, directory: str, *, name: str | None = None, revision: str = "HEAD") -> _Call:
        if name is None:
            return _Call("branch", "--list", "--all", "--verbose")
        return _Call("branch", "--", _value("name", name), _value("revision", revision))

    def _checkout(
        self,
        work: Workbench,
        directory: str,
        *,
        revision: str | None = None,
        name: str | None = None,
        paths: list[str] | None = None,
    ) -> _Call:
        if name is not None:
            start = [_value("revision", revision)] if revision else []
            return _Call("checkout", "-b", _value("name", name), *start)
        if paths:
            work.rules.all_writable(work.workspace, [_joined(directory, path) for path in paths])
            source = [_value("revision", revision)] if revision else []
            return _Call("checkout", *source, "--", *_paths(work, directory, paths))
        if revision is None:
            raise ToolError("checkout needs revision, name or paths")
        return _Call("checkout", _value("revision", revision), "--")

    def _clone(self, work: Workbench, directory: str, *, url: str, path: str, depth: int | None = None) -> _Call:
        target = work.rules.writable(work.workspace, _joined(directory, path))
        options = ["--no-hardlinks", *([f"--depth={depth}"] if depth else [])]
        origin = _origin(url)
        if origin is None:
            source = work.rules.readable(work.workspace, _joined(directory, url.removeprefix("file://")))
            return _Call("clone", *options, "--", source, target, slow=True)
        credential = self.credentials(origin) if self.credentials else None
        return _Call("clone", *options, "--", url, target, slow=True, origin=origin, credential=credential)

    def _apply(self, work: Workbench, directory: str, *, patch: str, staged: bool = False) -> _Call:
        listed = self._run(work, directory, _Call("apply", "--numstat", "-z", "-", stdin=patch))
        if not listed.succeeded:
            raise ToolError(f"the patch cannot be read: {listed.stderr.strip()}")
        names = [_named_by_numstat(line) for line in listed.stdout.split("\0") if line]
        work.rules.all_writable(work.workspace, [_joined(directory, name) for name in names])
        return _Call("apply", *(["--index"] if staged else []), "-", stdin=patch)

    # --- running --------------------------------------------------------------------------------------------------

    def _run(self, work: Workbench, directory: str, call: _Call) -> SandboxResult:
        options = [*_SETTINGS, f"safe.directory={work.workspace.root}"]
        git = ["git", "--no-pager", *(part for option in options for part in ("-c", option))]
        command = [*git, *call.arguments]
        stdin = call.stdin
        if call.credential is not None:
            work.session.protect(call.credential.password)
            work.workspace.protect(call.credential.password)
            helper = f"credential.{call.origin}.helper={_HELPER}"
            command = ["/bin/sh", "-c", _WITH_CREDENTIAL, "sh", *git, "-c", helper, *call.arguments]
            stdin = f"username={_line(call.credential.username)}\npassword={_line(call.credential.password)}\n"
        return work.execute(
            SandboxCommand(
                command=command,
                working_directory=directory,
                environment=self._environment() | (_NO_HOME if call.slow else {}),
                stdin=stdin,
                timeout_millis=work.limits.test_timeout_millis if call.slow else work.limits.command_timeout_millis,
                output_limit_bytes=work.limits.output_bytes,
            )
        )

    def _environment(self) -> dict[str, str]:
        return {
            "GIT_AUTHOR_NAME": self.identity.name,
            "GIT_AUTHOR_EMAIL": self.identity.email,
            "GIT_COMMITTER_NAME": self.identity.name,
            "GIT_COMMITTER_EMAIL": self.identity.email,
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "/bin/false",
            "GIT_ALLOW_PROTOCOL": "https:http:file",
            "GIT_SSH_COMMAND": "/bin/false",
            "LC_ALL": "C.UTF-8",
        }


@dataclass(frozen=True, slots=True, init=False)
class _Call:
    """One run of git."""

    arguments: tuple[str, ...]
    stdin: str | None
    slow: bool
    origin: str | None
    credential: GitCredential | None

    def __init__(
        self,
        *arguments: str,
        stdin: str | None = None,
        slow: bool = False,
        origin: str | None = None,
        credential: GitCredential | None = None,
    ) -> None:
        for name, value in locals().items():
            if name != "self":
                object.__setattr__(self, name, value)


_SETTINGS = (
    "core.fsmonitor=false",
    "log.showSignature=false",
    "credential.helper=",
    "color.ui=false",
    "advice.detachedHead=false",
)

# What reaches the network must not find the user's own settings and passwords: ~/.gitconfig, ~/.netrc.
_NO_HOME = {"HOME": "/dev/null", "XDG_CONFIG_HOME": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}

# The credential waits in descriptor 3, which git hands on to its helper; the helper says it once, when git asks for it.
_WITH_CREDENTIAL = 'exec 3<&0 </dev/null; exec "$@"'
_HELPER = '!f() { test "$1" = get && cat <&3; }; f'


def _value(name: str, value: str | None) -> str:
    if not value or value.startswith("-") or any(character in value for character in "\0\n"):
        raise ToolError(f"{name} {value!r} is not a name git could know")
    return value


def _line(value: str) -> str:
    if any(character in value for character in "\0\n\r"):
        raise ToolError("the host's git credential holds a line break")
    return value


def _paths(work: Workbench, directory: str, paths: list[str] | None) -> list[str]:
    """Return paths as git is to take them: absolute, in the workspace, and no patterns."""
    return [f":(literal){work.rules.readable(work.workspace, _joined(directory, path))}" for path in paths or ()]


def _joined(directory: str, path: str) -> str:
    return path if path.startswith("/") else f"{directory}/{path}"


def _origin(url: str) -> str | None:
    """Return the origin of an address on the network; ``None`` for a path."""
    if "://" not in url and ":" not in url.partition("/")[0]:
        return None
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ToolError(f"the url cannot be read: {error}") from None
    if parts.scheme == "file":
        return None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ToolError("only http, https and paths of the workspace can be cloned")
    if "@" in parts.netloc:
        raise ToolError("an address must not hold a user name or password; the host supplies credentials")
    return f"{parts.scheme}://{parts.netloc}"


def _named_by_numstat(line: str) -> str:
    return line.split("\t", 2)[-1]


def _effect(arguments: Mapping[str, Any]) -> ToolEffect:
    """Looking changes nothing; everything else may also run the repository's hooks."""
    return ToolEffect.READS if arguments.get("action") in READING_ACTIONS else ToolEffect.EXECUTES


def git_definition(git: Git) -> ToolDefinition:
    """Return the tool."""
    return ToolDefinition(
        name="git",
        effect=_effect,
        description=(
            "Run git in the workspace: status, diff, log, add, commit, branch, checkout, clone, apply. A non-zero "
            "exitCode is git's own refusal. Credentials are the host's business."
        ),
        function=git,
        required=("action",),
        properties={
            "action": text("What to do.", *ACTIONS),
            "cwd": text("Directory of the repository, relative to the workspace root. Default: the root."),
            "paths": texts("diff, log, add, checkout: files or directories, relative to cwd."),
            "revision": text("diff, log, branch, checkout: a commit, branch or range."),
            "name": text("branch: create this branch. checkout: create it and switch to it."),
            "message": text("commit: the message."),
            "staged": boolean("diff: what is staged. apply: to the index as well."),
            "maxCount": integer("log: how many commits. Default 20.", minimum=1),
            "url": text("clone: address (https) or a path of the workspace."),
            "path": text("clone: new directory, relative to cwd."),
            "depth": integer("clone: how many commits of history.", minimum=1),
            "patch": text("apply: a patch as git diff writes it."),
        },
    )
