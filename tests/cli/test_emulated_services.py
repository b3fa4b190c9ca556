"""The official providers by their ids, through the command line, against the emulator."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ai4j_sandbox import SandboxRegistry, default_registry
from ai4j_sandbox_emulator import Emulator
from support.command_line import document_of, invoke

FACES = ("e2b", "cubesandbox", "daytona")


def _usable() -> bool:
    registry = default_registry()
    local = "local" in registry.ids() and registry.provider("local").health().healthy  # type: ignore[attr-defined]  # local has it
    return local and set(FACES) <= set(registry.ids())


pytestmark = pytest.mark.skipif(not _usable(), reason="the emulator cannot run commands on this machine")


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with Emulator(FACES) as running:
        yield running


@pytest.fixture
def registry(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> SandboxRegistry:
    for name, value in emulator.environment.items():
        monkeypatch.setenv(name, value)
    return SandboxRegistry()


@pytest.mark.parametrize("provider_id", FACES)
def test_a_sandbox_is_found_used_and_destroyed_by_its_address(provider_id, registry, tmp_path):
    session = registry.create_session(provider_id=provider_id)
    address = f"{provider_id}/{session.session_id}"

    def ai4j(*arguments: str, stdin: bytes = b""):
        return invoke("sandbox", *arguments, registry=registry, stdin=stdin)

    assert address in ai4j("ls", "--provider", provider_id).stdout
    assert ai4j("exec", address, "--", "sh", "-c", "echo hi; exit 3").exit_code == 3
    assert ai4j("exec", address, "--", "wc", "-c", stdin=b"\x00\x01\x02\xff").stdout.strip() == "4"
    assert ai4j("cp", "-", f"{address}:note.txt", stdin=b"hello").exit_code == 0
    assert ai4j("cp", f"{address}:note.txt", "-").stdout == "hello"
    assert "/note.txt" in ai4j("artifacts", address, "*.txt", "--download", str(tmp_path)).stdout
    assert (tmp_path / "note.txt").read_text() == "hello"
    assert document_of(ai4j("info", "--json", address))["inside"] is not None
    assert ai4j("port", address, "8080").stdout.startswith("http")
    assert ai4j("extend", address, "30m").exit_code == 0
    assert document_of(ai4j("rm", "--json", address))["removed"] == [address]
    assert address not in ai4j("ls", "--provider", provider_id).stdout
    session.close()


@pytest.mark.parametrize("provider_id", ["e2b", "cubesandbox"])
def test_a_paused_sandbox_keeps_its_files_and_wakes_again(provider_id, registry):
    with registry.create_session(provider_id=provider_id) as session:
        address = f"{provider_id}/{session.session_id}"
        session.files.write("kept", "yes")

        assert invoke("sandbox", "pause", address, registry=registry).exit_code == 0
        assert document_of(invoke("sandbox", "info", "--json", address, registry=registry))["state"] == "paused"
        assert invoke("sandbox", "resume", address, registry=registry).exit_code == 0
        assert invoke("sandbox", "exec", address, "--", "cat", "kept", registry=registry).stdout == "yes"


@pytest.mark.parametrize("provider_id", FACES)
def test_attaching_does_not_shorten_a_life(provider_id, registry):
    with registry.create_session(provider_id=provider_id) as session:
        address = f"{provider_id}/{session.session_id}"
        invoke("sandbox", "extend", address, "1h", registry=registry)
        before = document_of(invoke("sandbox", "info", "--json", address, registry=registry))["expiresAtEpochMs"]

        invoke("sandbox", "exec", address, "--", "true", registry=registry)

        after = document_of(invoke("sandbox", "info", "--json", address, registry=registry))["expiresAtEpochMs"]
        assert (before or 0) <= (after or 0)


@pytest.mark.parametrize("provider_id", FACES)
def test_an_id_that_does_not_exist_is_an_error_and_makes_nothing(provider_id, registry):
    def existing() -> list[str]:
        listed = document_of(invoke("sandbox", "ls", "--all", "--json", "--provider", provider_id, registry=registry))
        return [item["sandbox"] for item in listed["sandboxes"]]

    before = existing()

    result = invoke("sandbox", "exec", f"{provider_id}/nope", "--", "true", registry=registry)

    assert (result.exit_code, existing()) == (125, before)
