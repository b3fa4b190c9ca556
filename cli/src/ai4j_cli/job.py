"""One run: a sandbox is made, files go in, a command runs, artifacts come out, the sandbox is closed. Always closed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ai4j_sandbox import (
    AgentSessionSandboxBinding,
    OutputStream,
    SandboxCommand,
    SandboxException,
    SandboxProcess,
    SandboxResult,
    SandboxSession,
    SandboxSpec,
)
from ai4j_sandbox.deadline import Deadline

from .application import Application
from .downloads import Download, download_artifacts, working_directory
from .failures import ExitCode, describe_failure, tell_failure
from .forwarding import InputForwarder, OutputStalled, RawOutput
from .interruption import Interruption
from .parameters import Upload
from .rendering import progress
from .terminal import following_size, raw_mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to do.

    Attributes:
        stdin: What the command reads, besides what `command` says; nothing when ``None``.
        terminal: Descriptor of our own terminal, to be lent to the command.
        download: Folder for the artifacts; they stay in the sandbox otherwise.
        show_output: Pass the command's output on as it comes.
    """

    spec: SandboxSpec
    command: SandboxCommand
    uploads: tuple[Upload, ...] = ()
    stdin: BinaryIO | None = None
    terminal: int | None = None
    download: Path | None = None
    show_output: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """What became of it.

    Attributes:
        binding: The session, without secrets, as an agent would remember it.
        isolation: The isolation that was in force.
        failures: What went wrong besides the command.
        interrupted_by: Number of the signal that asked us to stop.
    """

    binding: AgentSessionSandboxBinding
    isolation: str
    result: SandboxResult
    downloads: tuple[Download, ...]
    failures: tuple[SandboxException, ...]
    interrupted_by: int | None

    @property
    def exit_code(self) -> int:
        """The exit code for the whole: the command's own where it has one that says how the run went."""
        if self.interrupted_by is not None:
            return 128 + self.interrupted_by
        if self.result.timed_out:
            return ExitCode.TIMED_OUT
        if self.result.canceled:
            return ExitCode.INTERRUPTED
        code = self.result.exit_code
        if code is None or not 0 <= code <= 255 or (code == 0 and self.failures):
            return ExitCode.FAILED
        return code

    def document(self, application: Application) -> dict[str, Any]:
        """Return the report as JSON-ready data."""
        from ai4j_sandbox.schema import dump

        return {
            "session": self.binding.to_dict(),
            "isolation": self.isolation,
            "result": dump(self.result),
            "downloads": [
                {"artifact": download.artifact.path, "file": str(download.path)}
                for download in self.downloads
                if download.path
            ],
            "failures": [describe_failure(application, failure) for failure in self.failures],
            "exitCode": self.exit_code,
        }


def run_job(application: Application, job: Job) -> JobReport:
    """Do it, in a sandbox of its own.

    Raises:
        Interrupted: A signal came while no command ran. The sandbox is closed.
        BrokenPipeError: Nobody reads the output any more. The command is stopped and the sandbox closed.
        SandboxException: There was no sandbox, or what happened to the command is not known.
    """
    failures: list[SandboxException] = []
    downloads: tuple[Download, ...] = ()
    with Interruption() as interruption:
        session = _create(application, job)
        binding = AgentSessionSandboxBinding.from_session(session)
        try:
            session.protect(*application.secrets)
            _upload(application, session, job)
            result = _run(session, job, interruption)
            if job.download is not None and result.artifacts:
                base = working_directory(session, job.command)
                downloads = tuple(download_artifacts(session, result.artifacts, job.download, base=base))
        finally:
            with interruption.held():
                failures += _close(application, session)
    for download in downloads:
        if download.failure is not None:
            tell_failure(application, download.failure)
            failures.append(download.failure)
    return JobReport(
        binding=binding.with_status(session.status),
        isolation=session.isolation.name,
        result=result,
        downloads=downloads,
        failures=tuple(failures),
        interrupted_by=interruption.number,
    )


def _create(application: Application, job: Job) -> SandboxSession:
    with progress(application, sys.stderr, f"creating a sandbox with provider {job.spec.provider_id}"):
        return application.registry.create_session(job.spec)


def _upload(application: Application, session: SandboxSession, job: Job) -> None:
    for upload in job.uploads:
        with progress(application, sys.stderr, f"uploading {upload.source} to {upload.destination}"):
            session.files.upload(upload.source, upload.destination)


def _close(application: Application, session: SandboxSession) -> list[SandboxException]:
    try:
        session.close()
    except SandboxException as failure:
        tell_failure(application, failure)
        return [failure]
    return []


def _run(session: SandboxSession, job: Job, interruption: Interruption) -> SandboxResult:
    deadline = Deadline.after_millis(job.command.timeout_millis)
    with session.start(job.command) as process, interruption.watching(process), ExitStack() as attached:
        forwarder = _attach(attached, job, process)
        if job.show_output:
            with suppress(OutputStalled):  # then the end is waited for without showing more
                _show_output(process, lambda: interruption.number is not None or deadline.expired)
        result = process.wait()
    if forwarder is not None and forwarder.failure is not None and interruption.number is None:
        raise forwarder.failure
    return result


def _attach(attached: ExitStack, job: Job, process: SandboxProcess) -> InputForwarder | None:
    """Connect the command to our input, or to the whole terminal."""
    if job.terminal is not None:
        attached.enter_context(raw_mode(job.terminal))
        attached.enter_context(following_size(job.terminal, process))
    return attached.enter_context(InputForwarder(job.stdin, process)) if job.stdin is not None else None


def _show_output(process: SandboxProcess, give_up: Callable[[], bool]) -> None:
    outputs = {
        OutputStream.STDOUT: RawOutput(sys.stdout, give_up),
        OutputStream.STDERR: RawOutput(sys.stderr, give_up),
    }
    for chunk in process.output():
        outputs[chunk.stream].write(chunk.data)
