"""The `run_tests` tool: what kind of project it is, what came out, what was left behind."""

from __future__ import annotations

import pytest

from ai4j_agent.coding.project_tool import detected_kind
from support.coding_bench import Bench

REPORT = '<testsuite><testcase name="a"/><testcase name="b"><failure message="no"/></testcase></testsuite>'


@pytest.mark.parametrize(
    ("marker", "content", "kind"),
    [
        ("pyproject.toml", "", "pytest"),
        ("pytest.ini", "", "pytest"),
        ("pom.xml", "<project/>", "maven"),
        ("go.mod", "module x", "go"),
        ("Cargo.toml", "", "cargo"),
        ("package.json", '{"scripts": {"test": "node --test"}}', "npm"),
        ("package.json", '{"scripts": {}}', None),
        ("package.json", "broken", None),
        ("Makefile", "all:\n\ttrue\ntest: all\n\ttrue\n", "make"),
        ("Makefile", "all:\n\ttrue\n", None),
        ("notes.txt", "", None),
    ],
)
def test_the_kind_of_a_project_is_told_by_its_files(bench: Bench, marker: str, content: str, kind: str | None) -> None:
    bench.put(marker, content)

    found = detected_kind(bench.workbench, bench.workspace.root)

    assert (found.name if found else None) == kind


def test_a_python_project_s_tests_run_with_counts_and_report(bench: Bench) -> None:
    if bench.call("bash", action="exec", command="python3 -m pytest --version")["exitCode"] != 0:
        pytest.skip("there is no pytest for programs of this place")
    bench.put("lib/pyproject.toml", "[tool.pytest.ini_options]\n")
    bench.put("lib/test_it.py", "def test_good(): pass\ndef test_bad(): assert 1 == 2\n")

    facts = bench.call("run_tests", path="lib")

    assert (facts["project"], facts["exitCode"]) == ("pytest", 1)
    assert facts["tests"] == {"total": 2, "passed": 1, "failed": 1, "errors": 0, "skipped": 0}
    assert [failure["name"] for failure in facts["failingTests"]] == ["test_it::test_bad"]
    assert [artifact["mimeType"] for artifact in facts["artifacts"]] == ["text/xml"]
    narrowed = bench.call("run_tests", path="lib", arguments=["-k", "good"])
    assert (narrowed["exitCode"], narrowed["tests"]["passed"]) == (0, 1)


def test_a_make_project_s_tests_run(bench: Bench) -> None:
    bench.put("Makefile", "test:\n\t@echo testing; exit 3\n")

    facts = bench.call("run_tests")

    assert (facts["project"], facts["exitCode"], facts["stdout"]) == ("make", 2, "testing\n")
    assert "tests" not in facts


def test_reports_of_earlier_runs_are_not_counted(bench: Bench) -> None:
    bench.put("pom.xml", "<project/>")
    bench.put("target/surefire-reports/TEST-old.xml", REPORT)
    bench.put("a/target/surefire-reports/TEST-old.xml", REPORT)
    made = f"mkdir -p a/target/surefire-reports; echo '{REPORT}' > a/target/surefire-reports/TEST-new.xml"

    facts = bench.call("run_tests", command=made)

    assert facts["tests"] == {"total": 2, "passed": 1, "failed": 1, "errors": 0, "skipped": 0}
    assert facts["failingTests"] == [{"name": "b", "kind": "failure", "message": "no"}]


def test_a_report_that_cannot_be_read_is_told(bench: Bench) -> None:
    facts = bench.call("run_tests", command="echo broken > junit.xml; echo x > run.log")

    assert "tests" not in facts
    assert facts["unreadableReports"][0].startswith("junit.xml: the report is no XML")
    assert [artifact["name"] for artifact in facts["artifacts"]] == ["junit.xml", "run.log"]


def test_tests_that_hang_are_stopped(bench: Bench) -> None:
    facts = bench.call("run_tests", command="echo begun; sleep 60", timeoutMs=300)

    assert (facts["timedOut"], facts["stdout"]) == (True, "begun\n")


def test_an_unknown_project_needs_a_command(bench: Bench) -> None:
    assert "is no known kind of project" in bench.refusal("run_tests")


def test_the_folder_for_results_leads_nobody_out(bench: Bench) -> None:
    bench.sh("ln -s /tmp .ai4j")

    assert "through a symlink" in bench.refusal("run_tests", command="true")


def test_what_a_run_leaves_behind_is_no_business_of_git(bench: Bench) -> None:
    bench.sh("git init -q .")

    bench.call("run_tests", command="true")

    assert bench.call("git", action="status")["stdout"].splitlines()[1:] == []


@pytest.mark.parametrize(
    "make", ["mkdir pyproject.toml", "ln -s nowhere package.json", "truncate -s 2M package.json", "mkfifo Makefile"]
)
def test_a_marker_that_nobody_wrote_is_none(bench: Bench, make: str) -> None:
    bench.sh(make)

    assert detected_kind(bench.workbench, bench.workspace.root) is None
