"""One run: a sandbox is made, files go in, a command runs, artifacts come out, the sandbox is closed. Always closed.

The same for a sandbox that exists: it is attached to, and left as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ai4j_sandbox import (
    AgentSessionSandboxBinding,
    OutputStream,
    SandboxArtifact,
    SandboxCommand,
    SandboxException,
    SandboxProcess,
    SandboxResult,
    SandboxSession,
    SandboxSpec,
)
from ai4j_sandbox.deadline import Deadline

from .application import Application
from .attachment import connect
from .downloads import Download, download_artifacts, working_directory
from .failures import tell_failure
from .forwarding import InputForwarder, OutputStalled, RawOutput
from .interruption import Interruption
from .metering import MeteredFiles, host_size, transfer
from .parameters import Upload
from .rendering import progress
from .report import JobReport
from .terminal import following_size, raw_mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to do.

    Attributes:
        session_id: An existing sandbox to do it in; without one a sandbox is made, and destroyed afterwards.
        stdin: What the command reads, besides what `command` says; nothing when ``None``.
        terminal: Descriptor of our own terminal, to be lent to the command.
        download: Folder for the artifacts; they stay in the sandbox otherwise.
        show_output: Pass the command's output on as it comes.
    """

    spec: SandboxSpec
    command: SandboxCommand
    session_id: str | None = None
    uploads: tuple[Upload, ...] = ()
    stdin: BinaryIO | None = None
    terminal: int | None = None
    download: Path | None = None
    show_output: bool = True


def run_job(application: Application, job: Job) -> JobReport:
    """Do it, in a sandbox of its own or in an existing one, which stays.

    Raises:
        Interrupted: A signal came while no command ran. The sandbox is closed.
        BrokenPipeError: Nobody reads the output any more. The command is stopped and the sandbox closed.
        SandboxException: There was no sandbox, or what happened to the command is not known.
    """
    failures: list[SandboxException] = []
    with Interruption() as interruption:
        session = _open(application, job)
        session.protect(*application.secrets)  # before anything is said of the session, its labels included
        binding = AgentSessionSandboxBinding.from_session(session)
        try:
            _upload(application, session, job)
            result = _run(session, job, interruption)
            downloads = _download(application, session, job, result.artifacts)
        finally:
            with interruption.held():
                failures += _close(application, session)
    for download in downloads:
        if download.failure is not None:
            tell_failure(application, download.failure)
            failures.append(download.failure)
    return JobReport(
        binding=binding.with_status(session.status) if session.owned else binding,
        isolation=session.isolation.name,
        result=result,
        downloads=downloads,
        failures=tuple(failures),
        interrupted_by=interruption.number,
    )


def _open(application: Application, job: Job) -> SandboxSession:
    if job.session_id is not None:
        with progress(application, sys.stderr, f"attaching to {job.spec.provider_id}/{job.session_id}"):
            return connect(application, job.spec, job.session_id)
    with progress(application, sys.stderr, f"creating a sandbox with provider {job.spec.provider_id}"):
        return application.registry.create_session(job.spec)


def _upload(application: Application, session: SandboxSession, job: Job) -> None:
    for upload in job.uploads:
        message = f"uploading {upload.source} to {upload.destination}"
        with transfer(application, message, host_size(upload.source)) as moved:
            MeteredFiles(session.files, moved).upload(upload.source, upload.destination)


def _download(
    application: Application, session: SandboxSession, job: Job, artifacts: Sequence[SandboxArtifact]
) -> tuple[Download, ...]:
    if job.download is None or not artifacts:
        return ()
    base = working_directory(session, job.command)
    total = sum(artifact.size_bytes or 0 for artifact in artifacts)
    with transfer(application, f"downloading {len(artifacts)} artifacts to {job.download}", total) as moved:
        return tuple(download_artifacts(MeteredFiles(session.files, moved), artifacts, job.download, base=base))


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
            try:
                _show_output(process, lambda: interruption.number is not None or deadline.expired)
            except OutputStalled:
                pass  # the end is waited for without showing more
            except OSError:
                if interruption.number is None:  # else the terminal was closed, and the signal that told it counts
                    raise
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
