"""The `bash` tool: commands in the foreground and in the background, in the workspace wherever it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ai4j_agent.errors import ToolError
from ai4j_agent.permission import ToolEffect
from ai4j_sandbox.model import SandboxArtifact, SandboxCommand, SandboxResult

from .background import DEFAULT_PAGE, new_process_id
from .output_view import shown
from .workbench import ToolDefinition, Workbench, integer, text, texts, variables

ACTIONS = ("exec", "start", "status", "logs", "write", "stop", "list")

_METADATA = {"tool": "bash", "routing": "ai4j-coding"}


def bash(
    work: Workbench,
    *,
    action: str = "exec",
    command: str | None = None,
    cwd: str = ".",
    timeout_ms: int | None = None,
    input: str | None = None,
    environment: Mapping[str, str] | None = None,
    artifacts: list[str] | None = None,
    process_id: str | None = None,
    offset: int = 0,
    limit: int = DEFAULT_PAGE,
) -> Any:
    """Do one of the `ACTIONS`."""
    match action.strip() or "exec":
        case "exec":
            wanted = _command(
                work,
                command,
                cwd,
                stdin=input,
                environment=environment or {},
                artifacts=artifacts or (),
                timeout_millis=timeout_ms or work.limits.command_timeout_millis,
                output_limit_bytes=work.limits.output_bytes,
            )
            return command_facts(work, wanted, work.execute(wanted))
        case "start":
            wanted = _command(
                work,
                command,
                cwd,
                stdin=input,
                keep_stdin_open=True,
                environment=environment or {},
                timeout_millis=timeout_ms,
                output_limit_bytes=0,  # the log keeps it
                command_id=new_process_id(),
            )
            work.protect(wanted.environment)
            return work.background.start(work.workspace, wanted)
        case "status":
            return work.background.status(work.workspace, _required("processId", process_id))
        case "logs":
            return work.background.logs(work.workspace, _required("processId", process_id), offset, limit)
        case "write":
            return work.background.write(
                work.workspace, _required("processId", process_id), _required("input", input, blank=True)
            )
        case "stop":
            return work.background.stop(work.workspace, _required("processId", process_id))
        case "list":
            return {"processes": work.background.list()}
        case other:
            raise ToolError(f"unknown action {other!r}; there are: {', '.join(ACTIONS)}")


def command_facts(work: Workbench, command: SandboxCommand, result: SandboxResult) -> dict[str, Any]:
    """Return a result as a model reads it; what is not known is left out, except the exit code: it is ``null`` then."""
    facts: dict[str, Any] = {
        "command": command.shell_line(),
        "workingDirectory": command.working_directory,
        **work.workspace.place,
        "stdout": shown(result.stdout),
        "stderr": shown(result.stderr),
        "timedOut": result.timed_out,
        "canceled": result.canceled,
        "signal": result.signal,
        "truncated": result.truncated,
        "artifacts": [artifact_facts(artifact) for artifact in result.artifacts],
        "artifactsError": result.artifacts_error,
        "durationMillis": result.duration_millis,
        "hint": _hint(result, command),
    }
    known = {name: value for name, value in facts.items() if value is not None}
    return dict(sorted({**known, "exitCode": result.exit_code}.items()))


def artifact_facts(artifact: SandboxArtifact) -> dict[str, Any]:
    """Return an artifact as a model reads it."""
    facts = {
        "name": artifact.name,
        "path": artifact.path,
        "mimeType": artifact.mime_type,
        "sizeBytes": artifact.size_bytes,
        "sha256": artifact.sha256,
    }
    return {name: value for name, value in facts.items() if value is not None}


def _command(work: Workbench, command: str | None, cwd: str, **options: Any) -> SandboxCommand:
    return SandboxCommand(
        command=_required("command", command),
        working_directory=work.rules.readable(work.workspace, cwd),
        metadata=_METADATA,
        **options,
    )


def _required(name: str, value: str | None, *, blank: bool = False) -> str:
    if value is None or not (blank or value.strip()):
        raise ToolError(f"this action of bash needs {name}")
    return value


def _hint(result: SandboxResult, command: SandboxCommand) -> str | None:
    if result.timed_out:
        return (
            f"stopped after {command.timeout_millis} ms; give a longer timeoutMs, or run what does not end by itself "
            "with bash action=start"
        )
    if result.exit_code is None and not result.canceled:
        return "the exit code is not known: do not take the command for successful"
    return None


BASH = ToolDefinition(
    name="bash",
    effect=ToolEffect.EXECUTES,
    description=(
        "Run a shell command (/bin/sh -c) in the workspace. action=exec waits for its end; action=start runs it in the "
        "background and returns a processId for status, logs, write, stop. Every exec is a new shell: use cwd, not cd. "
        "Nothing answers prompts; give input where a command reads some."
    ),
    function=bash,
    properties={
        "action": text("What to do. Default exec."),
        "command": text("exec, start: the shell line."),
        "cwd": text("exec, start: directory below the workspace root to run in. Default: the root."),
        "timeoutMs": integer("exec, start: wall-clock limit in milliseconds.", minimum=1),
        "input": text("exec, start: what the command reads from stdin. write: what to send to it."),
        "environment": variables("exec, start: environment variables to add."),
        "artifacts": texts("exec: glob patterns of files to report afterwards, relative to cwd (reports/**/*.xml)."),
        "processId": text("status, logs, write, stop: which background process."),
        "offset": integer("logs: first character to return. Default 0; go on with nextOffset."),
        "limit": integer(f"logs: how many characters to return. Default {DEFAULT_PAGE}.", minimum=1),
    },
)
