"""Reading JUnit reports that come from a sandbox."""

from __future__ import annotations

import pytest

from ai4j_agent.coding.junit import FailedTest, ReportError, TestCounts, parse_report

REPORT = b"""<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="s" tests="99" failures="99">
  <testcase classname="tests.test_a" name="passes" time="0.1"/>
  <testcase classname="tests.test_a" name="fails"><failure message="assert 1 == 2">long text</failure></testcase>
  <testcase name="breaks"><error>ValueError: x</error></testcase>
  <testcase classname="tests.test_a" name="skipped"><skipped/></testcase>
</testsuite></testsuites>"""


def test_counts_come_from_the_cases() -> None:
    assert parse_report(REPORT) == TestCounts(
        total=4,
        failed=1,
        errors=1,
        skipped=1,
        failures=(
            FailedTest(name="tests.test_a::fails", kind="failure", message="assert 1 == 2"),
            FailedTest(name="breaks", kind="error", message="ValueError: x"),
        ),
    )
    assert parse_report(REPORT).passed == 1


def test_an_empty_report_counts_nothing() -> None:
    assert parse_report(b"<testsuites/>") == TestCounts()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no xml",
        b"<testsuite>",
        b'<!DOCTYPE x [<!ENTITY a "aaaa">]><testsuite/>',
    ],
)
def test_what_is_no_report_is_refused(data: bytes) -> None:
    with pytest.raises(ReportError):
        parse_report(data)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_document_type_is_refused_in_any_encoding(encoding: str) -> None:
    entities = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>'
    report = f'<?xml version="1.0" encoding="{encoding}"?>{entities}<testsuite><testcase name="&b;"/></testsuite>'

    with pytest.raises(ReportError, match="declares a document type"):
        parse_report(report.encode(encoding))


@pytest.mark.parametrize("data", [b"", b"\0", b"<a>", b"<?xml version='1.0' encoding='nonsense'?><a/>", b"<a>&x;</a>"])
def test_what_is_no_xml_is_told(data: bytes) -> None:
    with pytest.raises(ReportError, match="is no XML"):
        parse_report(data)


def test_a_report_of_any_depth_is_read() -> None:
    report = b"<testsuite>" * 20_000 + b"<testcase name='x'/>" + b"</testsuite>" * 20_000

    assert parse_report(report).total == 1
