"""The settings table: what is taken, what is refused, and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from ai4j_sandbox.errors import SandboxConfigError
from ai4j_sandbox.model import SandboxSpec
from ai4j_sandbox_local import LocalProvider
from ai4j_sandbox_local.config import (
    SETTINGS,
    Isolation,
    Limits,
    LocalConfig,
    Mount,
    MountMode,
    local_config,
    unhonoured,
)
from support.secrets import CANARY, assert_no_secret


def resolved(workspace_id: str | None = None, **config: Any) -> LocalConfig:
    return local_config(SETTINGS.resolve(SandboxSpec(workspace_id=workspace_id, config=config), environ={}))


def test_nothing_given_means_a_private_sandbox_without_network() -> None:
    assert resolved() == LocalConfig()


def test_every_key_reaches_the_configuration() -> None:
    config = resolved(
        workspace_id="/project",
        isolation="namespace",
        network=True,
        workspaceDir="/srv/work",
        workspaceMode="ro",
        mounts=[{"source": "/opt/data", "target": "/data", "mode": "rw"}],
        env={"COLOUR": "blue"},
        shell="/bin/bash",
        timeoutSeconds=60,
        memoryMegabytes=512,
        maxProcesses=100,
        maxFileMegabytes=10,
        cpuSeconds=30,
        maxOpenFiles=256,
    )

    assert config == LocalConfig(
        isolation=Isolation.NAMESPACE,
        network=True,
        workspace="/project",
        workspace_dir="/srv/work",
        workspace_mode=MountMode.READ_ONLY,
        mounts=(Mount(source="/opt/data", target="/data", mode=MountMode.READ_WRITE),),
        environment={"COLOUR": "blue"},
        shell="/bin/bash",
        timeout_seconds=60,
        limits=Limits(
            memory_megabytes=512, max_processes=100, max_file_megabytes=10, cpu_seconds=30, max_open_files=256
        ),
    )


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"isolation": "container"}, "config.isolation must be one of auto, namespace, syscall-filter, none"),
        ({"network": "perhaps"}, "config.network must be true or false"),
        ({"workspaceDir": "relative"}, "config.workspaceDir must be an absolute path"),
        ({"mounts": [{"source": "/opt"}]}, "config.mounts must hold mappings with source, target and optionally mode"),
        ({"mounts": [{"source": "/opt", "target": "/usr/x"}]}, "config.mounts must not lie in a system directory"),
        ({"mounts": [{"source": "/opt", "target": "/"}]}, "config.mounts must be an absolute path"),
        ({"mounts": [{"source": "/opt", "target": "/a/../b"}]}, "config.mounts must be an absolute path"),
        ({"mounts": [{"source": "/opt", "target": "/a", "mode": "x"}]}, "config.mounts must have the mode ro or rw"),
        ({"env": {"1A": "x"}}, "config.env holds '1A', which is no variable name"),
        ({"env": {"A": 1}}, "config.env must hold only text"),
        (
            {"env": {"A": "\ud800"}},
            "config.env must hold only text without NUL and lone surrogates, unlike the value of A",
        ),
        ({"mounts": 2 * [{"source": "/opt", "target": "/a"}]}, "config.mounts must not hide /a below a later mount"),
        (
            {"mounts": [{"source": "/opt", "target": "/a/b"}, {"source": "/opt", "target": "/a"}]},
            "config.mounts must not hide /a/b below a later mount: order them from the outside in",
        ),
        ({"timeoutSeconds": 0}, "config.timeoutSeconds must be at least 1"),
        ({"memoryMegabytes": "lots"}, "config.memoryMegabytes must be a whole number"),
        ({"workspaceMode": "ro"}, "config.workspaceMode needs config.workspaceDir"),
        ({"netwrok": True}, "config.netwrok: unknown key; did you mean 'network'?"),
    ],
)
def test_wrong_value_names_the_key(config: dict[str, Any], said: str) -> None:
    with pytest.raises(SandboxConfigError) as caught:
        resolved(**config)

    assert said in str(caught.value)


@pytest.mark.parametrize(("workspace", "target"), [("/workspace", "/workspace"), ("/data/work", "/data")])
def test_mount_that_would_hide_the_workspace_is_refused(workspace: str, target: str) -> None:
    spec = SandboxSpec(workspace_id=workspace, config={"mounts": [{"source": "/opt", "target": target}]})

    assert LocalProvider().check(spec).explain() == (
        f"config: config.mounts would hide the workspace {workspace}: it has the target {target}"
    )


def test_mount_below_the_workspace_and_one_in_another_are_fine() -> None:
    mounts = [{"source": "/opt", "target": target} for target in ("/workspace/a", "/b", "/b/c")]

    assert LocalProvider().supports(SandboxSpec(config={"mounts": mounts}))


def test_secret_in_the_session_s_variables_is_refused_without_showing_it() -> None:
    with pytest.raises(SandboxConfigError, match="API_TOKEN") as caught:
        resolved(env={"API_TOKEN": CANARY})

    assert_no_secret(str(caught.value), repr(caught.value))


@pytest.mark.parametrize("path", ["relative", "/", "/a/", "/usr/work", "/proc/1", "/a/./b"])
def test_workspace_that_is_no_free_path_is_refused(path: str) -> None:
    with pytest.raises(SandboxConfigError, match=r"spec\.workspace_id"):
        resolved(workspace_id=path)


def test_namespace_tier_honours_everything() -> None:
    limits = Limits(memory_megabytes=16, max_processes=4, workspace_megabytes=1)

    assert unhonoured(Isolation.NAMESPACE, LocalConfig(workspace="/project", network=False, limits=limits)) == []


def test_syscall_filter_tier_refuses_what_takes_a_file_system_of_its_own() -> None:
    config = LocalConfig(
        workspace="/project",
        mounts=(Mount(source="/opt/data", target="/data"),),
        limits=Limits(workspace_megabytes=1),
    )

    refused = [name for name, _ in unhonoured(Isolation.SYSCALL_FILTER, config)]

    assert refused == ["config.workspaceMegabytes", "workspace_id", "config.mounts"]


@pytest.mark.parametrize(
    "key",
    [
        "timeoutSeconds",
        "memoryMegabytes",
        "maxProcesses",
        "maxFileMegabytes",
        "cpuSeconds",
        "maxOpenFiles",
        "workspaceMegabytes",
    ],
)
def test_number_that_no_machine_could_honour_is_refused_by_name(key: str) -> None:
    with pytest.raises(SandboxConfigError, match=f"config.{key} must be at most"):
        resolved(**{key: 10**15})


@pytest.mark.parametrize("path", ["/a\ud800", "/a\0b", "/a\nb"])
def test_path_that_the_system_cannot_name_is_refused_wherever_it_stands(path: str) -> None:
    for config in (
        {"shell": path},
        {"workspaceDir": path},
        {"mounts": [{"source": path, "target": "/data"}]},
        {"mounts": [{"source": "/opt", "target": path}]},
    ):
        with pytest.raises(SandboxConfigError, match="must not contain"):
            resolved(**config)


def test_path_with_bytes_that_are_not_utf8_is_taken_as_the_system_gives_it() -> None:
    assert resolved(workspaceDir="/caf\udce9").workspace_dir == "/caf\udce9"
