"""The command: text, JSON, errors."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from wordcount.command import main


def test_a_file_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text").write_text("To be, or not to be", encoding="utf-8")

    assert main([str(tmp_path / "text"), "--top", "2"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "words       6",
        "distinct    4",
        "sentences   1",
        "most used   be 2, to 2",
    ]


def test_standard_input_as_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("Größe. Größe!"))

    assert main(["--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "words": 2,
        "distinct": 1,
        "sentences": 2,
        "wordsPerSentence": 1.0,
        "mostUsed": {"grösse": 2},
    }


def test_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "missing")]) == 1
    assert "No such file" in capsys.readouterr().err
