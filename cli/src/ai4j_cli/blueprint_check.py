"""``ai4j blueprint check``: what is wrong with an Agent Blueprint."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from .application import Application, json_option, pass_application
from .options import complete_file
from .parameters import file_name

if TYPE_CHECKING:
    from ai4j_agent import BlueprintIssue


@click.command("check")
@click.argument("file", metavar="FILE", type=file_name, shell_complete=complete_file)
@json_option
@pass_application
def check(application: Application, file: str) -> int:
    """Check the Agent Blueprint in FILE: every issue with its line, path and code. Nothing is made or contacted.

    Exit code 1 when it has errors; warnings do not count. 2 when it is no blueprint at all.
    """
    from ai4j_agent import load_blueprint_file, validate

    from .failures import ExitCode, write_json
    from .rendering import print_lines

    blueprint = load_blueprint_file(file)
    report = validate(blueprint)
    if application.as_json:
        write_json({"valid": report.valid, "id": blueprint.id, "issues": [_document(item) for item in report.issues]})
    else:
        verdict = f"{file} is {'valid' if report.valid else 'not valid'}: "
        counts = f"{len(report.errors)} errors, {len(report.warnings)} warnings"
        print_lines(sys.stdout, [*map(str, report.issues), verdict + counts])
    return ExitCode.DONE if report.valid else ExitCode.NEGATIVE


def _document(issue: BlueprintIssue) -> dict[str, Any]:
    return {
        "severity": issue.severity,
        "code": issue.code,
        "path": issue.path,
        "line": issue.line,
        "message": issue.message,
    }
