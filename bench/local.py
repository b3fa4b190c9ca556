"""The local provider against a plain subprocess and against bwrap started for each command, in the same run."""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace

from ai4j_sandbox.model import SandboxCommand, SandboxSpec
from ai4j_sandbox_local import LocalProvider
from ai4j_sandbox_local.config import Isolation, LocalConfig, Mount
from ai4j_sandbox_local.isolation.bubblewrap import arguments_file, options, parts_of
from ai4j_sandbox_local.isolation.identity import choose_identity
from ai4j_sandbox_local.isolation.launch import Descriptors
from ai4j_sandbox_local.isolation.layout import plan_layout
from ai4j_sandbox_local.isolation.seccomp import MACHINES, PRIVATE_NETWORK_FAMILIES, seccomp_filter
from ai4j_sandbox_local.isolation.staging import hidden_paths, start_program
from ai4j_sandbox_local.isolation.tiers import ways

OUTPUT_LIMIT_BYTES = 1_000_000


def median_millis(work: Callable[[], object], times: int) -> float:
    """Return the median time of one call in milliseconds."""
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken) * 1000


def run_plain() -> None:
    """What Python alone takes for a shell line."""
    subprocess.run(["/bin/sh", "-c", "true"], capture_output=True, check=True)


def run_in_a_bwrap_of_its_own() -> None:
    """What it takes to start bwrap, with the same profile, for one command."""
    config = LocalConfig()
    layout = plan_layout(config)
    identity = choose_identity(None)
    bubblewrap = ways(Isolation.NAMESPACE, None)[0].bubblewrap
    assert bubblewrap is not None
    if identity.changed:  # without an agent there is no need to show root's Python
        hidden = hidden_paths([mount.source for mount in layout.mounts], identity)
        visible = (part for part in layout.parts if not (isinstance(part, Mount) and part.source in hidden))
        layout = replace(layout, parts=tuple(visible))
    hidden = hidden_paths(parts_of(bubblewrap), identity) if identity.changed else []
    with Descriptors() as descriptors:
        files = {path: descriptors.file(text.encode()) for path, text in layout.files.items()}
        seccomp = descriptors.file(seccomp_filter(MACHINES[os.uname().machine], PRIVATE_NETWORK_FAMILIES))
        arguments = arguments_file(options(layout, network=False, seccomp=seccomp, files=files))
        program = [bubblewrap, "--args", str(descriptors.file(arguments)), "/bin/sh", "-c", "true"]
        subprocess.run(
            start_program(identity, hidden, [], program),
            env={},
            capture_output=True,
            pass_fds=descriptors.numbers,
            check=True,
        )


def create_and_run_once(spec: SandboxSpec) -> None:
    """A session for one command."""
    with LocalProvider().create_session(spec) as session:
        session.execute(SandboxCommand(command="true"))


def peak_megabytes() -> float:
    """The most memory this process has used so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure_output(spec: SandboxSpec, megabytes: int) -> tuple[float, float]:
    """Return megabytes per second of one command's output, and by how many megabytes the host's memory grew."""
    command = f"head -c {megabytes * 1_000_000} /dev/zero"
    with LocalProvider().create_session(spec) as session:
        session.execute(SandboxCommand(command="true"))
        before = peak_megabytes()
        started = time.perf_counter()
        result = session.execute(SandboxCommand(command=command, output_limit_bytes=OUTPUT_LIMIT_BYTES))
        taken = time.perf_counter() - started
    assert result.stdout_total_bytes == megabytes * 1_000_000
    return megabytes / taken, peak_megabytes() - before


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commands", type=int, default=200, help="how many no-op commands (default 200)")
    parser.add_argument("--sessions", type=int, default=10, help="how many sessions to create (default 10)")
    parser.add_argument("--megabytes", type=int, default=200, help="size of the large output (default 200)")
    parser.add_argument("--isolation", choices=("namespace", "syscall-filter"), default="namespace")
    chosen = parser.parse_args()
    spec = SandboxSpec(config={"isolation": chosen.isolation})

    speed, growth = measure_output(spec, chosen.megabytes)
    plain = median_millis(run_plain, chosen.commands)
    wrapped = median_millis(run_in_a_bwrap_of_its_own, max(5, chosen.commands // 10))
    with LocalProvider().create_session(spec) as session:
        noop = median_millis(lambda: session.execute(SandboxCommand(command="true")), chosen.commands)
    create = median_millis(lambda: create_and_run_once(spec), chosen.sessions)

    print(f"Python {sys.version.split()[0]}, tier {chosen.isolation}, medians")
    for name, value, note in (
        ("plain subprocess, no-op", f"{plain:.2f} ms", "no isolation"),
        ("bwrap for each command, no-op", f"{wrapped:.2f} ms", ""),
        ("local, no-op", f"{noop:.2f} ms", f"{wrapped / noop:.1f}x faster than bwrap for each command"),
        ("local, create + first command + close", f"{create:.1f} ms", ""),
        (f"local, {chosen.megabytes} MB of output", f"{speed:.0f} MB/s", f"memory of the host +{growth:.1f} MB"),
    ):
        print(f"{name:<40} {value:>12}   {note}")


if __name__ == "__main__":
    main()
