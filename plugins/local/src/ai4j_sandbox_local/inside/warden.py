"""The process that guards a sandbox without namespaces: it confines the agent, waits for its end, and clears up.

It is executed as a program (``python -I -S``) with one JSON argument:
``{"program": argument list of the agent, "ruleset": {...} or null, "seccomp": fd or null, "host": fd, "control": fd,
"directory": path}``.

Rules:

* It stays outside of the Landlock domain, so that the confined can neither signal nor trace it.
* It is the reaper of everything that descends from it. When the agent or the host ends, it kills what descends from it
  until nothing is left, removes the sandbox's directory, and ends.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sys
from typing import Any

from .processes import hide_arguments

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 36, 38
SECCOMP_MODE_FILTER = 2
LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446
LANDLOCK_RULE_PATH_BENEATH = 1

libc = ctypes.CDLL(None, use_errno=True)


def checked(result: int) -> int:
    """Return a result of the C library, or raise what it reported."""
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def prctl(option: int, value: int, pointer: object = None) -> None:
    checked(libc.prctl(option, ctypes.c_ulong(value), pointer, None, None))


class RulesetAttributes(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("rights", ctypes.c_uint64), ("directory", ctypes.c_int32))


class SeccompProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def restrict_files(ruleset: dict[str, Any]) -> None:
    """Enter a Landlock domain."""
    # The kernel knows the structure by its size: an older one must not be given fields that it has never heard of.
    fields = 3 if ruleset["scopes"] else 2 if ruleset["network"] else 1
    attributes = RulesetAttributes(ruleset["files"], ruleset["network"], ruleset["scopes"])
    size = ctypes.c_size_t(8 * fields)
    rules = checked(libc.syscall(LANDLOCK_CREATE_RULESET, ctypes.byref(attributes), size, 0))
    for path, rights in ruleset["rules"]:
        directory = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rule = PathBeneath(rights, directory)
        checked(libc.syscall(LANDLOCK_ADD_RULE, rules, LANDLOCK_RULE_PATH_BENEATH, ctypes.byref(rule), 0))
        os.close(directory)
    checked(libc.syscall(LANDLOCK_RESTRICT_SELF, rules, 0))
    os.close(rules)


def restrict_calls(descriptor: int) -> None:
    """Install a seccomp filter for good."""
    instructions = os.read(descriptor, 65536)
    program = SeccompProgram(len(instructions) // 8, instructions)
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program))


def become_agent(settings: dict[str, Any]) -> None:
    """Confine this process and execute the agent in it."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    prctl(PR_SET_CHILD_SUBREAPER, 1)  # it collects what ends while it lives, as the first process of a namespace would
    if settings["ruleset"] is not None:
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        restrict_files(settings["ruleset"])
        restrict_calls(settings["seccomp"])
    os.execve(settings["program"][0], settings["program"], {})


def descendants() -> list[int]:
    """Return the processes below this one."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as file:
                    parents[int(name)] = int(file.read().rpartition(")")[2].split()[1])
            except OSError:  # gone
                continue
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return list(found - {os.getpid()})


def end_everything() -> None:
    """Kill and reap until nothing descends from us any more; they may be forking all the while."""
    while True:
        for pid in descendants():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        select.select([], [], [], 0.001)


def guard(agent: int, host: int) -> None:
    """Wait for the end of the agent or of the host."""
    poll = select.poll()
    poll.register(os.pidfd_open(agent), select.POLLIN)
    poll.register(host, select.POLLIN)
    poll.poll()


def main() -> None:
    """Guard one sandbox from its start to its end."""
    settings = json.loads(sys.argv[1])
    hide_arguments("ai4j-sandbox-warden")
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    agent = os.fork()
    if agent == 0:
        become_agent(settings)
    prctl(PR_SET_DUMPABLE, 0)
    os.close(settings["control"])
    guard(agent, settings["host"])
    end_everything()
    # Not in Python: however deep the commands nested their directories, this removes them.
    os.execv("/bin/rm", ["rm", "-rf", "--", settings["directory"]])
