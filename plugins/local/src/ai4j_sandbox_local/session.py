"""A session of the local provider: commands and abilities on top of the agent."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import threading
import time
import weakref
from collections.abc import Iterator, Mapping

from ai4j_sandbox.arguments import require_whole
from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.errors import (
    Outcome,
    SandboxCapacityError,
    SandboxConflictError,
    SandboxException,
    SandboxNotFoundError,
    SandboxProtocolError,
    SandboxSessionClosedError,
    SandboxSessionLostError,
    SessionState,
)
from ai4j_sandbox.files import SandboxFiles
from ai4j_sandbox.model import OutputStream, SandboxCommand
from ai4j_sandbox.process import ProcessChannel, SandboxProcess
from ai4j_sandbox.spi import Metrics, PortUrl, ProcessSummary, SandboxSession, SessionDescription

from .channel import Input, LocalChannel
from .client import ANSWER_SECONDS, AgentClient, Answer, Conversation
from .config import LONGEST_LIFE_SECONDS, LocalConfig
from .files import LocalFiles
from .isolation.tiers import Sandbox
from .payloads import (
    AgentRefusal,
    list_of,
    process_summary,
    start_error,
    start_request,
    usage_metrics,
    wants_stdin,
)
from .ports import PortForwarder

_CONNECT_SECONDS = 5.0
_STARTED_SECONDS = 10.0
_CLOCK_DIFFERENCE_SECONDS = 1.0  # the agent's time began to run when it started, ours when it had answered


class LocalSession(SandboxSession):
    """One sandbox on this machine.

    Attributes:
        started_seconds: How long the agent may take to say that a command has started. Not bound by the command's own
            time: whoever stopped listening then could no longer stop what has started.
    """

    started_seconds = _STARTED_SECONDS

    def __init__(self, description: SessionDescription, config: LocalConfig, sandbox: Sandbox) -> None:
        self._config = config
        self._sandbox = sandbox
        self._client = AgentClient(sandbox.running.control, self._explain_loss)
        self._expires = None if config.timeout_seconds is None else time.monotonic() + config.timeout_seconds
        self._paused = False
        self._channels: weakref.WeakSet[LocalChannel] = weakref.WeakSet()
        super().__init__(description)

    # --- what the SPI needs

    def _open_channel(self, command: SandboxCommand, deadline: Deadline) -> ProcessChannel:
        if self._paused:
            raise SandboxConflictError(
                "the sandbox is paused", hint="call resume()", outcome=Outcome.NOT_STARTED, retryable=False
            )
        request = start_request(command, self._config, self._sandbox.workspace, self._sandbox.environment)
        with self._terminal_for(command) as terminal:
            conversation = self._client.send(request, terminal)
        try:
            answer = conversation.next_answer(self.started_seconds)
            return self._channel(command, conversation, answer)
        except AgentRefusal as refusal:
            conversation.close()
            raise start_error(refusal, command) from None
        except BaseException:
            self._kill_unfollowed(command.command_id)
            conversation.close()
            raise

    def _kill_unfollowed(self, command_id: str) -> None:
        """End a command that nobody will hear of. Requests are taken in their order: it has started by then."""
        with contextlib.suppress(SandboxException):  # the sandbox is gone, and the command with it
            self._client.send({"do": "kill", "id": command_id, "number": signal.SIGKILL}).close()

    def _channel(self, command: SandboxCommand, conversation: Conversation, answer: Answer) -> LocalChannel:
        ends = _named_ends(answer)
        if len(ends) != len(answer.descriptors) or ends.keys() != _expected_ends(command):
            answer.discard()
            raise SandboxProtocolError("the agent's answer does not fit the command", outcome=Outcome.UNKNOWN)
        try:
            stdin = _stdin(command, ends)
        except OSError as error:
            answer.discard()
            raise SandboxCapacityError(f"the command cannot be followed: {error.strerror}") from error
        return self._made_channel(command, conversation, answer, ends, stdin)

    def _made_channel(
        self,
        command: SandboxCommand,
        conversation: Conversation,
        answer: Answer,
        ends: Mapping[str, int],
        stdin: Input | None,
    ) -> LocalChannel:
        channel = LocalChannel(
            command_id=command.command_id,
            client=self._client,
            conversation=conversation,
            outputs={stream: ends[name] for name, stream in _STREAMS.items() if name in ends},
            stdin=stdin,
            pid=answer.payload.get("pid"),
            terminal="terminal" in ends,
        )
        self._channels.add(channel)
        return channel

    @contextlib.contextmanager
    def _terminal_for(self, command: SandboxCommand) -> Iterator[tuple[int, ...]]:
        """A terminal of the host's, where the agent may not open one itself."""
        if command.terminal is None or self._sandbox.opens_terminals:
            yield ()
            return
        descriptors = os.openpty()
        try:
            yield descriptors
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _destroy(self) -> None:
        self._sandbox.destroy()
        for channel in list(self._channels):  # also of commands that nobody waits for
            channel.sandbox_ended()

    def _files(self) -> SandboxFiles:
        return LocalFiles(self._client)

    def _explain_loss(self) -> SandboxException:
        try:
            self._require_open()
        except SandboxSessionClosedError as closed:
            return closed
        if self._expires is not None and time.monotonic() >= self._expires - _CLOCK_DIFFERENCE_SECONDS:
            reason, hint = "its lifetime is over", "raise config.timeoutSeconds, or call extend() in time"
        else:
            reason, hint = self._sandbox.cause_of_death(), "create a new session"
        return SandboxSessionLostError(f"the sandbox is gone: {reason}", hint=hint)

    # --- background commands

    def list_processes(self) -> list[ProcessSummary]:
        """Return the commands that still run, also those whose handle was let go."""
        return [process_summary(item) for item in list_of(self._ask({"do": "commands"}).payload, "commands")]

    def attach(self, command_id: str) -> SandboxProcess:
        """Return a process for a running command; its output is what it writes from now on, its stdin is closed.

        Raises:
            SandboxNotFoundError: No such command runs.
            SandboxConflictError: Another handle of this session still follows it.
        """
        running = (process for process in self.list_processes() if process.command_id == command_id)
        summary = next(running, None)
        if summary is None:
            raise _not_running(command_id)
        return self._follow(SandboxCommand(command=summary.command, command_id=command_id), self._reopen_channel)

    def _reopen_channel(self, command: SandboxCommand, deadline: Deadline) -> ProcessChannel:
        conversation = self._client.send({"do": "attach", "id": command.command_id})
        try:
            answer = conversation.next_answer(ANSWER_SECONDS)
        except AgentRefusal:
            conversation.close()
            raise _not_running(command.command_id) from None
        except BaseException:
            conversation.close()
            raise
        ends = _named_ends(answer)
        if len(ends) != len(answer.descriptors) or not ends.keys() <= _STREAMS.keys():
            conversation.close()
            answer.discard()
            raise SandboxProtocolError("the agent's answer does not fit the command", outcome=Outcome.UNKNOWN)
        return self._made_channel(command, conversation, answer, ends, None)

    # --- life

    def pause(self) -> None:
        """Stop every process inside; commands cannot be started until `resume`."""
        self._paused = True  # before, so that nothing is started meanwhile
        try:
            self._ask({"do": "pause"})
        except BaseException:
            self._paused = False
            raise

    def resume(self) -> None:
        """Let them go on."""
        self._ask({"do": "resume"})
        self._paused = False

    def extend(self, seconds: int) -> None:
        """Let the sandbox live at least `seconds` from now; without ``timeoutSeconds`` it lives until closed anyway."""
        require_whole("seconds", seconds, minimum=1, maximum=LONGEST_LIFE_SECONDS)
        self._ask({"do": "extend", "seconds": seconds})
        if self._expires is not None:
            self._expires = max(self._expires, time.monotonic() + seconds)

    def metrics(self) -> Metrics:
        """Return the memory and the workspace in use."""
        return usage_metrics(self._ask({"do": "usage"}).payload, self._config.limits)

    def _ask(self, request: Mapping[str, object]) -> Answer:
        self._require_open()
        try:
            return self._client.call(request)
        except AgentRefusal as refusal:
            raise SandboxException(f"the sandbox refused: {refusal}", session_state=SessionState.INTACT) from None
        except SandboxException as error:
            error.located(provider_id=self.provider_id, session_id=self.session_id)
            raise


class ReachableSession(LocalSession):
    """A session whose ports can be reached from the host."""

    def __init__(self, description: SessionDescription, config: LocalConfig, sandbox: Sandbox) -> None:
        self._forwarders: dict[int, PortForwarder] = {}
        self._forwarding = threading.Lock()
        super().__init__(description, config, sandbox)

    def port_url(self, port: int) -> PortUrl:
        """Return the address on this host's loopback that leads to a port inside."""
        self._require_open()
        if self._config.network:
            return PortUrl(url=f"http://127.0.0.1:{port}")
        with self._forwarding:
            if port not in self._forwarders:
                self._forwarders[port] = PortForwarder(lambda: self._connect(port), f"{self.session_id}-port-{port}")
            return PortUrl(url=f"http://127.0.0.1:{self._forwarders[port].port}")

    def _connect(self, port: int) -> socket.socket:
        """Return a connection to a port inside, made by the agent.

        Raises:
            OSError: Nothing listens there, or the sandbox is gone.
        """
        try:
            answer = self._client.call({"do": "connect", "port": port})
        except (AgentRefusal, SandboxException) as error:
            raise ConnectionError(str(error)) from None
        if len(answer.descriptors) != 1:
            answer.discard()
            raise ConnectionError("the agent handed out no connection")
        connection = socket.socket(fileno=answer.descriptors[0])
        poll = select.poll()
        poll.register(connection, select.POLLOUT)
        poll.poll(_CONNECT_SECONDS * 1000)
        failure = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if failure:
            connection.close()
            raise OSError(failure, os.strerror(failure))
        return connection

    def _destroy(self) -> None:
        super()._destroy()
        with self._forwarding:
            for forwarder in self._forwarders.values():
                forwarder.close()


def _not_running(command_id: str) -> SandboxNotFoundError:
    return SandboxNotFoundError(f"no command {command_id!r} runs", session_state=SessionState.INTACT)


_STREAMS = {"stdout": OutputStream.STDOUT, "stderr": OutputStream.STDERR, "terminal": OutputStream.STDOUT}


def _named_ends(answer: Answer) -> dict[str, int]:
    """The descriptors of an answer by their names, as far as both are there."""
    return dict(zip(map(str, list_of(answer.payload, "ends")), answer.descriptors, strict=False))


def _expected_ends(command: SandboxCommand) -> set[str]:
    if command.terminal:
        return {"terminal"}
    return {"stdin", "stdout", "stderr"} if wants_stdin(command) else {"stdout", "stderr"}


def _stdin(command: SandboxCommand, ends: Mapping[str, int]) -> Input | None:
    """Our end of the command's input; a terminal's is a second descriptor of the one its output comes from."""
    if "terminal" in ends:
        descriptor = os.dup(ends["terminal"])
        return Input(descriptor, command.stdin_bytes, keep_open=command.keep_stdin_open, terminal=True)
    if "stdin" in ends:
        return Input(ends["stdin"], command.stdin_bytes, keep_open=command.keep_stdin_open)
    return None
