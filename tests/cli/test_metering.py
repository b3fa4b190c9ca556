"""Counting what is transferred."""

from __future__ import annotations

import pytest

from ai4j_cli.application import Application
from ai4j_cli.metering import MeteredFiles, host_size, transfer
from ai4j_sandbox.testing import FakeProvider


def test_every_byte_up_and_down_is_counted(tmp_path):
    (tmp_path / "a").write_bytes(b"x" * 600_000)
    pieces: list[int] = []
    files = MeteredFiles(FakeProvider().create_session().files, pieces.append)

    files.upload(tmp_path, "/up")
    files.download("/up", tmp_path / "down")

    assert (tmp_path / "down" / "a").read_bytes() == b"x" * 600_000
    assert (sum(pieces), files.moved_bytes) == (1_200_000, 1_200_000)
    assert len(pieces) > 2


def test_the_size_of_an_upload_leaves_out_what_is_not_sent(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a").write_bytes(b"12345")
    (tmp_path / "link").symlink_to(tmp_path / "sub" / "a")

    assert host_size(tmp_path) == 5
    assert host_size(tmp_path / "sub" / "a") == 5


@pytest.mark.parametrize(("verbose", "told"), [(True, "ai4j: copying\n"), (False, "")])
def test_away_from_a_terminal_there_is_no_bar(verbose, told, capsys):
    application = Application()
    application.verbose = verbose

    with transfer(application, "copying", 10) as moved:
        moved(10)

    assert capsys.readouterr() == ("", told)
