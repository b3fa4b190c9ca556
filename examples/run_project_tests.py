"""The main job: run a real project's tests in a sandbox and bring back what an agent needs to go on.

Uploads `examples/wordcount` into a `local` sandbox, runs its tests twice with live output (all of them, of which one
fails on purpose, then all but that one), fetches the report and the log with their digests, and shows the binding that
an agent session would store. Secrets planted where secrets live must be in none of what was shown or kept.

    python examples/run_project_tests.py [folder for the artifacts]

Exit code 0 when everything went as described.
"""

from __future__ import annotations

import codecs
import hashlib
import io
import json
import os
import secrets
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TextIO

import pytest

from ai4j_sandbox import (
    AgentSessionSandboxBinding,
    OutputStream,
    SandboxCommand,
    SandboxEvent,
    SandboxResult,
    SandboxSession,
    SandboxSpec,
    default_registry,
)

ROOT = Path(__file__).parents[1]
PROJECT = ROOT / "examples" / "wordcount"
PACKAGES = "/opt/packages"  # where the sandbox sees the packages of this environment, pytest among them
EXPECTED_FAILURE = "test_a_typographic_apostrophe_belongs_to_its_word"


class Unexpected(Exception):
    """Something is not as this example promises."""


class Recorder(io.TextIOBase):
    """Passes text on and remembers it."""

    def __init__(self, stream: TextIO) -> None:
        self.text = ""
        self._stream = stream

    def write(self, text: str) -> int:
        """Write and remember."""
        self.text += text
        self._stream.write(text)
        self._stream.flush()
        return len(text)


class Canaries:
    """Secrets that exist only to be searched for."""

    def __init__(self) -> None:
        self.host = f"canary-host-{secrets.token_hex(12)}"
        self.config = f"canary-config-{secrets.token_hex(12)}"
        self.command = f"canary-command-{secrets.token_hex(12)}"
        self.label = f"canary-label-{secrets.token_hex(12)}"

    def found_in(self, *texts: str) -> list[str]:
        """Return the names of those that are in any of the texts."""
        return [name for name, value in vars(self).items() if any(value in text for text in texts)]


def main(folder: Path) -> int:
    """Do the job; return the exit code."""
    started = time.monotonic()
    canaries = Canaries()
    with recorded() as recorder:
        try:
            kept = work(folder, canaries)
        except Unexpected as error:
            print(f"\nUNEXPECTED: {error}")
            return 1
    leaks = canaries.found_in(recorder.text, *kept)
    if leaks:
        print(f"\nUNEXPECTED: the {' and '.join(leaks)} secret was shown or kept")
        return 1
    shown = f"{len(recorder.text)} characters shown and {sum(map(len, kept))} kept"
    print(f"secrets    {len(vars(canaries))} planted, none of them in the {shown}")
    print(f"done       in {time.monotonic() - started:.1f} s, artifacts in {folder}")
    return 0


@contextmanager
def recorded() -> Iterator[Recorder]:
    """Remember everything that is printed inside the block, tracebacks included."""
    recorder = Recorder(sys.stdout)
    with redirect_stdout(recorder), redirect_stderr(recorder):
        yield recorder


def work(folder: Path, canaries: Canaries) -> list[str]:
    """Run the tests in a sandbox; return everything that an agent would keep of it, as text."""
    os.environ["WORDCOUNT_API_TOKEN"] = canaries.host
    with default_registry().create_session(sandbox_spec(canaries)) as session:
        print(f"sandbox    {session.session_id} of provider {session.provider_id}, isolation {session.isolation.name}")
        session.files.upload(PROJECT, "wordcount")
        print(f"uploaded   {PROJECT.relative_to(ROOT)}")

        first = run_tests(session, canaries, [])
        report = download(session, first, folder)
        failed = failed_tests(report)
        require(first.exit_code == 1, f"pytest was to end with 1, a failed test, not with {first.exit_code}")
        require([name for _, name in failed] == [EXPECTED_FAILURE], f"another test failed: {failed}")

        second = run_tests(session, canaries, [f"--deselect=tests/{file}.py::{name}" for file, name in failed])
        require(second.exit_code == 0, f"without that test pytest was to end with 0, not with {second.exit_code}")

        require_blindness(session, canaries)
        binding = AgentSessionSandboxBinding.from_session(session)
    binding = binding.with_status(session.status)
    stored = json.dumps(binding.to_dict(), indent=2)
    print(f"binding    {stored}")
    return [stored, repr(session), repr(session.spec), *(repr(part) for run in (first, second) for part in kept(run))]


def sandbox_spec(canaries: Canaries) -> SandboxSpec:
    """Describe the sandbox: no network, and read-only the packages of this environment."""
    packages = Path(pytest.__file__).parents[1]
    return SandboxSpec(
        provider_id="local",
        profile="project-tests",
        labels={"project": "wordcount", "apiToken": canaries.label},
        config={
            "mounts": [{"source": str(packages), "target": PACKAGES, "mode": "ro"}],
            "env": {"PYTHONPATH": PACKAGES, "PYTHONDONTWRITEBYTECODE": "1", "NOTE": canaries.config},
        },
    )


def run_tests(session: SandboxSession, canaries: Canaries, options: Sequence[str]) -> SandboxResult:
    """Run pytest in the project, showing its output as it comes."""
    command = SandboxCommand(
        command=[
            *("python3", "-m", "pytest", "-p", "no:cacheprovider"),
            *("--junitxml=results/report.xml", "--log-file=results/tests.log", "--log-file-level=DEBUG"),
            *options,
        ],
        working_directory="wordcount",
        environment={"SERVICE_PASSWORD": canaries.command},
        timeout_millis=60_000,
        artifacts=["results/*"],
    )
    print(f"running    {' '.join(command.command)}\n")
    result = session.execute(command, on_event=Show())
    print(f"\nresult     exit code {result.exit_code} after {result.duration_millis} ms")
    return result


class Show:
    """Prints output events; a character may be split between two of them."""

    def __init__(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = {stream: decoder("replace") for stream in OutputStream}

    def __call__(self, event: SandboxEvent) -> None:
        if event.stream is not None and event.data is not None:
            print(self._decoders[event.stream].decode(event.data), end="")


def download(session: SandboxSession, result: SandboxResult, folder: Path) -> Path:
    """Fetch the artifacts, check their digests, and return the path of the report."""
    names = [artifact.name for artifact in result.artifacts]
    require(names == ["report.xml", "tests.log"], f"a report and a log were expected, not {names}")
    for artifact in result.artifacts:
        target = folder / str(artifact.name)
        session.files.download(str(artifact.path), target)
        digest = hashlib.sha256(target.read_bytes()).hexdigest()
        require(digest == artifact.sha256, f"{artifact.path} arrived with another content")
        print(f"artifact   {artifact.path} {artifact.size_bytes} bytes {artifact.mime_type} sha256 {digest}")
    return folder / "report.xml"


def failed_tests(report: Path) -> list[tuple[str, str]]:
    """Return test module and name of each failure in a JUnit report."""
    cases = ElementTree.parse(report).iter("testcase")
    return [
        (str(case.get("classname")).rpartition(".")[2], str(case.get("name")))
        for case in cases
        if case.find("failure") is not None
    ]


def require_blindness(session: SandboxSession, canaries: Canaries) -> None:
    """Check that a command sees neither the host's environment nor the secret of an earlier command."""
    seen = session.execute(SandboxCommand(command="env; cat /proc/*/environ | tr '\\0' '\\n'")).stdout
    require("PYTHONPATH" in seen, "the environment of the sandbox cannot be read")
    require(canaries.host not in seen, "a command in the sandbox can read the host's environment")
    require(canaries.command not in seen, "a command can read the environment of an earlier one")


def kept(result: SandboxResult) -> list[object]:
    """Return what an agent keeps of a result besides the output."""
    return [result, *result.artifacts, *result.events]


def require(condition: bool, problem: str) -> None:
    """End the example when it is not as promised."""
    if not condition:
        raise Unexpected(problem)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "out" / "wordcount"))
