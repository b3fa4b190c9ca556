"""What became of a run: told to people or to programs, and as an exit code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ai4j_sandbox import AgentSessionSandboxBinding, SandboxException, SandboxResult

from .application import Application
from .downloads import Download
from .failures import ExitCode, describe_failure, write_json


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
        incomplete = bool(self.failures) or self.result.artifacts_error is not None
        if code is None or not 0 <= code <= 255 or (code == 0 and incomplete):
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

    def artifact_rows(self) -> list[tuple[str, ...]]:
        """Return the artifacts as cells: path, size, digest, and where each was saved."""
        saved = {download.artifact.path: str(download.path) for download in self.downloads if download.path}
        return [
            (item.path or "", str(item.size_bytes), item.sha256 or "-", saved.get(item.path, "-"))
            for item in self.result.artifacts
        ]

    def tell(self, application: Application) -> None:
        """Write the JSON document if asked for; else say what the exit code alone does not, and where artifacts are."""
        self.tell_missing_artifacts(application)
        if application.as_json:
            write_json(self.document(application))
            return
        verdict = self._verdict()
        if verdict is not None:
            application.say(verdict)
        saved = {download.artifact.path: download.path for download in self.downloads if download.path}
        for artifact in self.result.artifacts:
            where = f" -> {saved[artifact.path]}" if artifact.path in saved else ""
            application.note(f"artifact {artifact.path}{where} ({artifact.size_bytes} bytes, sha256 {artifact.sha256})")

    def tell_missing_artifacts(self, application: Application) -> None:
        """Say on stderr why there are no artifacts, if they could not be collected."""
        if self.result.artifacts_error is not None:
            application.say(f"the artifacts could not be collected: {self.result.artifacts_error}")

    def _verdict(self) -> str | None:
        code = self.result.exit_code
        if self.result.timed_out:
            return "the command was stopped: it took longer than --timeout"
        if self.result.canceled:
            return "the command was canceled"
        if self.interrupted_by is not None:
            return "interrupted after the command had ended"
        if code is None:
            return f"the exit code is not known: {self.result.status_text or 'the provider did not tell it'}"
        return None if 0 <= code <= 255 else f"the exit code {code} cannot be passed on"
