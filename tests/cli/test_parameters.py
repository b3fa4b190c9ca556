"""Values of options."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest

from ai4j_cli.address import SandboxAddress, sandbox_address
from ai4j_cli.parameters import Upload, as_typed, pair, provider_name, seconds, size, upload, variable
from ai4j_cli.spec_options import provider_of_environment


def test_a_file_keeps_its_name_and_a_directory_goes_to_the_default_directory(tmp_path):
    (tmp_path / "a.txt").touch()

    assert upload(f"{tmp_path}/a.txt") == Upload(source=tmp_path / "a.txt", destination="a.txt")
    assert upload(str(tmp_path)) == Upload(source=tmp_path, destination=".")


def test_a_destination_follows_the_last_colon_unless_that_belongs_to_the_name(tmp_path):
    (tmp_path / "a:b").touch()

    assert upload(f"{tmp_path}/a:b") == Upload(source=tmp_path / "a:b", destination="a:b")
    assert upload(f"{tmp_path}/a:b:/c") == Upload(source=Path(tmp_path, "a:b"), destination="/c")


def test_a_variable_has_its_value_from_the_line_or_from_here(monkeypatch):
    monkeypatch.setenv("HERE", "a=b")

    assert [variable("X=1"), variable("X="), variable("X=a=b"), variable("HERE")] == [
        ("X", "1"),
        ("X", ""),
        ("X", "a=b"),
        ("HERE", "a=b"),
    ]


@pytest.mark.parametrize(
    ("text", "expected"), [("0", 0), ("512", 512), ("2k", 2048), ("10M", 10_485_760), ("1G", 1_073_741_824)]
)
def test_sizes(text, expected):
    assert size(text) == expected


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (size, "-1"), (size, "1.5M"), (size, "M"), (size, "1kk"), (size, ""), (size, "٣"),
        (seconds, "-1"), (seconds, "inf"), (seconds, "1m"), (seconds, ""),
        (pair, "x"), (pair, "=x"), (variable, "=x"), (variable, ""), (upload, "nowhere:/x"), (upload, ":/x"),
    ],
)  # fmt: skip
def test_what_is_no_value_is_refused(parse, text):
    with pytest.raises(click.BadParameter):
        parse(text)


def test_a_word_is_what_was_typed_whatever_the_locale_made_of_it():
    in_ascii = os.fsdecode("—".encode())  # what Python makes of it in this locale
    undecodable = b"\xff".decode("utf-8", "surrogateescape")

    assert (as_typed(in_ascii), as_typed("—".encode().decode("ascii", "surrogateescape"))) == ("—", "—")
    assert as_typed(undecodable) == undecodable


@pytest.mark.parametrize(
    ("text", "provider_id"), [("cube", "cubesandbox"), ("Cube", "cubesandbox"), ("e2b", "e2b"), ("cubes", "cubes")]
)
def test_a_provider_may_be_called_by_its_other_name(text, provider_id):
    assert provider_name(text) == provider_id


def test_the_other_name_counts_in_addresses_and_in_the_environment_too(monkeypatch):
    monkeypatch.setenv("AI4J_SANDBOX_PROVIDER", " cube ")

    assert sandbox_address("cube/abc") == SandboxAddress(session_id="abc", provider_id="cubesandbox")
    assert provider_of_environment() == "cubesandbox"
