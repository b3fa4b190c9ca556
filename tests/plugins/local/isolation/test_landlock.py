"""Rules for kernels of different age."""

from __future__ import annotations

from pathlib import Path

from ai4j_sandbox_local.isolation.landlock import EXECUTE, IOCTL_DEVICE, READ_DIR, READ_FILE, Ruleset, ruleset

ALL_OF_VERSION_1 = (1 << 13) - 1


def made(version: int, *, network: bool = False, **paths: list[str]) -> Ruleset:
    return ruleset(version, **{"readable": [], "writable": [], "devices": [], **paths}, network=network)


def test_oldest_kernel_is_asked_only_for_what_it_knows() -> None:
    assert made(1) == Ruleset(files=ALL_OF_VERSION_1, network=0, scopes=0, rules=())


def test_newest_kernel_also_guards_truncation_devices_tcp_and_signals() -> None:
    assert made(7) == Ruleset(files=(1 << 16) - 1, network=0b11, scopes=0b11, rules=())


def test_network_that_was_asked_for_is_left_alone() -> None:
    assert made(7, network=True).network == 0


def test_rights_fit_what_the_path_is(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()

    rules = made(7, readable=[str(tmp_path), str(file), str(tmp_path / "missing")], writable=[str(tmp_path)]).rules

    assert rules == (
        (str(tmp_path), EXECUTE | READ_FILE | READ_DIR),
        (str(file), EXECUTE | READ_FILE),
        (str(tmp_path), (1 << 16) - 1 & ~IOCTL_DEVICE),
    )
