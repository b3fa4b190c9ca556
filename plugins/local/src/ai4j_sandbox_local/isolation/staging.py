"""Steps that root takes before a sandbox starts: a shell program that ends by becoming that sandbox.

Root's own files often lie below a directory that only root may enter (an interpreter in root's home). The user that the
sandbox runs as could not even mount them. So root shows exactly the needed ones, at their own paths, in a private mount
namespace: the closed directory is covered with an empty one, into which they are put back. The host sees nothing of it.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterable, Sequence

from ai4j_sandbox.errors import SandboxConfigError

from .identity import Identity, can_reach
from .layout import overlap

_TOOLS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_STAGES = ("/mnt", "/media", "/srv", "/opt", "/tmp")


def tool(name: str) -> str:
    """Return the path of a system program.

    Raises:
        SandboxConfigError: It is not installed.
    """
    path = shutil.which(name, path=_TOOLS)
    if path is None:
        raise SandboxConfigError(f"{name} is needed to run sandboxes as root", hint="install util-linux")
    return path


def hidden_paths(paths: Iterable[str], identity: Identity) -> list[str]:
    """Return those of `paths` that only we can reach, without the ones that lie below another."""
    hidden = sorted({path for path in paths if not can_reach(path, identity)})
    return [path for path in hidden if not any(path.startswith(f"{other}/") for other in hidden)]


def closed_directory(path: str, identity: Identity) -> str:
    """Return the outermost directory on the way to `path` that `identity` may not enter."""
    parts = path.split("/")
    ways = ("/".join(parts[:depth]) for depth in range(2, len(parts)))
    return next(way for way in ways if not can_reach(f"{way}/x", identity))


def start_program(
    identity: Identity, hidden: Sequence[str], cgroups: Sequence[str], program: Sequence[str]
) -> list[str]:
    """Return the arguments that run `program` as `identity`, in the control groups, with the hidden paths shown."""
    steps = [f"echo $$ > {shlex.quote(os.path.join(group, 'cgroup.procs'))}" for group in cgroups]
    if hidden:
        steps += _show(hidden, [closed_directory(path, identity) for path in hidden])
    step_down = _step_down(identity) if identity.changed else []
    if not steps:
        return [*step_down, *program]
    script = "\n".join(("set -e", *steps, 'exec "$@"'))
    namespace = [tool("unshare"), "--mount", "--"] if hidden else []
    return [*namespace, "/bin/sh", "-c", script, "sh", *step_down, *program]


def _step_down(identity: Identity) -> list[str]:
    ids = ("--reuid", str(identity.uid), "--regid", str(identity.gid))
    return [tool("setpriv"), *ids, "--clear-groups", "--inh-caps=-all", "--"]


def _show(paths: Sequence[str], closed: Sequence[str]) -> list[str]:
    """The steps that put `paths` aside, cover the closed directories, and put the paths back where they were."""
    stage = _stage([*paths, *closed])
    places = {path: f"{stage}/{number}" for number, path in enumerate(paths)}
    mount, unmount, make = tool("mount"), tool("umount"), tool("mkdir")
    steps = [_command(mount, "-t", "tmpfs", "-o", "mode=755,size=1m", "none", stage)]
    for path, place in places.items():
        steps += [_placeholder(path, place, make), _command(mount, "--rbind", path, place)]
    for directory in sorted(set(closed)):
        steps.append(_command(mount, "-t", "tmpfs", "-o", "mode=755,size=1m", "none", directory))
    for path, place in places.items():
        steps.append(_command(make, "-p", os.path.dirname(path)))
        steps += [_placeholder(path, path, make), _command(mount, "--rbind", place, path)]
    return [*steps, _command(unmount, "-l", stage)]


def _stage(paths: Sequence[str]) -> str:
    """Return a directory to put things aside in, which is on the way to none of them."""
    return next(stage for stage in _STAGES if os.path.isdir(stage) and not any(overlap(stage, path) for path in paths))


def _placeholder(source: str, place: str, make: str) -> str:
    return _command(make, "-p", place) if os.path.isdir(source) else f": > {shlex.quote(place)}"


def _command(*arguments: str) -> str:
    return shlex.join(arguments)
