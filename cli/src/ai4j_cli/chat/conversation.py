"""The chat itself: lines in, answers out. It knows no terminal and reads no option.

Ctrl-C while the model works stops what runs and gives the prompt back; at the prompt it abandons the line. Whatever
goes wrong is told and the chat goes on; only the end of the input, ``/quit`` and a stop signal end it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from ai4j_agent import Agent, AgentError, AgentPermissionError, AgentSession, SandboxDetachedError, StopReason
from ai4j_cli.application import Application
from ai4j_cli.interruption import Interrupted, signals_deferred
from ai4j_cli.rendering import one_line
from ai4j_sandbox import (
    SandboxCommand,
    SandboxConfigError,
    SandboxException,
    SandboxNotFoundError,
    SandboxStatus,
    Scrubber,
)

from .completion import CHAT_COMMANDS
from .console import ChatConsole, tell
from .directive import USAGE, DirectiveError, SandboxAction, SandboxDirective, parse_directive
from .journal import Execution, Journal
from .link import LiveSandbox, SandboxLink
from .probe import Probe, probe
from .status import direct_host_lines, short_status, status_lines

_LOG_LINES = 20
_ARTIFACT_MILLIS = 60_000
_ENDINGS: Mapping[StopReason, str] = {
    StopReason.CUT_OFF: "the answer was cut off by the model's own limit",
    StopReason.MAX_STEPS: "stopped: the limit of steps is reached",
    StopReason.MAX_TOOL_CALLS: "stopped: the limit of tool calls is reached",
    StopReason.TIMEOUT: "stopped: the time is up",
}
_TOOL_FAILURES: Mapping[str | None, str] = {AgentPermissionError.__name__: "not allowed"}


class Chat:
    """One chat.

    Args:
        application: Where providers come from.
        agent: Who answers.
        session: The agent session to go on with.
        console: Where it takes place.
        opening: Opens the sandbox to begin in.
    """

    def __init__(
        self,
        application: Application,
        agent: Agent,
        session: AgentSession,
        console: ChatConsole,
        opening: Callable[[], LiveSandbox] | None = None,
    ) -> None:
        self._application = application
        self._agent = agent
        self._session = session
        self._console = console
        self._opening = opening
        self._journal = Journal(session, self._show_call, self._show_failure)
        self._at_line_start = True
        self._streamed = False
        session.subscribe(self._journal.agent_event)
        self.link = SandboxLink(application, session, self._journal)
        self._actions: Mapping[SandboxAction, Callable[[SandboxDirective], None]] = {
            SandboxAction.STATUS: lambda directive: self._show_status("sandbox:"),
            SandboxAction.ENABLE: self._open,
            SandboxAction.ATTACH: self._open,
            SandboxAction.DISABLE: lambda directive: self._disable(),
            SandboxAction.ARTIFACTS: self._show_artifacts,
            SandboxAction.LOGS: self._show_logs,
        }

    def run(self) -> bool:
        """Chat until the end, then close and save.

        Returns:
            Whether everything could be closed and saved.

        Raises:
            Interrupted: A stop signal came. Everything is closed and saved.
            SandboxException, AgentError: The sandbox to begin in could not be opened.
        """
        try:
            if self._opening is not None:
                self.link.adopt(self._opening())
            self._welcome()
            while self._turn():
                pass
        finally:
            with signals_deferred():
                ended_well = self._end()
        return ended_well

    def handle(self, line: str) -> bool:
        """Act on one line; whether the chat goes on."""
        line = line.strip()
        command, _, argument = line.partition(" ")
        match command.lower():
            case "":
                pass
            case "/quit" | "/exit":
                return False
            case "/help":
                self._tell(*help_lines())
            case "/status":
                self._tell(f"session={self._session.session_id}", f"sandbox={short_status(self._session, self.link)}")
            case "/sandbox":
                self._sandbox(argument)
            case word if word.startswith("/"):
                self._tell(f"Unknown command {word}; /help shows what there is")
            case _:
                self._ask(line)
        return True

    # --- the loop -------------------------------------------------------------------------------------------------

    def _turn(self) -> bool:
        try:
            line = self._console.read(short_status(self._session, self.link))
            return line is not None and self.handle(line)
        except Interrupted:
            raise
        except KeyboardInterrupt:
            self._tell("interrupted")
            return True

    def _welcome(self) -> None:
        where = short_status(self._session, self.link)
        self._tell(f"ai4j chat: model {self._agent.model}, sandbox {where}. /help shows what can be typed.")
        if self._session.sandbox_binding is not None and self.link.live is None:
            self._show_status("sandbox:")

    def _end(self) -> bool:
        problems = self.link.close()
        try:
            self._session.close()
            if self._session.messages:
                self._session.save()
                self._tell(f"session {self._session.session_id} is saved")
        except (AgentError, SandboxException) as error:
            problems.append(error.message)
        self._tell(*(f"warning: {problem}" for problem in problems))
        return not problems

    def _ask(self, text: str) -> None:
        self._streamed = False
        try:
            result = self._agent.run(text, session=self._session, on_text=self._stream)
        except SandboxDetachedError as error:
            hint = "/sandbox attach PROVIDER ID goes on in a sandbox, /sandbox disable on this machine"
            again = "" if self.link.live is None else "/sandbox status looks whether it is well again, "
            self._tell(f"error: {error.message}", f"hint: {again}{hint}")
        except (AgentError, SandboxException) as error:
            self._tell_failure("error", error)
        else:
            if not self._streamed:
                self._stream(result.output)
            self._tell(*filter(None, [_ENDINGS.get(result.stop_reason)]))
        self._finish_line()

    # --- /sandbox -------------------------------------------------------------------------------------------------

    def _sandbox(self, argument: str) -> None:
        try:
            directive = parse_directive(argument)
        except DirectiveError as error:
            self._tell(str(error))
            return
        self._actions[directive.action](directive)

    def _open(self, directive: SandboxDirective) -> None:
        name = directive.action.value
        try:
            warnings = self.link.open(directive)
        except (SandboxException, AgentError) as error:
            if isinstance(error, SandboxNotFoundError) and error.hint is None:
                error.hint = f"ai4j sandbox ls --all --provider {directive.provider_id} shows what there is"
            self._tell_failure(f"Sandbox {name} failed", error)
            self._tell(f"unchanged: sandbox={short_status(self._session, self.link)}")
            return
        self._show_status("sandbox attached:" if directive.action is SandboxAction.ATTACH else "sandbox enabled:")
        self._tell(*(f"- closeWarning={warning}" for warning in warnings))

    def _disable(self) -> None:
        previous = self._session.sandbox_binding
        if previous is None and not self.link.has_unclosed:
            self._show_status("sandbox:")
            return
        try:
            problems = self.link.disable()
        except (SandboxException, AgentError) as error:
            self._tell_failure("Sandbox disable failed; it is still active", error)
            return
        facts = direct_host_lines()
        if previous is not None:
            facts += [f"previousProvider={previous.provider_id}", f"previousSession={previous.sandbox_session_id}"]
        facts += [f"closeWarning={problem}; /sandbox disable tries again" for problem in problems]
        self._tell("sandbox disabled:", *(f"- {fact}" for fact in facts))

    def _show_status(self, head: str) -> None:
        seen = None if self.link.live is None else self._probe(self.link.live)
        now_ms = time.time_ns() // 1_000_000
        self._tell(head, *status_lines(self._session, self.link, self._journal, seen, now_ms))

    def _probe(self, live: LiveSandbox) -> Probe:
        """Look at the sandbox; while it is found unusable the session executes nothing."""
        seen = probe(self._application, live.sandbox)
        status = live.sandbox.status if seen.problem is None else SandboxStatus.FAILED
        binding = self._session.sandbox_binding
        if binding is not None and binding.status is not status:
            self._session.update_sandbox_status(status)
        return seen

    def _show_artifacts(self, directive: SandboxDirective) -> None:
        live = self.link.live
        if live is None:
            self._tell("no sandbox is active, so there are no artifacts")
            return
        try:
            found = live.sandbox.list_artifacts()
            if directive.patterns:
                command = SandboxCommand(
                    command=("true",), artifacts=directive.patterns, timeout_millis=_ARTIFACT_MILLIS
                )
                result = live.sandbox.execute(command)
                if result.artifacts_error is not None:
                    self._tell(f"error: {result.artifacts_error}")
                    return
                found = list(result.artifacts)
        except (SandboxException, SandboxConfigError) as error:
            self._tell_failure("error", error)
            return
        lines = [f"- {item.path} ({item.size_bytes} bytes, sha256 {item.sha256})" for item in found]
        address = f"{live.sandbox.provider_id}/{live.sandbox.session_id}"
        hint = [f"fetch one with: ai4j sandbox cp {address}:PATH ."] if lines else []
        self._tell("artifacts:", *(lines or ["- none; /sandbox artifacts GLOB looks for files"]), *hint)

    def _show_logs(self, directive: SandboxDirective) -> None:
        lines = self._journal.lines(directive.lines or _LOG_LINES)
        self._tell("sandbox logs:", *(lines or ["(nothing happened yet)"]))

    # --- showing --------------------------------------------------------------------------------------------------

    # The two that follow are called by the agent, which takes no exception. An output that is gone shows at the next
    # thing we write ourselves.

    def _show_call(self, execution: Execution) -> None:
        with suppress(OSError):
            self._tell(f"[{execution.tool} in {execution.place}]")

    def _show_failure(self, tool: str, kind: str | None, reason: str) -> None:
        known = self._agent.runner.tools.find(tool) is not None
        why = _TOOL_FAILURES.get(kind, reason) if known else "there is no such tool"
        with suppress(OSError):
            self._tell(one_line(f"[{tool} failed: {why}]"))

    def _stream(self, text: str) -> None:
        """Show what the model says: its own words, of which only known secrets are masked."""
        if text:
            self._streamed = True
            self._console.write(Scrubber(self._application.secrets).text(text) if self._application.secrets else text)
            self._at_line_start = text.endswith("\n")

    def _finish_line(self) -> None:
        if not self._at_line_start:
            self._console.write("\n")
            self._at_line_start = True

    def _tell_failure(self, head: str, error: SandboxException | AgentError) -> None:
        self._finish_line()
        hint = [f"hint: {error.hint}"] if error.hint else []
        self._tell(f"{head}: {error.message}", *hint)

    def _tell(self, *lines: str) -> None:
        self._finish_line()
        tell(self._console, map(self._application.masked, lines))


def help_lines() -> list[str]:
    """Return what can be typed."""
    commands = [f"{name:<10} {about}" for name, about in CHAT_COMMANDS.items()]
    options = (
        "options: --workspace X, --image X, --sandbox-id X, --config KEY=VALUE, --delete-on-close, --keep-on-close, "
        "--create-if-missing, --no-create-if-missing"
    )
    return ["Whatever does not begin with / goes to the model.", *commands, *USAGE.values(), options]
