"""The tiers: what each can honour, how each starts a sandbox, and which one is used.

* namespace: bubblewrap, a seccomp filter, limits. The sandbox has a file system, processes and a network of its own.
* syscall-filter: Landlock, a seccomp filter, limits, for where user namespaces are refused (Docker's default). The
  sandbox sees the host's file system where that is granted, and the host's processes; it can touch neither.
* none: no wall at all. Only when asked for by name.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from ai4j_sandbox.capability import IsolationLevel
from ai4j_sandbox.errors import SandboxConfigError, SandboxException
from ai4j_sandbox.frozen import empty_mapping
from ai4j_sandbox_local.config import PROVIDER_ID, Isolation, Limits, LocalConfig, Mount, unhonoured

from .bubblewrap import arguments_file, find_bubblewrap, options, parts_of
from .cgroup import ControlGroup, memory_group
from .identity import NOBODY, Identity, choose_identity, current_identity, permits
from .landlock import SIGNAL_SCOPE_VERSION, landlock_version, ruleset
from .launch import PYTHON_OPTIONS, AgentSettings, Descriptors, LaunchError, RunningSandbox, inside_program, launch
from .layout import DEVICES, HOME, USER, covering, interpreter, interpreter_home, plan_layout, search_path, shared_paths
from .seccomp import MACHINES, PRIVATE_NETWORK_FAMILIES, SHARED_NETWORK_FAMILIES, seccomp_filter
from .staging import hidden_paths, start_program, tool

LEVELS: Mapping[Isolation, IsolationLevel] = {
    Isolation.NAMESPACE: IsolationLevel.NAMESPACE,
    Isolation.SYSCALL_FILTER: IsolationLevel.SYSCALL_FILTER,
    Isolation.NONE: IsolationLevel.NONE,
}
_MEGABYTE = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """A started sandbox, whatever its tier.

    Attributes:
        workspace: The directory commands start in, as they see it.
        environment: Variables every command gets.
        opens_terminals: Whether the agent may open a terminal itself.
        directory: The sandbox's directory on the host, where it has one.
    """

    tier: Isolation
    running: RunningSandbox
    workspace: str
    environment: Mapping[str, str] = field(default_factory=empty_mapping)
    opens_terminals: bool = True
    group: ControlGroup | None = None
    directory: str | None = None

    def destroy(self) -> None:
        """End everything in it and remove what it left on the host. Idempotent."""
        self.running.destroy()
        if self.directory is not None:
            _remove_directory(self.directory)
        if self.group is not None:
            self.group.remove()

    def cause_of_death(self) -> str:
        """Return what is known about why it ended by itself."""
        if self.group is not None and self.group.kills():
            return "the kernel killed it for want of memory (config.memoryMegabytes)"
        return self.running.last_words() or "its first process was killed, from outside or for want of memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to start a sandbox: a tier, and the bwrap program for the one that needs it."""

    tier: Isolation
    bubblewrap: str | None = None

    def __str__(self) -> str:
        return f"{self.tier} ({self.bubblewrap})" if self.bubblewrap else str(self.tier)

    def start(self, config: LocalConfig) -> Sandbox:
        """Start a sandbox this way.

        Raises:
            LaunchError: It did not start.
            SandboxConfigError: A setting cannot be honoured here.
        """
        _require_sources(config)
        identity = current_identity() if self.tier is Isolation.NONE else choose_identity(_private_directory(config))
        _require_access(config, identity)
        with _memory_limit(config.limits) as group:
            if self.bubblewrap is not None:
                return _start_namespace(config, identity, group, self.bubblewrap)
            return _start_guarded(config, identity, group, self.tier)

    def failure(self) -> str | None:
        """Try it for real, with nothing special asked for. Returns what went wrong, or ``None``."""
        try:
            self.start(LocalConfig()).destroy()
        except SandboxException as error:
            return error.message
        return None


def ways(isolation: Isolation, bubblewrap: str | None) -> list[Way]:
    """Return the ways to try, the strongest first. `AUTO` never leads to `NONE`."""
    namespace = [Way(tier=Isolation.NAMESPACE, bubblewrap=program) for program in find_bubblewrap(bubblewrap)]
    others = {
        Isolation.AUTO: [*namespace, Way(tier=Isolation.SYSCALL_FILTER)],
        Isolation.NAMESPACE: namespace,
    }
    return others.get(isolation, [Way(tier=isolation)])


def start_sandbox(config: LocalConfig) -> Sandbox:
    """Start a sandbox in the strongest tier that the configuration and the machine allow.

    A weaker tier is taken only when the stronger one does not work at all here, never because of a setting.

    Raises:
        SandboxConfigError: No tier works, or a setting cannot be honoured in the one that does.
    """
    failures = []
    for way in ways(config.isolation, config.bubblewrap):
        try:
            _require_honourable(way.tier, config)
            return way.start(config)
        except LaunchError as error:
            if way.failure() is None:
                raise SandboxConfigError(
                    f"the sandbox does not start with this configuration: {error.message}", provider_id=PROVIDER_ID
                ) from None
            failures.append(f"{way}: {error.message}")
    raise SandboxConfigError(
        f"no isolation is possible on this machine: {'; '.join(failures) or 'there is no bwrap'}",
        hint=ADVICE,
        provider_id=PROVIDER_ID,
    )


ADVICE = (
    "allow unprivileged user namespaces, or run on a kernel with Landlock; in Docker add --security-opt "
    "seccomp=unconfined --security-opt systempaths=unconfined; "
    'config.isolation "none" runs commands without any protection'
)


# --- what a tier can honour ---------------------------------------------------------------------------------------


def _require_honourable(tier: Isolation, config: LocalConfig) -> None:
    for name, reason in unhonoured(tier, config):
        raise SandboxConfigError(f"{name}: {reason}", provider_id=PROVIDER_ID)


def _host_directories(config: LocalConfig) -> list[Mount]:
    """The parts of the host that the configuration names."""
    if config.workspace_dir is None:
        return list(config.mounts)
    workspace = Mount(source=config.workspace_dir, target=config.workspace, mode=config.workspace_mode)
    return [workspace, *config.mounts]


def _require_sources(config: LocalConfig) -> None:
    for mount in _host_directories(config):
        try:
            os.stat(mount.source)
        except OSError as error:
            raise SandboxConfigError(
                f"{mount.source} cannot be used on this machine: {error.strerror}",
                hint="give a path that exists and that this user may reach",
                provider_id=PROVIDER_ID,
            ) from error


def _private_directory(config: LocalConfig) -> str | None:
    """Return a host directory that not just anybody can use as commands are to use it."""
    private = (
        mount.source for mount in _host_directories(config) if not _is_open(mount, os.stat(mount.source).st_mode)
    )
    return next(private, None)


def _is_open(mount: Mount, mode: int) -> bool:
    """Whether everybody may use it as commands are to."""
    wanted = _wanted(mount, mode)
    return mode & wanted == wanted


def _wanted(mount: Mount, mode: int) -> int:
    """The permissions that commands need: read 4, change 2, pass 1."""
    return 4 | (2 if mount.writable else 0) | (1 if stat.S_ISDIR(mode) else 0)


def _require_access(config: LocalConfig, identity: Identity) -> None:
    """Refuse to promise commands what their user may not use."""
    for mount in _host_directories(config):
        status = os.stat(mount.source)
        if not _may_use(mount, status, identity):
            verb = "change" if mount.writable else "read"
            never_root = ", and they never run as root" if identity.changed else ""
            raise SandboxConfigError(
                f"commands could not {verb} {mount.source}: it is user {status.st_uid}'s{never_root}",
                hint=f"chown it to an ordinary user (they run as {identity.uid}), or upload the files instead",
                provider_id=PROVIDER_ID,
            )


def _may_use(mount: Mount, status: os.stat_result, identity: Identity) -> bool:
    wanted = _wanted(mount, status.st_mode)
    if identity.changed:
        return permits(status, identity, wanted)
    return os.access(mount.source, wanted, effective_ids=True)  # knows our further groups, too


def _require_python(config: LocalConfig) -> None:
    """Refuse to lay something else over the Python that the agent needs."""
    for target in covering(config):
        raise SandboxConfigError(
            f"{target} would hide the Python installation {interpreter_home()}, which the sandbox needs",
            hint="choose another path for the workspace (spec.workspace_id) or the target (config.mounts)",
            provider_id=PROVIDER_ID,
        )


@contextlib.contextmanager
def _memory_limit(limits: Limits) -> Iterator[ControlGroup | None]:
    """A control group for the sandbox that is started in this block; removed again when that fails."""
    if limits.memory_megabytes is None:
        yield None
        return
    group = memory_group(limits.memory_megabytes)
    if group is None:
        raise SandboxConfigError(
            "config.memoryMegabytes cannot be enforced: no control group for memory can be made here",
            hint="run as root, or give the user a delegated cgroup (systemd-run --user --scope -p Delegate=yes)",
            provider_id=PROVIDER_ID,
        )
    try:
        yield group
    except BaseException:
        group.remove()
        raise


def _process_limits(limits: Limits, *, ours: int) -> dict[str, int]:
    """Return the limits by the names that the `resource` module has for them.

    Args:
        ours: How many processes of our own count towards the limit.
    """
    wanted = {
        # Not 0: only 1 also keeps a crash from being piped to the program that the host has for that.
        "RLIMIT_CORE": 1,
        "RLIMIT_NPROC": None if limits.max_processes is None else limits.max_processes + ours,
        "RLIMIT_FSIZE": None if limits.max_file_megabytes is None else limits.max_file_megabytes * _MEGABYTE,
        "RLIMIT_CPU": limits.cpu_seconds,
        "RLIMIT_NOFILE": limits.max_open_files,
    }
    return {name: limit for name, limit in wanted.items() if limit is not None}


# --- namespace ----------------------------------------------------------------------------------------------------


def _start_namespace(config: LocalConfig, identity: Identity, group: ControlGroup | None, bubblewrap: str) -> Sandbox:
    _require_python(config)
    layout = plan_layout(config)
    needed = [layout.interpreter, *parts_of(bubblewrap), *(mount.source for mount in layout.mounts)]
    hidden = _hidden(needed, identity)

    def command_line(descriptors: Descriptors, program: Sequence[str]) -> list[str]:
        files = {path: descriptors.file(text.encode()) for path, text in layout.files.items()}
        filter_file = descriptors.file(_filter(PRIVATE_NETWORK_FAMILIES))
        arguments = options(layout, network=bool(config.network), seccomp=filter_file, files=files)
        wrapped = [bubblewrap, "--args", str(descriptors.file(arguments_file(arguments))), *program]
        return start_program(identity, hidden, _groups(group), wrapped)

    settings = AgentSettings(
        directory=layout.workspace, limits=_process_limits(config.limits, ours=1), lifetime=config.timeout_seconds
    )
    return Sandbox(
        tier=Isolation.NAMESPACE,
        running=launch(command_line, layout.interpreter, settings, identity),
        workspace=layout.workspace,
        environment=_environment(config, HOME),
        group=group,
    )


def _hidden(paths: Sequence[str], identity: Identity) -> list[str]:
    if not identity.changed:
        return []
    return hidden_paths(paths, identity)


def _groups(group: ControlGroup | None) -> list[str]:
    return [] if group is None else [group.path]


def _filter(families: Sequence[int]) -> bytes:
    machine = MACHINES.get(os.uname().machine)
    if machine is None:
        raise LaunchError(f"there is no system call filter for {os.uname().machine}")
    return seccomp_filter(machine, families)


def _environment(config: LocalConfig, home: str) -> dict[str, str]:
    return {
        "PATH": search_path(),
        "HOME": home,
        "USER": USER,
        "LOGNAME": USER,
        "SHELL": config.shell,
        "LANG": "C.UTF-8",
    }


# --- syscall-filter, and none -------------------------------------------------------------------------------------


def _start_guarded(config: LocalConfig, identity: Identity, group: ControlGroup | None, tier: Isolation) -> Sandbox:
    """Start the agent below a warden, in a directory of its own on the host."""
    confined = tier is Isolation.SYSCALL_FILTER
    if confined:
        _require_confinement(config, identity)
    directory = _make_directory(identity)
    workspace = config.workspace_dir or f"{directory}/workspace"
    hidden = _hidden([interpreter(), *_readable(config)], identity)

    def command_line(descriptors: Descriptors, program: Sequence[str]) -> list[str]:
        told = {
            "program": program,
            "ruleset": _rules(config, directory) if confined else None,
            "seccomp": descriptors.file(_filter(SHARED_NETWORK_FAMILIES if config.network else ()))
            if confined
            else None,
            "host": descriptors.add(os.pidfd_open(os.getpid())),
            "control": descriptors.numbers[0],
            "directory": directory,
        }
        source = descriptors.file(inside_program("warden"))
        warden = [interpreter(), *PYTHON_OPTIONS, f"/proc/self/fd/{source}", json.dumps(told)]
        return start_program(identity, hidden, _groups(group), warden)

    settings = AgentSettings(
        directory=workspace, limits=_process_limits(config.limits, ours=2), lifetime=config.timeout_seconds
    )
    try:
        return Sandbox(
            tier=tier,
            running=launch(command_line, interpreter(), settings, identity),
            workspace=workspace,
            environment={**_environment(config, f"{directory}/home"), "TMPDIR": f"{directory}/tmp"},
            opens_terminals=not confined,
            group=group,
            directory=directory,
        )
    except BaseException:
        _remove_directory(directory)
        raise


def _require_confinement(config: LocalConfig, identity: Identity) -> None:
    version = landlock_version()
    if version == 0:
        raise LaunchError("the kernel has no Landlock, or it is switched off")
    own_user = identity.changed and identity.uid != NOBODY
    if version < SIGNAL_SCOPE_VERSION and not own_user:
        raise LaunchError("commands could signal the user's other processes: that takes Linux 6.12, or root")
    if config.limits.max_processes is not None and not own_user:
        raise SandboxConfigError(
            "config.maxProcesses: in the tier syscall-filter it would count the user's other processes",
            hint="run as root, so that the sandbox gets a user of its own",
            provider_id=PROVIDER_ID,
        )


def _remove_directory(directory: str) -> None:
    """Remove what the warden would have removed, had it not been killed."""
    if os.path.lexists(directory):
        subprocess.run([tool("rm"), "-rf", "--", directory], env={}, check=False)


def _make_directory(identity: Identity) -> str:
    directory = os.path.realpath(tempfile.mkdtemp(prefix=f"ai4j-{os.getpid()}-"))
    made = [directory, *_own_directories(directory)]
    for path in made[1:]:
        os.mkdir(path)
    if identity.changed:
        for path in made:
            os.chown(path, identity.uid, identity.gid)
    return directory


def _own_directories(directory: str) -> list[str]:
    return [f"{directory}/{name}" for name in ("workspace", "home", "tmp")]


def _readable(config: LocalConfig) -> list[str]:
    named = (mount.source for mount in _host_directories(config))
    return [*shared_paths(network=bool(config.network)), *named]


def _rules(config: LocalConfig, directory: str) -> dict[str, object]:
    rules = ruleset(
        landlock_version(),
        readable=_readable(config),
        writable=[
            *_own_directories(directory),
            *(mount.source for mount in _host_directories(config) if mount.writable),
        ],
        devices=DEVICES,
        network=bool(config.network),
    )
    return asdict(rules)
