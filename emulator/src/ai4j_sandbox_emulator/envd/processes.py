"""The service ``process.Process``: start, follow, feed, signal and list commands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping
from contextlib import aclosing, suppress
from itertools import chain
from typing import Any

from ai4j_sandbox.aio import in_thread
from ai4j_sandbox.capability import Capability
from ai4j_sandbox.errors import SandboxException
from ai4j_sandbox.files import FileKind
from ai4j_sandbox.model import OutputStream, SandboxCommand, SandboxResult, TerminalSize
from ai4j_sandbox.process import OutputChunk
from ai4j_sandbox_emulator.process import EmulatedProcess, Ended, Expired, Failed, Listener, ProcessEvent, Started
from ai4j_sandbox_emulator.sandbox import Sandbox

from . import messages
from .accounts import Account, PathError, resolve
from .call import Batches, Call, ClientStream, Method, ServerStream, Unary
from .codec import Document
from .connect import Code, ConnectError, as_connect_error, keepalive_seconds, timeout_seconds
from .entries import find

PIPE_CHUNK_BYTES = 32 * 1024
TERMINAL_CHUNK_BYTES = 16 * 1024

_AFTER_KILL_SECONDS = 2.0  # how long SendSignal waits for the process to be gone, so that a `kill -0` fails
_SIGNALS = {"SIGNAL_SIGTERM": "SIGTERM", "SIGNAL_SIGKILL": "SIGKILL"}

# Go's words for signals, which envd puts into the status text.
_SIGNAL_WORDS = {
    "SIGHUP": "hangup",
    "SIGINT": "interrupt",
    "SIGQUIT": "quit",
    "SIGILL": "illegal instruction",
    "SIGTRAP": "trace/breakpoint trap",
    "SIGABRT": "aborted",
    "SIGBUS": "bus error",
    "SIGFPE": "floating point exception",
    "SIGKILL": "killed",
    "SIGUSR1": "user defined signal 1",
    "SIGSEGV": "segmentation fault",
    "SIGUSR2": "user defined signal 2",
    "SIGPIPE": "broken pipe",
    "SIGALRM": "alarm clock",
    "SIGTERM": "terminated",
}


class ProcessService:
    """The methods of ``process.Process``."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def methods(self) -> Mapping[str, Method]:
        """Return the methods by name."""
        event = messages.PROCESS_EVENT_RESPONSE
        return {
            "List": Unary(request=messages.EMPTY, response=messages.LIST_RESPONSE, method=self.list),
            "Start": ServerStream(request=messages.START_REQUEST, response=event, method=self.start),
            "Connect": ServerStream(request=messages.SELECTOR_REQUEST, response=event, method=self.connect),
            "Update": _action(messages.UPDATE_REQUEST, self.update),
            "SendInput": _action(messages.SEND_INPUT_REQUEST, self.send_input),
            "StreamInput": ClientStream(
                request=messages.STREAM_INPUT_REQUEST, response=messages.EMPTY, method=self.stream_input
            ),
            "SendSignal": _action(messages.SEND_SIGNAL_REQUEST, self.send_signal),
            "CloseStdin": _action(messages.SELECTOR_REQUEST, self.close_stdin),
        }

    # --- start and follow -----------------------------------------------------------------------------------------

    async def start(self, call: Call) -> Batches:
        """Start a command and tell what becomes of it."""
        seconds = timeout_seconds(call.headers)
        command = await start_command(call)
        process = call.sandbox.prepare(command, call.document.get("tag"))
        listener = process.listen()
        process.run()
        call.sandbox.log("info", "process started", command=command.shell_line()[:1000])
        if seconds is not None:
            self._limit_process(call.sandbox, process, listener, seconds)
        async with aclosing(_told(process, listener, keepalive_seconds(call.headers))) as batches:
            async for batch in batches:
                yield batch

    async def connect(self, call: Call) -> Batches:
        """Tell what becomes of a command from here on; of one that ended a moment ago, how."""
        seconds = timeout_seconds(call.headers)
        process = _select(call.sandbox.known_processes(), call.document.get("process", {}))
        listener = process.listen()
        if seconds is not None:
            asyncio.get_running_loop().call_later(seconds, listener.put_now, Expired())
        async with aclosing(_told(process, listener, keepalive_seconds(call.headers))) as batches:
            async for batch in batches:
                yield batch

    def _limit_process(self, sandbox: Sandbox, process: EmulatedProcess, listener: Listener, seconds: float) -> None:
        """End the command when the call's time is up, also when the client has long left."""

        def expire() -> None:
            if process.end is None:
                # The stream learns of it first: a client must see a deadline, not a killed command.
                listener.put_now(Expired())
                self._spawn(_signal(sandbox, process, "SIGKILL"))

        asyncio.get_running_loop().call_later(seconds, expire)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- the rest -------------------------------------------------------------------------------------------------

    async def list(self, call: Call) -> Document:
        """Return what runs."""
        return {"processes": [_described(process) for process in call.sandbox.running_processes()]}

    async def update(self, call: Call) -> None:
        """Change the size of a terminal."""
        process = _running(call)
        if not process.is_terminal:
            raise ConnectError(Code.INTERNAL, "error resizing tty: tty not assigned to process")
        await process.resize(terminal_size(call.document.get("pty", {})))

    async def send_input(self, call: Call) -> None:
        """Hand bytes to a command."""
        await _write(_running(call), call.document.get("input", {}))

    async def stream_input(self, call: Call, process: object) -> object:
        """Take one message of a stream of input; the first names the command."""
        if "start" in call.document:
            return _select(call.sandbox.running_processes(), call.document["start"].get("process", {}))
        if not isinstance(process, EmulatedProcess):
            raise ConnectError(Code.INVALID_ARGUMENT, "the first message must be a start event")
        if "data" in call.document:
            await _write(process, call.document["data"].get("input", {}))
        return process

    async def send_signal(self, call: Call) -> None:
        """Send TERM or KILL to a command itself, not to its children."""
        process = _running(call)
        signal = _SIGNALS.get(call.document.get("signal", ""))
        if signal is None:
            raise ConnectError(Code.UNIMPLEMENTED, "invalid signal: SIGNAL_UNSPECIFIED")
        await _signal(call.sandbox, process, signal)
        if signal == "SIGKILL":
            await process.wait_over(_AFTER_KILL_SECONDS)

    async def close_stdin(self, call: Call) -> None:
        """End a command's input; a second time is fine."""
        process = _running(call)
        if process.is_terminal:
            raise ConnectError(Code.INTERNAL, "error closing stdin: the process runs on a tty")
        if process.accepts_stdin:
            await process.close_stdin()


def _action(request: messages.Message, method: Callable[[Call], Coroutine[Any, Any, None]]) -> Unary:
    async def answered(call: Call) -> Document:
        await method(call)
        return {}

    return Unary(request=request, response=messages.EMPTY, method=answered)


# --- from a request to a command ------------------------------------------------------------------------------------


async def start_command(call: Call) -> SandboxCommand:
    """Return the command that a Start request asks for.

    Raises:
        ConnectError: Its directory does not exist.
        SandboxConfigError: It makes no sense.
    """
    config = call.document.get("process", {})
    pty = call.document.get("pty")
    directory = await _directory(call, config.get("cwd", ""))
    return SandboxCommand(
        # As envd does: a shell becomes the program, so that an unknown one is an exit code and no failed call.
        command=("/bin/sh", "-c", 'exec "$@"', "sh", config.get("cmd", ""), *config.get("args", ())),
        working_directory=directory,
        environment={**_user_variables(call.account), **call.sandbox.request.environment, **config.get("envs", {})},
        keep_stdin_open=_wants_stdin(call),
        terminal=None if pty is None else terminal_size(pty),
        output_limit_bytes=0,
        metadata={"config": config},
    )


def _user_variables(account: Account) -> dict[str, str]:
    return {"HOME": account.home, "USER": account.name, "LOGNAME": account.name}


def _wants_stdin(call: Call) -> bool:
    if "pty" in call.document:
        return True
    return call.document.get("stdin", True) and Capability.STDIN in call.sandbox.session.capabilities


def terminal_size(pty: Document) -> TerminalSize:
    """Return the size in a request; what is missing or 0 counts as usual."""
    size = pty.get("size", {})
    return TerminalSize(rows=size.get("rows") or 24, columns=size.get("cols") or 80)


async def _directory(call: Call, cwd: str) -> str:
    try:
        directory = resolve(cwd, call.account)
    except PathError as error:
        raise ConnectError(Code.INVALID_ARGUMENT, str(error)) from error
    if directory == call.sandbox.home:
        return directory
    entry = await in_thread(find, call.sandbox.session.files, directory)
    if entry is not None and entry.kind is FileKind.DIRECTORY:
        return directory
    if not cwd:
        return "/"  # the provider's image has no home for this user
    raise ConnectError(Code.INVALID_ARGUMENT, f"cwd '{directory}' does not exist")


# --- from events to messages ----------------------------------------------------------------------------------------


async def _told(process: EmulatedProcess, listener: Listener, keepalive: float) -> AsyncGenerator[list[Document], None]:
    """Yield the messages of a stream until the command ends."""
    try:
        while True:
            events = await listener.take(keepalive)
            told = (event_messages(event, terminal=process.is_terminal) for event in events)
            yield list(chain.from_iterable(told)) if events else [{"event": {"keepalive": {}}}]
            for event in events:
                if isinstance(event, Ended):
                    return
                _raise_failure(event)
    finally:
        process.leave(listener)


def _raise_failure(event: ProcessEvent) -> None:
    if isinstance(event, Expired):
        raise ConnectError(Code.DEADLINE_EXCEEDED, "context deadline exceeded")
    if isinstance(event, Failed):
        raise as_connect_error(event.error)


def event_messages(event: ProcessEvent, *, terminal: bool) -> Iterator[Document]:
    """Yield the messages that tell of one event; a failure is told by the end of the stream."""
    if isinstance(event, Started):
        yield {"event": {"start": {"pid": event.pid}}}
    elif isinstance(event, OutputChunk):
        yield from _data_messages(event, terminal=terminal)
    elif isinstance(event, Ended):
        yield {"event": {"end": end_event(event.result)}}


def _data_messages(chunk: OutputChunk, *, terminal: bool) -> Iterator[Document]:
    name = "pty" if terminal else "stderr" if chunk.stream is OutputStream.STDERR else "stdout"
    size = TERMINAL_CHUNK_BYTES if terminal else PIPE_CHUNK_BYTES
    for start in range(0, len(chunk.data), size):
        yield {"event": {"data": {name: chunk.data[start : start + size]}}}


def end_event(result: SandboxResult) -> Document:
    """Return how a command ended in envd's words: -1 for a signal, and a text always."""
    if result.signal is not None:
        status = f"signal: {_SIGNAL_WORDS.get(result.signal, result.signal)}"
        return {"exitCode": -1, "status": status, "error": status}
    if result.exit_code is None:
        status = result.status_text or "the exit status is not known"
        return {"exitCode": -1, "status": status, "error": status}
    status = f"exit status {result.exit_code}"
    failure = {} if result.exit_code == 0 else {"error": status}
    return {"exitCode": result.exit_code, "exited": True, "status": status, **failure}


# --- processes --------------------------------------------------------------------------------------------------------


def _described(process: EmulatedProcess) -> Document:
    return {"config": process.command.metadata["config"], "pid": process.pid, "tag": process.tag}


def _running(call: Call) -> EmulatedProcess:
    return _select(call.sandbox.running_processes(), call.document.get("process", {}))


def _select(processes: list[EmulatedProcess], selector: Document) -> EmulatedProcess:
    if "pid" in selector:
        found = [process for process in processes if process.pid == selector["pid"]]
        what = f"pid {selector['pid']}"
    elif "tag" in selector:
        found = [process for process in processes if process.tag == selector["tag"]]
        what = f"tag {selector['tag']}"
    else:
        raise ConnectError(Code.UNIMPLEMENTED, "invalid selector")
    if not found:
        raise ConnectError(Code.NOT_FOUND, f"process with {what} not found")
    return found[0]


async def _write(process: EmulatedProcess, given: Document) -> None:
    if ("pty" in given) != process.is_terminal:
        raise ConnectError(
            Code.INTERNAL, f"error writing to {'tty' if 'pty' in given else 'stdin'}: not assigned to process"
        )
    if not process.is_terminal and not process.accepts_stdin:
        raise ConnectError(Code.INTERNAL, "error writing to stdin: stdin not enabled or closed")
    try:
        await process.write_stdin(given.get("pty") or given.get("stdin") or b"")
    except SandboxException as error:
        raise ConnectError(Code.INTERNAL, f"error writing to stdin: {error.message}") from error


async def _signal(sandbox: Sandbox, process: EmulatedProcess, signal: str) -> None:
    """Send a signal to the one process, as envd does; to the tree only where the provider tells no process ids."""
    kill = SandboxCommand(command=f"kill -{signal.removeprefix('SIG')} {process.pid}", timeout_millis=5000)
    with suppress(SandboxException):
        if process.tells_pid and (await in_thread(sandbox.session.execute, kill)).succeeded:
            return
    with suppress(SandboxException):
        await process.kill_tree(signal)
