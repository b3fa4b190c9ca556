"""The process that runs inside a sandbox: it starts commands, opens files, and hands the host their descriptors.

It is executed as a program (``python -I -S``) with one JSON argument:
``{"control": fd, "host": fd, "directory": path, "marker": n, "limits": {name: n}, "lifetime": seconds or null}``, where
`host` is a pidfd of the host's process and `limits` has the names of the `resource` module.

Rules:

* One thread, one loop; nothing here waits for a command, a file or a peer.
* The host sends requests on the control socket, each with a reply socket of its own; answers go only there.
* Output never passes through here: the host reads the pipes itself. We keep a second reading end, so that a command
  that outlives its handle does not die of SIGPIPE, and empty it once the host has let go.
* When the host ends, closes the control socket, or the lifetime is over, we exit, and with us, the first process of the
  sandbox, everything in it.
"""

from __future__ import annotations

import errno
import functools
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

from .filesystem import create_beside, describe, entries, move, open_plain, remove
from .messages import answer, receive, refusal
from .processes import (
    MARKERS_PER_SESSION,
    RLIMIT_MARKER,
    close_all_but,
    hide_from_commands,
    lower_limits,
    marked,
    require_room,
    signal_all,
    stop_all,
    usable_marker,
)
from .programs import (
    NO_ROOM,
    complain,
    find_program,
    fork,
    open_pipes,
    open_terminal,
    set_size,
    spawn,
)

DRAIN_BYTES = 64 * 1024
STOP_PATIENCE_SECONDS = 1.0
PAUSE_PATIENCE_SECONDS = 10.0  # on a busy machine a process may have to wait for its turn before it can stop
LOOK_AGAIN_SECONDS = 0.01
LONGEST_WAIT_SECONDS = 3600.0  # epoll counts milliseconds in an int, which end after 24 days
PER_PROCESS_LIMITS = ("RLIMIT_CPU", "RLIMIT_FSIZE", "RLIMIT_NOFILE")  # which would hit this process as well


class Command:
    """One started command and the ends of it that we hold."""

    def __init__(
        self, command_id: str, arguments: list[str], marker: int, reply: socket.socket, outputs: dict[str, int]
    ) -> None:
        self.command_id = command_id
        self.arguments = arguments
        self.marker = marker
        self.reply: socket.socket | None = reply
        self.outputs = outputs
        self.pid = 0
        self.exit_code: int | None = None
        self.told_to_end: float | None = None

    def summary(self) -> dict[str, Any]:
        return {"pid": self.pid, "id": self.command_id, "command": self.arguments, "ends": list(self.outputs)}


class Agent:
    """Serves the host's requests until it is gone."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.control = socket.socket(fileno=settings["control"])
        self.host = settings["host"]
        self.directory = settings["directory"]
        self.marker = self.first_marker = usable_marker(settings["marker"])
        limits = {name: (getattr(resource, name), limit) for name, limit in settings["limits"].items()}
        self.command_limits = [limits.pop(name) for name in PER_PROCESS_LIMITS if name in limits]
        self.common_limits = list(limits.values())
        self.expires: float | None = None if settings["lifetime"] is None else time.monotonic() + settings["lifetime"]
        self.commands: dict[int, Command] = {}
        self.ending: list[Command] = []  # ended themselves, but what descends from them has not
        self.watched: dict[int, Callable[[int], None]] = {}
        self.poll = select.epoll()

    def serve(self) -> None:
        self.prepare()
        while self.expires is None or time.monotonic() < self.expires:
            for descriptor, _ in self.poll.poll(self.patience()):
                action = self.watched.get(descriptor)
                if action is not None:
                    action(descriptor)
            for command in list(self.ending):
                self.finish(command)

    def patience(self) -> float | None:
        """How long to wait at most before there is something to do anyway."""
        if self.ending:
            return LOOK_AGAIN_SECONDS
        if self.expires is None:
            return None
        return min(LONGEST_WAIT_SECONDS, max(0.0, self.expires - time.monotonic()))

    def prepare(self) -> None:
        os.chdir(self.directory)
        os.umask(0o022)
        self.home = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
        lower_limits(self.common_limits)
        woken, waker = socket.socketpair()
        woken.setblocking(False)
        waker.setblocking(False)
        self.waker = waker
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        self.watch(woken.detach(), self.reap)
        self.watch(self.host, self.end)  # readable: the host's process has ended
        self.watch(self.control.fileno(), self.serve_request)
        answer(self.control, {"uid": os.getuid(), "pid": os.getpid()})
        hide_from_commands()

    def end(self, _: int) -> None:
        sys.exit(0)

    def watch(self, descriptor: int, action: Callable[[int], None]) -> None:
        self.watched[descriptor] = action
        self.poll.register(descriptor, select.EPOLLIN)

    def unwatch(self, descriptor: int) -> None:
        del self.watched[descriptor]
        self.poll.unregister(descriptor)

    def serve_request(self, _: int) -> None:
        received = receive(self.control)
        if received is None:
            sys.exit(0)
        request, descriptors = received
        reply = socket.socket(fileno=descriptors.pop(0))
        try:
            getattr(self, "do_" + request.pop("do"))(reply, descriptors, **request)
        except Exception as error:  # noqa: BLE001 - the one door: whatever a request runs into, the sandbox lives on
            answer(reply, refusal(error))
        for descriptor in descriptors:
            os.close(descriptor)

    # --- commands

    def do_start(
        self,
        reply: socket.socket,
        descriptors: list[int],
        *,
        id: str,
        arguments: list[str],
        environment: dict[str, str],
        directory: str,
        stdin: bool,
        terminal: list[int] | None,
    ) -> None:
        ours, theirs = open_terminal(descriptors, terminal) if terminal else open_pipes(stdin)
        self.marker += 1
        command = Command(id, arguments, self.marker, reply, {n: end for n, end in ours.items() if n != "stdin"})
        try:
            require_room(max(theirs))
            os.chdir(directory)
            resource.setrlimit(RLIMIT_MARKER, (self.marker, resource.getrlimit(RLIMIT_MARKER)[1]))
            code = self.run(command, environment, theirs, terminal is not None)
        except BaseException:
            for descriptor in ours.values():
                os.close(descriptor)
            raise
        finally:
            os.fchdir(self.home)
            for descriptor in set(theirs):
                os.close(descriptor)
        answer(reply, {"pid": command.pid or None, "ends": list(ours)}, *ours.values())
        if "stdin" in ours:
            os.close(ours["stdin"])
        self.watch(reply.fileno(), lambda _: self.let_go(command))
        if code is None:
            self.commands[command.pid] = command
        else:
            answer(reply, {"exit": code})

    def run(self, command: Command, environment: dict[str, str], streams: list[int], terminal: bool) -> int | None:
        """Start the command. Returns ``None``, or the exit code a shell would give when it cannot be executed."""
        name = command.arguments[0]
        try:
            program = find_program(name, environment.get("PATH", ""))
            if program is None:
                raise FileNotFoundError(errno.ENOENT, "not found")
            if terminal or self.command_limits:
                command.pid = fork(
                    program,
                    command.arguments,
                    environment,
                    streams,
                    terminal=terminal,
                    limits=self.command_limits,
                )
            else:
                command.pid = spawn(program, command.arguments, environment, streams)
        except OSError as error:
            if error.errno in NO_ROOM:
                raise
            return complain(streams[2], name, error)
        return None

    def reap(self, woken: int) -> None:
        """Collect every process that ended: the commands, and what they left behind."""
        os.read(woken, 4096)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            command = self.commands.pop(pid, None)
            if command is not None:
                command.exit_code = os.waitstatus_to_exitcode(status)
                self.ending.append(command)

    def finish(self, command: Command) -> None:
        """Report the end of a command. One that was told to end takes its descendants with it, by force if need be."""
        if command.told_to_end is not None and marked(command.marker, command.marker + 1):
            if time.monotonic() < command.told_to_end + STOP_PATIENCE_SECONDS:
                return
            self.kill_tree(command.marker, signal.SIGKILL)
        self.ending.remove(command)
        if command.reply is not None:
            answer(command.reply, {"exit": command.exit_code})

    def let_go(self, command: Command) -> None:
        """The host closed its end: from now on we empty the pipes."""
        if command.reply is None:
            return
        self.unwatch(command.reply.fileno())
        command.reply.close()
        command.reply = None
        for name, output in command.outputs.items():
            self.watch(output, functools.partial(self.drain, command, name))

    def drain(self, command: Command, name: str, descriptor: int) -> None:
        try:
            if os.read(descriptor, DRAIN_BYTES):
                return
        except BlockingIOError:
            return
        except OSError:  # EIO: nobody has the terminal open any more
            pass
        self.unwatch(descriptor)
        os.close(descriptor)
        del command.outputs[name]

    def find(self, command_id: str) -> Command:
        for command in (*self.commands.values(), *self.ending):
            if command.command_id == command_id:
                return command
        raise ProcessLookupError(errno.ESRCH, "No such command runs")

    def do_attach(self, reply: socket.socket, descriptors: list[int], *, id: str) -> None:
        command = self.find(id)
        self.let_go(command)
        for output in command.outputs.values():
            self.unwatch(output)
        command.reply = reply
        answer(reply, command.summary(), *command.outputs.values())
        self.watch(reply.fileno(), lambda _: self.let_go(command))

    def do_kill(self, reply: socket.socket, descriptors: list[int], *, id: str, number: int) -> None:
        command = self.find(id)
        if number == signal.SIGTERM:
            command.told_to_end = time.monotonic()
        self.kill_tree(command.marker, number)
        answer(reply, {})

    def kill_tree(self, marker: int, number: int) -> None:
        """Signal all descendants; after KILL look again until none is left, for they may have been forking."""
        patience = time.monotonic() + STOP_PATIENCE_SECONDS
        while (pids := marked(marker, marker + 1)) and time.monotonic() < patience:
            signal_all(pids, number)
            if number != signal.SIGKILL:
                return
            time.sleep(0.001)

    def do_resize(self, reply: socket.socket, descriptors: list[int], *, id: str, size: list[int]) -> None:
        set_size(self.find(id).outputs["terminal"], size)
        answer(reply, {})

    def do_commands(self, reply: socket.socket, descriptors: list[int]) -> None:
        answer(reply, {"commands": [command.summary() for command in self.commands.values()]})

    # --- the whole sandbox

    def everything(self) -> list[int]:
        return marked(self.first_marker, self.first_marker + MARKERS_PER_SESSION)

    def do_pause(self, reply: socket.socket, descriptors: list[int]) -> None:
        """Stop everything, or nothing."""
        if not stop_all(self.everything, PAUSE_PATIENCE_SECONDS):
            signal_all(self.everything(), signal.SIGCONT)
            raise OSError(errno.EBUSY, "its processes start others faster than they can be stopped")
        answer(reply, {})

    def do_resume(self, reply: socket.socket, descriptors: list[int]) -> None:
        signal_all(self.everything(), signal.SIGCONT)
        answer(reply, {})

    def do_extend(self, reply: socket.socket, descriptors: list[int], *, seconds: float) -> None:
        if self.expires is not None:
            self.expires = max(self.expires, time.monotonic() + seconds)
        answer(reply, {})

    def do_connect(self, reply: socket.socket, descriptors: list[int], *, port: int) -> None:
        """Connect to a port in here. The connection may still be under way; the host waits for it, not we."""
        failure = 0
        for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            with socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as connection:
                failure = connection.connect_ex((address, port))
                if failure in (0, errno.EINPROGRESS):
                    answer(reply, {}, connection.fileno())
                    return
        raise OSError(failure, os.strerror(failure))

    def do_usage(self, reply: socket.socket, descriptors: list[int]) -> None:
        pages = 0
        for pid in [*self.everything(), "self"]:
            try:
                with open(f"/proc/{pid}/statm") as file:
                    pages += int(file.read().split()[1])
            except OSError:  # gone
                continue
        disk = os.statvfs(self.directory)
        answer(
            reply,
            {
                "memory": pages * resource.getpagesize(),
                "disk": (disk.f_blocks - disk.f_bfree) * disk.f_frsize,
                "disk_limit": disk.f_blocks * disk.f_frsize,
            },
        )

    # --- files

    def do_open(self, reply: socket.socket, descriptors: list[int], *, path: str) -> None:
        descriptors.append(open_plain(path))
        answer(reply, {}, *descriptors)

    def do_create(self, reply: socket.socket, descriptors: list[int], *, path: str) -> None:
        descriptor, temporary, final = create_beside(path)
        descriptors.append(descriptor)
        answer(reply, {"temporary": temporary, "final": final}, *descriptors)

    def do_commit(self, reply: socket.socket, descriptors: list[int], *, path: str, temporary: str, final: str) -> None:
        os.replace(temporary, final)
        answer(reply, {})

    def do_stat(self, reply: socket.socket, descriptors: list[int], *, path: str) -> None:
        answer(reply, describe(path))

    def do_make_dir(self, reply: socket.socket, descriptors: list[int], *, path: str) -> None:
        os.makedirs(path, exist_ok=True)
        answer(reply, {})

    def do_list(self, reply: socket.socket, descriptors: list[int], *, path: str, depth: int) -> None:
        self.aside(reply, lambda: {"entries": entries(path, depth)})

    def do_remove(self, reply: socket.socket, descriptors: list[int], *, path: str, recursive: bool) -> None:
        self.aside(reply, lambda: done(remove, path, recursive))

    def do_move(self, reply: socket.socket, descriptors: list[int], *, path: str, destination: str) -> None:
        self.aside(reply, lambda: done(move, path, destination))

    def aside(self, reply: socket.socket, work: Callable[[], dict[str, Any]]) -> None:
        """Do what may take long in a process of its own, which answers by itself."""
        if os.fork():
            reply.close()
            return
        try:
            answer(reply, work())
        except Exception as error:  # noqa: BLE001 - as in `serve_request`
            answer(reply, refusal(error))
        finally:
            os._exit(0)


def done(work: Callable[..., None], *arguments: Any) -> dict[str, Any]:
    """Do something that has nothing to answer."""
    work(*arguments)
    return {}


def main() -> None:
    """Run the agent; its program and whatever else it was started with is closed before."""
    told = json.loads(sys.argv[1])
    sys.path.pop(0)  # the archive we came from
    close_all_but(told["control"], told["host"])
    Agent(told).serve()
