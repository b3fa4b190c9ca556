"""Promises about artifacts: what a command left behind and its patterns name."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from ai4j_sandbox.capability import Capability
from ai4j_sandbox.model import SandboxArtifact, SandboxEventType, SandboxResult
from ai4j_sandbox.spi import SandboxSession

from .setup import ContractSetup, require, run


class ArtifactsContract(ContractSetup):
    """`command.artifacts` and what becomes of it."""

    @pytest.fixture(autouse=True)
    def _artifacts_or_skip(self, request: pytest.FixtureRequest) -> None:
        if "artifact" in request.node.name:
            require(request.getfixturevalue("session"), Capability.ARTIFACTS)

    def test_artifacts_are_described_with_size_and_digest(self, session: SandboxSession, folder: str) -> None:
        result = run(
            session,
            "mkdir -p out && printf 'é' > out/report.xml && echo log > out/run.txt && echo no > other",
            working_directory=folder,
            artifacts=["out/*"],
        )

        assert [(item.name, item.path, item.mime_type, item.size_bytes, item.sha256) for item in result.artifacts] == [
            ("report.xml", f"{folder}/out/report.xml", "text/xml", 2, hashlib.sha256("é".encode()).hexdigest()),
            ("run.txt", f"{folder}/out/run.txt", "text/plain", 4, hashlib.sha256(b"log\n").hexdigest()),
        ]
        assert len({item.artifact_id for item in result.artifacts}) == 2

    @pytest.mark.parametrize(
        ("pattern", "names"),
        [
            ("a.txt", ["a.txt"]),
            ("*.txt", ["a.txt"]),
            ("?.txt", ["a.txt"]),
            ("**/*.txt", ["a.txt", "b c.txt", "d.txt"]),
            ("x/**/*.txt", ["b c.txt", "d.txt"]),
            ("x/[b-c]*", ["b c.txt"]),
            ("x/y/d.txt", ["d.txt"]),
            ("*.nothing", []),
            ("missing/*.txt", []),
        ],
    )
    def test_artifact_patterns(self, session: SandboxSession, folder: str, pattern: str, names: list[str]) -> None:
        command = "mkdir -p x/y .hidden && touch a.txt 'x/b c.txt' x/y/d.txt .hidden/e.txt .f.txt"

        result = run(session, command, working_directory=folder, artifacts=[pattern])

        assert [artifact.name for artifact in result.artifacts] == names

    def test_absolute_artifact_pattern(self, session: SandboxSession, folder: str) -> None:
        result = run(session, f"echo x > {folder}/abs.log", artifacts=[f"{folder}/*.log"])

        assert [artifact.path for artifact in result.artifacts] == [f"{folder}/abs.log"]

    def test_artifact_that_two_patterns_name_comes_once(self, session: SandboxSession, folder: str) -> None:
        result = run(session, "touch a.txt", working_directory=folder, artifacts=["*.txt", "a.*"])

        assert [artifact.name for artifact in result.artifacts] == ["a.txt"]

    def test_artifacts_with_odd_names(self, session: SandboxSession, folder: str) -> None:
        names = sorted(['it\'s "q"', "-n", "new\nline", "ünï", "$HOME `id`", "back\\slash"])

        result = run(session, ["touch", "--", *names], working_directory=folder, artifacts=["*"])

        assert [artifact.name for artifact in result.artifacts] == names
        assert {artifact.sha256 for artifact in result.artifacts} == {hashlib.sha256(b"").hexdigest()}

    def test_links_are_no_artifacts_and_lead_nowhere(self, session: SandboxSession, folder: str) -> None:
        command = "ln -s /etc/passwd passwd.txt && ln -s /etc etc && mkdir d && ln -s /etc d/etc && touch d/real.txt"

        result = run(session, command, working_directory=folder, artifacts=["*.txt", "etc/*", "**/*"])

        assert [artifact.path for artifact in result.artifacts] == [f"{folder}/d/real.txt"]

    def test_artifacts_are_collected_from_a_failed_command_too(self, session: SandboxSession, folder: str) -> None:
        result = run(session, "echo x > report; exit 3", working_directory=folder, artifacts=["report"])

        assert (result.exit_code, [artifact.name for artifact in result.artifacts]) == (3, ["report"])

    def test_artifacts_are_told_by_events(self, session: SandboxSession, folder: str) -> None:
        result = run(session, "touch a b", working_directory=folder, artifacts=["*"])

        told = [event.message for event in result.events if event.type is SandboxEventType.ARTIFACT_CREATED]
        assert told == [f"{folder}/a", f"{folder}/b"]

    def test_session_lists_the_artifacts_of_its_commands(self, session: SandboxSession, folder: str) -> None:
        assert session.list_artifacts() == []

        first = _touch(session, folder, "a")
        again = _touch(session, folder, "a", "b")

        listed = session.list_artifacts()
        assert sorted(listed, key=_path) == list(again.artifacts)
        assert first.artifacts[0] not in listed
        listed.clear()
        assert len(session.list_artifacts()) == 2

    def test_artifact_is_fetched_by_its_path(self, session: SandboxSession, folder: str, tmp_path: Path) -> None:
        require(session, Capability.FILES)
        (artifact,) = run(session, "seq 1 9 > nine", working_directory=folder, artifacts=["nine"]).artifacts

        session.files.download(artifact.path or "", tmp_path / "nine")

        assert hashlib.sha256((tmp_path / "nine").read_bytes()).hexdigest() == artifact.sha256


def _touch(session: SandboxSession, folder: str, *names: str) -> SandboxResult:
    return run(session, ["touch", *names], working_directory=folder, artifacts=list(names))


def _path(artifact: SandboxArtifact) -> str:
    return artifact.path or ""
