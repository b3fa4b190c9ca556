"""What a sandbox sees of this host."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ai4j_sandbox_local.config import Limits, LocalConfig, Mount, MountMode
from ai4j_sandbox_local.isolation.layout import Scratch, interpreter, plan_layout, search_path


def test_private_workspace_is_memory_of_the_size_asked_for() -> None:
    layout = plan_layout(LocalConfig(workspace="/project", limits=Limits(workspace_megabytes=3)))

    assert layout.workspace == "/project"
    assert layout.parts[-1] == Scratch(path="/project", megabytes=3)


def test_host_workspace_is_mounted_in_its_place(tmp_path: Path) -> None:
    layout = plan_layout(LocalConfig(workspace_dir=str(tmp_path), workspace_mode=MountMode.READ_ONLY))

    assert layout.parts[-1] == Mount(source=str(tmp_path), target="/workspace", mode=MountMode.READ_ONLY)


def test_named_mounts_come_last_so_that_nothing_covers_them() -> None:
    mount = Mount(source="/opt", target="/tmp/opt")

    assert plan_layout(LocalConfig(mounts=(mount,))).parts[-1] == mount


def test_accounts_of_the_host_are_not_shown() -> None:
    layout = plan_layout(LocalConfig(network=True))

    assert {mount.target for mount in layout.mounts}.isdisjoint({"/etc", "/etc/passwd", "/etc/shadow", "/etc/hosts"})
    assert layout.files["/etc/passwd"].count("\n") == 3


def test_resolver_is_shown_only_with_a_network() -> None:
    for network in (True, False):
        targets = {mount.target for mount in plan_layout(LocalConfig(network=network)).mounts}
        assert ("/etc/resolv.conf" in targets) is (network and os.path.exists("/etc/resolv.conf"))


def test_only_what_was_asked_for_is_writable() -> None:
    assert not [mount for mount in plan_layout(LocalConfig()).mounts if mount.writable]


def test_interpreter_is_the_base_installation_s_and_first_in_the_path() -> None:
    assert os.path.realpath(sys.base_prefix) in interpreter()
    assert search_path().split(":")[0] == os.path.dirname(interpreter()) or os.path.dirname(interpreter()) == "/usr/bin"
