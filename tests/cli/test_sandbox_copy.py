"""`ai4j sandbox cp` with a sandbox in memory."""

from __future__ import annotations

import pytest

from ai4j_sandbox.testing import FakeProvider
from support.command_line import document_of, invoke, registry_of


@pytest.fixture
def provider() -> FakeProvider:
    return FakeProvider()


@pytest.fixture
def sandbox(provider: FakeProvider) -> str:
    return provider.create_session().session_id


def copy(provider: FakeProvider, *arguments: str, stdin: bytes = b""):
    """Run ``ai4j sandbox cp`` with the provider given."""
    return invoke("sandbox", "cp", "--provider", "fake", *arguments, registry=registry_of(provider), stdin=stdin)


def test_a_file_goes_in_and_comes_out_again(provider, sandbox, tmp_path):
    (tmp_path / "a.bin").write_bytes(bytes(range(256)))

    into = copy(provider, str(tmp_path / "a.bin"), f"{sandbox}:/data/b.bin")
    out = copy(provider, f"{sandbox}:/data/b.bin", str(tmp_path / "c.bin"))

    assert (into.exit_code, out.exit_code) == (0, 0)
    assert (tmp_path / "c.bin").read_bytes() == bytes(range(256))


def test_a_directory_takes_a_file_under_its_name(provider, sandbox, tmp_path):
    (tmp_path / "a.txt").write_text("hello")
    (tmp_path / "out").mkdir()
    provider.sandboxes[sandbox].files.make_dir("/data")

    copy(provider, str(tmp_path / "a.txt"), f"{sandbox}:/data")
    copy(provider, str(tmp_path / "a.txt"), f"{sandbox}:/new/")
    copy(provider, f"{sandbox}:/data/a.txt", str(tmp_path / "out"))

    files = provider.sandboxes[sandbox].files
    assert (files.read("/data/a.txt"), files.read("/new/a.txt")) == (b"hello", b"hello")
    assert (tmp_path / "out" / "a.txt").read_text() == "hello"


def test_of_a_directory_the_content_is_copied(provider, sandbox, tmp_path):
    (tmp_path / "tree" / "sub").mkdir(parents=True)
    (tmp_path / "tree" / "sub" / "x").write_text("1")
    (tmp_path / "tree" / "link").symlink_to("/etc/passwd")

    result = copy(provider, "--json", str(tmp_path / "tree"), f"{sandbox}:/t")

    assert document_of(result)["bytes"] == 1
    assert [entry.path for entry in provider.sandboxes[sandbox].files.list("/t", depth=5)] == ["/t/sub", "/t/sub/x"]


def test_standard_input_and_output_take_part(provider, sandbox):
    copy(provider, "-", f"{sandbox}:/x", stdin=b"\x00\xff")

    assert copy(provider, f"{sandbox}:/x", "-").stdout_bytes == b"\x00\xff"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("a", "b"), "exactly one of SOURCE and DESTINATION"),
        (("x:/a", "y:/b"), "exactly one of SOURCE and DESTINATION"),
        (("/no/such/file", "x:/a"), "does not exist"),
        (("--json", "x:/a", "-"), "--json cannot be combined"),
    ],
)
def test_a_wrong_request_is_told(provider, arguments, problem):
    result = copy(provider, *arguments)

    assert result.exit_code == 2
    assert problem in result.stderr


def test_a_missing_file_in_the_sandbox_leaves_nothing_here(provider, sandbox, tmp_path):
    result = copy(provider, f"{sandbox}:/nope", str(tmp_path / "x"))

    assert result.exit_code == 125
    assert list(tmp_path.iterdir()) == []
