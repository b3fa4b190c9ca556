"""Who commands run as on the host."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ai4j_sandbox_local.isolation.identity import NOBODY, Identity, choose_identity, permits, unused_id

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root steps down to another user")


def test_unused_id_lies_where_no_account_is() -> None:
    assert 1879048192 <= unused_id("         0          0 4294967295\n") <= 2147483646


@pytest.mark.parametrize("id_map", ["0 100000 65536\n", "0 1000 1\n1 100000 65536\n", ""])
def test_container_with_few_ids_has_only_nobody(id_map: str) -> None:
    assert unused_id(id_map) == NOBODY


@as_root
def test_each_sandbox_of_root_has_a_user_of_its_own() -> None:
    one, other = choose_identity(None), choose_identity(None)

    assert one.changed
    assert 0 not in (one.uid, one.gid)
    assert one.uid != other.uid


@as_root
def test_root_steps_down_to_the_owner_of_a_private_directory(tmp_path: Path) -> None:
    os.chown(tmp_path, 4242, 4243)

    identity = choose_identity(str(tmp_path))

    assert (identity.uid, identity.gid) == (4242, 4243)


@as_root
def test_directory_of_root_makes_nobody_root(tmp_path: Path) -> None:
    assert choose_identity(str(tmp_path)).uid != 0


@pytest.mark.parametrize(
    ("owner", "group", "mode", "allowed"),
    [(1, 9, 0o400, True), (1, 2, 0o077, False), (9, 2, 0o040, True), (9, 9, 0o004, True), (9, 9, 0o440, False)],
)
def test_permission_is_that_of_the_owner_else_of_the_group_else_of_everybody(
    owner: int, group: int, mode: int, allowed: bool
) -> None:
    status = os.stat_result((mode, 0, 0, 1, owner, group, 0, 0, 0, 0))

    assert permits(status, Identity(uid=1, gid=2, changed=True), 4) is allowed
