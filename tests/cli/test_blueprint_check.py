"""`ai4j blueprint check`."""

from __future__ import annotations

from pathlib import Path

from support.command_line import document_of, invoke, registry_of
from support.secrets import CANARY, assert_no_secret

VALID = """\
version: ai4j.agent/v1
id: reviewer
model: {provider: openai, model: m}
workflow: {mode: react, maxTurns: 20}
"""


def check(tmp_path: Path, text: str, *options: str):
    """Check a blueprint with this text."""
    (tmp_path / "b.yaml").write_text(text)
    return invoke("blueprint", "check", *options, str(tmp_path / "b.yaml"), registry=registry_of())


def test_a_valid_one_is_told_as_valid(tmp_path):
    result = check(tmp_path, VALID)

    assert (result.exit_code, result.stdout) == (0, f"{tmp_path}/b.yaml is valid: 0 errors, 0 warnings\n")


def test_every_issue_is_told_with_line_path_and_code(tmp_path):
    result = check(tmp_path, VALID + "sandbox: {enable: true, provider: local}\n", "--json")

    document = document_of(result)
    assert (result.exit_code, document["valid"], document["id"]) == (1, False, "reviewer")
    assert [(item["severity"], item["line"], item["path"]) for item in document["issues"]] == [
        ("ERROR", 5, "$.sandbox.enable")
    ]


def test_warnings_alone_do_not_fail(tmp_path):
    assert check(tmp_path, VALID + "unknown: 1\n").exit_code == 0


def test_what_is_no_blueprint_is_a_wrong_request_with_its_code(tmp_path):
    result = check(tmp_path, "- a", "--json")

    assert result.exit_code == 2
    assert document_of(result)["error"]["code"].startswith("blueprint.")


def test_a_file_that_is_not_there_is_told(tmp_path):
    result = invoke("blueprint", "check", str(tmp_path / "nope"), registry=registry_of())

    assert (result.exit_code, result.stderr) == (
        2, "ai4j: blueprint.io: Unable to read Agent Blueprint file nope: No such file or directory\n",
    )  # fmt: skip


def test_a_secret_in_a_blueprint_is_found_and_not_repeated(tmp_path):
    result = check(tmp_path, VALID + f"sandbox: {{enabled: true, provider: local, config: {{apiKey: {CANARY}}}}}\n")

    assert result.exit_code == 1
    assert_no_secret(result.output)
