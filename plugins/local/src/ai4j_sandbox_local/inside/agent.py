"""The process that runs inside a sandbox: it starts commands and opens files there, and hands the host their descriptors.

It is executed as a program (``python -I -S``), needs the standard library only, and reads one JSON argument:
``{"control": fd, "host": fd, "directory": path, "marker": n, "limits": {name: n}, "lifetime": seconds or null}``.

Rules:

* One thread, one loop; nothing here waits for a command, a file or a peer.
* The host sends requests on the control socket, each with a reply socket of its own; answers go only there. A message is
  JSON; an empty one means that the JSON is in the first descriptor that came along, because it was too long.
* Output never passes through here: the host reads the pipes itself. We keep a second reading end, so that a command
  that outlives its handle does not die of SIGPIPE, and empty it once the host has let go.
* When the host ends, closes the control socket, or the lifetime is over, we exit, and with us, the first process of the
  sandbox, everything in it.
"""

from __future__ import annotations

import errno
import fcntl
import grp
import json
import os
import pwd
import resource
import select
import signal
import socket
import stat
import struct
import sys
import termios
import time

LONGEST_INLINE = 32 * 1024
DRAIN_BYTES = 64 * 1024
STOP_PATIENCE_SECONDS = 1.0
MARKERS_PER_SESSION = 1 << 24
RLIMIT_MARKER = 10  # RLIMIT_LOCKS: inherited by every descendant, and without any effect since Linux 2.4


def pack(payload: dict) -> tuple[bytes, list[int]]:
    """Return the message for `payload`, and the descriptor that holds it when it is too long for one."""
    data = json.dumps(payload).encode()
    if len(data) <= LONGEST_INLINE:
        return data, []
    carrier = os.memfd_create("message")
    os.write(carrier, data)
    return b"", [carrier]


def unpack(message: bytes, descriptors: list[int]) -> dict:
    """Return the payload of a message; takes its carrier out of `descriptors`."""
    if message:
        return json.loads(message)
    with open(descriptors.pop(0), "rb") as carrier:
        carrier.seek(0)
        return json.loads(carrier.read())


def receive(channel: socket.socket) -> tuple[dict, list[int]] | None:
    """Return the next request with its descriptors, or ``None`` at the end."""
    size = struct.calcsize("i")
    message, ancillary, _, _ = channel.recvmsg(2 * LONGEST_INLINE, socket.CMSG_SPACE(8 * size), socket.MSG_CMSG_CLOEXEC)
    descriptors: list[int] = []
    for _, kind, data in ancillary:
        if kind == socket.SCM_RIGHTS:
            descriptors += struct.unpack(f"{len(data) // size}i", data)
    return (unpack(message, descriptors), descriptors) if descriptors else None


def answer(reply: socket.socket, payload: dict, *descriptors: int) -> None:
    """Send an answer; a host that no longer listens is fine."""
    message, carriers = pack(payload)
    try:
        socket.send_fds(reply, [message], [*carriers, *descriptors])
    except OSError:
        pass
    for carrier in carriers:
        os.close(carrier)


def refusal(error: OSError) -> dict:
    """Describe an operating system error."""
    return {"error": errno.errorcode.get(error.errno or 0, "EIO"), "message": error.strerror or str(error)}


# --- processes --------------------------------------------------------------------------------------------------


def state_of(pid: int) -> str:
    """Return the kernel's letter for a process's state, ``Z`` also for one that is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return "Z"


def marked(low: int, high: int) -> list[int]:
    """Return the living processes whose marker is in the range: all descendants, however they detached themselves."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            marker = resource.prlimit(int(name), RLIMIT_MARKER)[0]
        except OSError:  # gone, or somebody else's
            continue
        if low <= marker < high and state_of(int(name)) != "Z":
            found.append(int(name))
    return found


def signal_all(pids: list[int], number: int) -> None:
    """Send a signal to each; one that is gone meanwhile is fine."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def find_program(name: str, search_path: str) -> str | None:
    """Return the file that `name` stands for, as execvp would; an existing one that may not be run only if no other."""
    if "/" in name:
        return name
    second_best = None
    for directory in search_path.split(":"):
        candidate = os.path.join(directory or ".", name)
        if os.path.isfile(candidate):
            if os.access(candidate, os.X_OK):
                return candidate
            second_best = second_best or candidate
    return second_best


class Command:
    """One started command and the ends of it that we hold."""

    def __init__(self, command_id: str, arguments: list[str], marker: int, reply: socket.socket, outputs: list[int]) -> None:
        self.command_id = command_id
        self.arguments = arguments
        self.marker = marker
        self.reply: socket.socket | None = reply
        self.outputs = outputs
        self.pid = 0

    def summary(self) -> dict:
        return {"pid": self.pid, "id": self.command_id, "command": self.arguments}


# --- files ------------------------------------------------------------------------------------------------------


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def describe(path: str) -> dict:
    """Describe a path itself, not what a symlink points at."""
    status = os.lstat(path)
    return {
        "path": path,
        "kind": stat.S_IFMT(status.st_mode),
        "size": status.st_size,
        "mode": stat.S_IMODE(status.st_mode),
        "modified": status.st_mtime_ns // 1_000_000,
        "owner": user_name(status.st_uid),
        "group": group_name(status.st_gid),
        "target": os.readlink(path) if stat.S_ISLNK(status.st_mode) else None,
    }


def entries(path: str, depth: int) -> list[dict]:
    """Describe what is below a directory, down to `depth` levels."""
    found = []
    for name in os.listdir(path):
        below = os.path.join(path, name)
        try:
            found.append(describe(below))
            if depth > 1 and found[-1]["kind"] == stat.S_IFDIR:
                found += entries(below, depth - 1)
        except FileNotFoundError:  # removed while we looked
            continue
    return found


def open_plain(path: str) -> int:
    """Open a regular file for reading. Never waits: a pipe without a writer would."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISREG(kind):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, "Is a directory")
    raise OSError(errno.EINVAL, "Not a regular file")


def make_parents(path: str) -> None:
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)


def create_beside(path: str) -> tuple[int, str, str]:
    """Open a new file next to `path`; returns it, its name, and the final name with symlinks resolved."""
    final = os.path.realpath(path)
    if os.path.isdir(final):
        raise IsADirectoryError(errno.EISDIR, "Is a directory")
    make_parents(final)
    temporary = os.path.join(os.path.dirname(final), f".ai4j-{os.urandom(8).hex()}")
    mode = stat.S_IMODE(os.stat(final).st_mode) if os.path.exists(final) else 0o644
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    os.fchmod(descriptor, mode)
    return descriptor, temporary, final


def remove(path: str, recursive: bool) -> None:
    """Remove a path; symlinks are removed, never followed."""
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        os.unlink(path)
        return
    if recursive:
        for name in os.listdir(path):
            remove(os.path.join(path, name), recursive)
    os.rmdir(path)


def move(source: str, destination: str) -> None:
    """Rename, also from one file system to another."""
    os.lstat(source)
    make_parents(destination)
    try:
        os.replace(source, destination)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        import shutil  # costs milliseconds to load, and is rarely needed

        shutil.move(source, destination)


# --- the agent --------------------------------------------------------------------------------------------------


class Agent:
    """Serves the host's requests until it is gone."""

    def __init__(self, settings: dict) -> None:
        self.control = socket.socket(fileno=settings["control"])
        self.host = settings["host"]
        self.directory = settings["directory"]
        self.marker = self.first_marker = settings["marker"]
        self.cpu_seconds = settings["limits"].pop("RLIMIT_CPU", None)
        self.limits = settings["limits"]
        self.expires = None if settings["lifetime"] is None else time.monotonic() + settings["lifetime"]
        self.commands: dict[int, Command] = {}
        self.watched: dict[int, object] = {}
        self.poll = select.epoll()

    def serve(self) -> None:
        self.prepare()
        while True:
            left = None if self.expires is None else self.expires - time.monotonic()
            if left is not None and left <= 0:
                return
            for descriptor, _ in self.poll.poll(left):
                action = self.watched.get(descriptor)
                if action is not None:
                    action(descriptor)

    def prepare(self) -> None:
        os.chdir(self.directory)
        os.umask(0o022)
        self.home = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
        for descriptor in (self.control.fileno(), self.host):
            os.set_inheritable(descriptor, False)
        for name, limit in self.limits.items():
            hard = resource.getrlimit(getattr(resource, name))[1]
            value = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
            resource.setrlimit(getattr(resource, name), (value, value))
        woken, waker = socket.socketpair()
        woken.setblocking(False)
        waker.setblocking(False)
        self.waker = waker
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        self.watch(woken.detach(), self.reap)
        self.watch(self.host, lambda _: sys.exit(0))  # readable: the host's process has ended
        self.watch(self.control.fileno(), self.serve_request)
        answer(self.control, {"uid": os.getuid(), "pid": os.getpid()})
        hide_from_commands()

    def watch(self, descriptor: int, action: object) -> None:
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
        except OSError as error:
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
        ours, theirs = self.open_terminal(descriptors, terminal) if terminal else self.open_pipes(stdin)
        self.marker += 1
        command = Command(id, arguments, self.marker, reply, ours if terminal else ours[-2:])
        try:
            os.chdir(directory)
            resource.setrlimit(RLIMIT_MARKER, (self.marker, resource.getrlimit(RLIMIT_MARKER)[1]))
            code = self.run(command, environment, theirs, terminal is not None)
        except BaseException:
            for descriptor in ours:
                os.close(descriptor)
            raise
        finally:
            os.fchdir(self.home)
            for descriptor in set(theirs):
                os.close(descriptor)
        answer(reply, {"pid": command.pid or None}, *ours)
        if len(ours) > len(command.outputs):
            os.close(ours[0])
        self.watch(reply.fileno(), lambda _: self.let_go(command))
        if code is None:
            self.commands[command.pid] = command
        else:
            answer(reply, {"exit": code})

    def open_pipes(self, stdin: bool) -> tuple[list[int], list[int]]:
        """Return our ends and the command's: standard input (or nothing and /dev/null), output, error."""
        reading, writing = os.pipe() if stdin else (os.open("/dev/null", os.O_RDONLY), -1)
        (output, out), (errors, err) = os.pipe(), os.pipe()
        for descriptor in (output, errors):
            os.set_blocking(descriptor, False)
        return [writing, output, errors] if stdin else [output, errors], [reading, out, err]

    def open_terminal(self, descriptors: list[int], size: list[int]) -> tuple[list[int], list[int]]:
        """Return the master and three times the slave; from the host where we may not open terminals ourselves."""
        master, slave = descriptors if descriptors else os.openpty()
        descriptors.clear()
        os.set_blocking(master, False)
        set_size(master, size)
        return [master], [slave, slave, slave]

    def run(self, command: Command, environment: dict[str, str], streams: list[int], terminal: bool) -> int | None:
        """Start the command. Returns ``None``, or the exit code a shell would give when it cannot be executed."""
        name = command.arguments[0]
        try:
            program = find_program(name, environment.get("PATH", ""))
            if program is None:
                raise FileNotFoundError(errno.ENOENT, "not found")
            if terminal or self.cpu_seconds:
                command.pid = self.fork(program, command.arguments, environment, streams, terminal)
            else:
                command.pid = self.spawn(program, command.arguments, environment, streams)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ENOEXEC, errno.E2BIG, errno.EISDIR):
                raise
            os.write(streams[2], f"{name}: {error.strerror}\n".encode(errors="surrogateescape"))
            return 127 if error.errno in (errno.ENOENT, errno.ENOTDIR) else 126
        return None

    def spawn(self, program: str, arguments: list[str], environment: dict[str, str], streams: list[int]) -> int:
        """The quick way: about half the time of a fork, because nothing of ours is copied."""
        return os.posix_spawn(
            program,
            arguments,
            environment,
            file_actions=[(os.POSIX_SPAWN_DUP2, stream, number) for number, stream in enumerate(streams)],
            setsid=True,
            setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),  # Python ignores them; commands must not
        )

    def fork(
        self, program: str, arguments: list[str], environment: dict[str, str], streams: list[int], terminal: bool
    ) -> int:
        """The way for what posix_spawn cannot do: a controlling terminal, and limits counted per process."""
        if not os.access(program, os.X_OK):
            raise PermissionError(errno.EACCES, "Permission denied")
        pid = os.fork()
        if pid:
            return pid
        try:
            os.setsid()
            if terminal:
                fcntl.ioctl(streams[0], termios.TIOCSCTTY, 0)
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(ignored, signal.SIG_DFL)
            if self.cpu_seconds:
                resource.setrlimit(resource.RLIMIT_CPU, (self.cpu_seconds, self.cpu_seconds))
            os.execve(program, arguments, environment)
        except OSError as error:
            os.write(2, f"{arguments[0]}: {error.strerror}\n".encode(errors="surrogateescape"))
        finally:
            os._exit(126)

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
            if command is not None and command.reply is not None:
                answer(command.reply, {"exit": os.waitstatus_to_exitcode(status)})
            elif command is not None:
                command.pid = 0

    def let_go(self, command: Command) -> None:
        """The host closed its end: from now on we empty the pipes."""
        assert command.reply is not None
        self.unwatch(command.reply.fileno())
        command.reply.close()
        command.reply = None
        for output in command.outputs:
            self.watch(output, lambda descriptor: self.drain(command, descriptor))

    def drain(self, command: Command, descriptor: int) -> None:
        try:
            if os.read(descriptor, DRAIN_BYTES):
                return
        except BlockingIOError:
            return
        except OSError:  # EIO: nobody has the terminal open any more
            pass
        self.unwatch(descriptor)
        os.close(descriptor)
        command.outputs.remove(descriptor)

    def find(self, command_id: str) -> Command:
        for command in self.commands.values():
            if command.command_id == command_id:
                return command
        raise ProcessLookupError(errno.ESRCH, "No such command runs")

    def do_attach(self, reply: socket.socket, descriptors: list[int], *, id: str) -> None:
        command = self.find(id)
        if command.reply is not None:
            self.let_go(command)
        for output in command.outputs:
            self.unwatch(output)
        command.reply = reply
        answer(reply, command.summary(), *command.outputs)
        self.watch(reply.fileno(), lambda _: self.let_go(command))

    def do_kill(self, reply: socket.socket, descriptors: list[int], *, id: str, signal: int) -> None:
        command = self.find(id)
        self.kill_tree(command.marker, signal)
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
        set_size(self.find(id).outputs[0], size)
        answer(reply, {})

    def do_commands(self, reply: socket.socket, descriptors: list[int]) -> None:
        answer(reply, {"commands": [command.summary() for command in self.commands.values()]})

    # --- the whole sandbox

    def everything(self) -> list[int]:
        return marked(self.first_marker, self.first_marker + MARKERS_PER_SESSION)

    def do_pause(self, reply: socket.socket, descriptors: list[int]) -> None:
        patience = time.monotonic() + STOP_PATIENCE_SECONDS
        while (running := [pid for pid in self.everything() if state_of(pid) not in "Tt"]) and time.monotonic() < patience:
            signal_all(running, signal.SIGSTOP)
            time.sleep(0.001)
        answer(reply, {"running": len(running)})

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
        self.aside(reply, lambda: remove(path, recursive) or {})

    def do_move(self, reply: socket.socket, descriptors: list[int], *, path: str, destination: str) -> None:
        self.aside(reply, lambda: move(path, destination) or {})

    def aside(self, reply: socket.socket, work: object) -> None:
        """Do what may take long in a process of its own, which answers by itself."""
        if os.fork():
            reply.close()
            return
        try:
            answer(reply, work())
        except OSError as error:
            answer(reply, refusal(error))
        finally:
            os._exit(0)


def set_size(master: int, size: list[int]) -> None:
    rows, columns = size
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def hide_from_commands() -> None:
    """Keep commands, which run as the same user, from tracing us and from reading our memory and descriptors."""
    import ctypes  # after the greeting, since it takes milliseconds to load

    PR_SET_DUMPABLE = 4
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


if __name__ == "__main__":
    Agent(json.loads(sys.argv[1])).serve()
