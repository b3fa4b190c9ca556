"""A sandbox as options."""

from __future__ import annotations

from pathlib import Path

from ai4j_sandbox_local.config import Mount, MountMode
from ai4j_sandbox_local.isolation.bubblewrap import arguments_file, find_bubblewrap, options
from ai4j_sandbox_local.isolation.layout import Layout, Scratch

LAYOUT = Layout(
    interpreter="/usr/bin/python3",
    workspace="/workspace",
    symlinks={"/bin": "usr/bin"},
    files={"/etc/hosts": "text"},
    parts=(
        Mount(source="/usr", target="/usr"),
        Scratch(path="/tmp", megabytes=2),
        Scratch(path="/workspace", megabytes=1),
        Mount(source="/srv/data", target="/data", mode=MountMode.READ_WRITE),
    ),
)


def made(*, network: bool = False) -> str:
    return " ".join(options(LAYOUT, network=network, seccomp=7, files={"/etc/hosts": 8}))


def test_parts_are_mounted_in_order_and_the_rest_is_made_read_only() -> None:
    assert made().endswith(
        "--symlink usr/bin /bin --perms 0444 --ro-bind-data 8 /etc/hosts --ro-bind /usr /usr"
        " --perms 1777 --size 2097152 --tmpfs /tmp --perms 0755 --size 1048576 --tmpfs /workspace"
        " --bind /srv/data /data --remount-ro /dev --remount-ro / --chdir /workspace"
    )


def test_every_namespace_is_asked_for_by_name() -> None:
    """--unshare-all takes the user namespace only if possible, which --disable-userns refuses."""
    arguments = made().split()

    assert "--unshare-all" not in arguments
    for kind in ("user", "ipc", "pid", "uts", "cgroup", "net"):
        assert f"--unshare-{kind}" in arguments
    assert "--disable-userns" in arguments


def test_life_is_not_bound_to_the_thread_that_starts_it() -> None:
    assert "--die-with-parent" not in made()


def test_network_is_shared_only_when_asked_for() -> None:
    assert "--unshare-net" not in made(network=True)


def test_arguments_are_separated_by_nul() -> None:
    assert arguments_file(["--bind", "/a b", "/c"]) == b"--bind\0/a b\0/c\0"


def test_given_program_is_the_only_one_tried(tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho bubblewrap 0\n")
    program.chmod(0o755)

    assert find_bubblewrap(str(program)) == [str(program)]
