"""Reading JUnit XML reports. They come from a sandbox and are not trusted."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from dataclasses import dataclass

_MESSAGE_CHARACTERS = 500


class ReportError(ValueError):
    """The data is no JUnit report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedTest:
    """A test that did not pass.

    Attributes:
        kind: ``"failure"`` or ``"error"``.
    """

    name: str
    kind: str
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestCounts:
    """What reports say together."""

    __test__ = False  # no test class, whatever its name says to pytest

    total: int = 0
    failed: int = 0
    errors: int = 0
    skipped: int = 0
    failures: tuple[FailedTest, ...] = ()

    @property
    def passed(self) -> int:
        """How many passed."""
        return self.total - self.failed - self.errors - self.skipped

    def __add__(self, other: TestCounts) -> TestCounts:
        return TestCounts(
            total=self.total + other.total,
            failed=self.failed + other.failed,
            errors=self.errors + other.errors,
            skipped=self.skipped + other.skipped,
            failures=self.failures + other.failures,
        )


def parse_report(data: bytes) -> TestCounts:
    """Return the counts of one report, taken from its test cases.

    Raises:
        ReportError: It is no XML, or declares entities, which no test runner does.
    """
    try:
        root = ElementTree.fromstring(data, ElementTree.XMLParser(target=_PlainTree()))
    except ReportError:
        raise
    except (ElementTree.ParseError, LookupError, ValueError) as error:  # an encoding may be unknown, or several bytes
        raise ReportError(f"the report is no XML: {error}") from None
    return sum_counts(_case_counts(case) for case in root.iter("testcase"))


class _PlainTree(ElementTree.TreeBuilder):
    """Refuses a document type, in whatever encoding it is written."""

    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:
        raise ReportError("the report declares a document type")


def sum_counts(counts: Iterable[TestCounts]) -> TestCounts:
    """Return the sum."""
    return sum(counts, TestCounts())


def _case_counts(case: ElementTree.Element) -> TestCounts:
    for kind in ("failure", "error"):
        problem = case.find(kind)
        if problem is not None:
            failed = FailedTest(name=_case_name(case), kind=kind, message=_message(problem))
            return TestCounts(total=1, failed=kind == "failure", errors=kind == "error", failures=(failed,))
    return TestCounts(total=1, skipped=case.find("skipped") is not None)


def _case_name(case: ElementTree.Element) -> str:
    group, name = case.get("classname"), case.get("name") or "?"
    return f"{group}::{name}" if group else name


def _message(problem: ElementTree.Element) -> str:
    text = problem.get("message") or (problem.text or "").strip()
    return text[:_MESSAGE_CHARACTERS]
