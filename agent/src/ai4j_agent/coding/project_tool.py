"""The `run_tests` tool: finds out what kind of project it is and runs its tests, whatever they are written in."""

from __future__ import annotations

import json
import posixpath
import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ai4j_agent.errors import ToolError
from ai4j_agent.permission import ToolEffect
from ai4j_sandbox.artifacts import collect_artifacts
from ai4j_sandbox.errors import SandboxException, SandboxFileError, SandboxNotFoundError, SandboxOutputLimitError
from ai4j_sandbox.files import FileKind
from ai4j_sandbox.globs import glob_regex
from ai4j_sandbox.model import SandboxArtifact, SandboxCommand

from .bash_tool import command_facts
from .junit import ReportError, TestCounts, parse_report, sum_counts
from .workbench import RESULTS, ToolDefinition, Workbench, integer, text, texts

_REPORT_BYTES = 10_000_000
_MARKER_BYTES = 1_000_000
_MOST_FAILURES = 50
_LEFT_BEHIND = ("coverage.xml", "coverage/lcov.info", "coverage.out", "*.log")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectKind:
    """How the tests of one kind of project are run.

    Attributes:
        marker: File that tells the kind.
        accepts: Whether the marker's content does; ``None`` where its name is enough.
        command: Makes the argument list of a report's path and the caller's own arguments.
        reports: Patterns of the JUnit reports, relative to the project; ``{report}`` is the path given to `command`.
    """

    name: str
    marker: str
    command: Callable[[str, Sequence[str]], Sequence[str]]
    reports: tuple[str, ...] = ()
    accepts: Callable[[str], bool] | None = None


def _names_a_test_script(content: str) -> bool:
    try:
        return bool(json.loads(content)["scripts"]["test"])
    except (ValueError, KeyError, TypeError):
        return False


def _pytest(report: str, arguments: Sequence[str]) -> Sequence[str]:
    return ("python3", "-m", "pytest", f"--junitxml={report}", *arguments)


_NAMED_REPORT = ("{report}",)

PROJECT_KINDS = (
    ProjectKind(name="pytest", marker="pyproject.toml", command=_pytest, reports=_NAMED_REPORT),
    ProjectKind(name="pytest", marker="pytest.ini", command=_pytest, reports=_NAMED_REPORT),
    ProjectKind(name="pytest", marker="setup.py", command=_pytest, reports=_NAMED_REPORT),
    ProjectKind(
        name="maven",
        marker="pom.xml",
        command=lambda report, arguments: ("mvn", "--batch-mode", "--quiet", "test", *arguments),
        reports=("target/surefire-reports/TEST-*.xml", "*/target/surefire-reports/TEST-*.xml"),
    ),
    ProjectKind(
        name="go",
        marker="go.mod",
        command=lambda report, arguments: ("go", "test", *(arguments or ("./...",))),
    ),
    ProjectKind(name="cargo", marker="Cargo.toml", command=lambda report, arguments: ("cargo", "test", *arguments)),
    ProjectKind(
        name="npm",
        marker="package.json",
        accepts=_names_a_test_script,
        command=lambda report, arguments: ("npm", "test", *(("--", *arguments) if arguments else ())),
        reports=("junit.xml", "reports/junit.xml", "test-results/junit.xml"),
    ),
    ProjectKind(
        name="make",
        marker="Makefile",
        accepts=lambda content: bool(re.search(r"^test\s*:", content, re.MULTILINE)),
        command=lambda report, arguments: ("make", "test", *arguments),
    ),
)
"""In the order in which they are looked for."""


def run_tests(
    work: Workbench,
    *,
    path: str = ".",
    arguments: list[str] | None = None,
    command: str | None = None,
    timeout_ms: int | None = None,
) -> dict[str, Any]:
    """Run a project's tests and return the command's facts, the counts and the failing tests."""
    directory = work.rules.readable(work.workspace, path)
    kind = _required_kind(work, directory, path, command)
    report = f"{RESULTS}/junit-{uuid.uuid4().hex[:12]}.xml"
    patterns = tuple(pattern.format(report=report) for pattern in kind.reports)
    _prepare(work, directory, kind)
    wanted = SandboxCommand(
        command=command or kind.command(report, arguments or ()),
        working_directory=directory,
        environment={"CI": "1"},
        timeout_millis=timeout_ms or work.limits.test_timeout_millis,
        artifacts=(*patterns, *_LEFT_BEHIND),
        output_limit_bytes=work.limits.output_bytes,
    )
    result = work.execute(wanted)
    reports = [artifact for artifact in result.artifacts if _is_report(artifact, directory, patterns)]
    return {"project": kind.name, **_counts(work, reports), **command_facts(work, wanted, result)}


def detected_kind(work: Workbench, directory: str) -> ProjectKind | None:
    """Return the kind of the project in a directory."""
    names = {info.name for info in work.workspace.files.list(directory) if info.kind is not FileKind.DIRECTORY}
    for kind in PROJECT_KINDS:
        if kind.marker in names and _accepts(work, kind, posixpath.join(directory, kind.marker)):
            return kind
    return None


def _required_kind(work: Workbench, directory: str, path: str, command: str | None) -> ProjectKind:
    kind = detected_kind(work, directory)
    if kind is not None:
        return kind
    if command is None:
        known = ", ".join(dict.fromkeys(item.marker for item in PROJECT_KINDS))
        raise ToolError(f"{path} is no known kind of project (none of {known}); give command")
    return ProjectKind(name="other", marker="", command=lambda report, arguments: (), reports=("junit.xml",))


def _accepts(work: Workbench, kind: ProjectKind, marker: str) -> bool:
    if kind.accepts is None:
        return True
    try:
        return kind.accepts(work.workspace.files.read_text(marker, limit_bytes=_MARKER_BYTES))
    except (SandboxFileError, SandboxNotFoundError, SandboxOutputLimitError):
        return False  # a link that leads nowhere, no file, or not one that a person wrote


def _prepare(work: Workbench, directory: str, kind: ProjectKind) -> None:
    """Make the directory for results, and remove reports of earlier runs, which would be counted."""
    work.results_folder(directory)
    fixed = tuple(pattern for pattern in kind.reports if pattern not in _NAMED_REPORT)
    if fixed:
        look = SandboxCommand(command="true", working_directory=directory, artifacts=fixed)
        for artifact in collect_artifacts(work.workspace.start_helper, look):
            work.workspace.files.remove(str(artifact.path))


def _is_report(artifact: SandboxArtifact, directory: str, patterns: Sequence[str]) -> bool:
    relative = posixpath.relpath(str(artifact.path), directory)
    return any(glob_regex(pattern).fullmatch(relative) for pattern in patterns)


def _counts(work: Workbench, reports: Sequence[SandboxArtifact]) -> dict[str, Any]:
    """Return what the reports say; nothing is said where there are none."""
    parsed: list[TestCounts] = []
    problems: list[str] = []
    for report in reports:
        try:
            parsed.append(parse_report(work.workspace.files.read(str(report.path), limit_bytes=_REPORT_BYTES)))
        except (ReportError, SandboxException) as error:
            problems.append(f"{report.name}: {error}")
    counts = sum_counts(parsed)
    facts: dict[str, Any] = {}
    if parsed:
        facts["tests"] = {
            "total": counts.total,
            "passed": counts.passed,
            "failed": counts.failed,
            "errors": counts.errors,
            "skipped": counts.skipped,
        }
        facts["failingTests"] = [asdict(failure) for failure in counts.failures[:_MOST_FAILURES]]
    return facts | ({"unreadableReports": problems} if problems else {})


RUN_TESTS = ToolDefinition(
    name="run_tests",
    effect=ToolEffect.EXECUTES,
    description=(
        "Run a project's tests: finds out whether it is a pytest, Maven, Go, Cargo, npm or make project. Returns the "
        "exit code, the counts and failing tests where there is a JUnit report, and reports and coverage as artifacts."
    ),
    function=run_tests,
    properties={
        "path": text("Directory of the project. Default: the workspace root."),
        "arguments": texts("Arguments for the test program, such as one test's name."),
        "command": text("Shell line to run instead of the project's usual one."),
        "timeoutMs": integer("Wall-clock limit in milliseconds.", minimum=1),
    },
)
