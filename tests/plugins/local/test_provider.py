"""Admission, health, and what happens on other systems."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ai4j_sandbox.capability import IsolationLevel
from ai4j_sandbox.errors import SandboxConfigError
from ai4j_sandbox.model import SandboxCommand, SandboxSpec
from ai4j_sandbox.spi import Health
from ai4j_sandbox_local import LocalProvider
from ai4j_sandbox_local.hooks import INFO, ai4j_sandbox_providers


def run_python(program: str) -> str:
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert finished.stderr == ""
    return finished.stdout


def test_hook_gives_the_provider_without_importing_it() -> None:
    program = """
import sys
from ai4j_sandbox_local import hooks
(registration,) = hooks.ai4j_sandbox_providers()
print([name for name in sys.modules if name.startswith("ai4j_sandbox_local.")])
print(registration.factory().provider_id)
"""
    assert run_python(program) == "['ai4j_sandbox_local.hooks']\nlocal\n"


def test_registration_describes_the_provider() -> None:
    (registration,) = ai4j_sandbox_providers()

    assert registration.info is INFO is LocalProvider.info


def test_registry_finds_the_installed_provider() -> None:
    from ai4j_sandbox.registry import SandboxRegistry

    assert isinstance(SandboxRegistry().provider("local"), LocalProvider)


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_other_system_is_told_what_to_use_instead(system: str) -> None:
    """Also where the modules that only Linux has cannot be imported."""
    program = f"""
import sys
for name in ("fcntl", "termios", "resource", "grp", "pwd"):
    sys.modules[name] = None
sys.platform = {system!r}
from ai4j_sandbox_local import LocalProvider
from ai4j_sandbox.errors import SandboxConfigError
provider = LocalProvider()
print(provider.supports(None), provider.health().summary)
try:
    provider.create_session()
except SandboxConfigError as error:
    print(error)
"""
    needs = f"the local sandbox needs Linux; this is {system}"
    instead = "use a remote provider (e2b, daytona, cubesandbox), or run the host program in a Linux container or WSL 2"
    assert run_python(program) == f"True {needs}\n{needs} ({instead})\n"


def test_misspelt_constructor_argument_is_an_error() -> None:
    with pytest.raises(SandboxConfigError, match="no setting 'netwrok'"):
        LocalProvider(netwrok=True)


def test_constructor_argument_wins_over_the_spec() -> None:
    with LocalProvider(isolation="syscall-filter").create_session(
        SandboxSpec(config={"isolation": "namespace"})
    ) as session:
        assert session.isolation is IsolationLevel.SYSCALL_FILTER


def test_health_tells_the_tier_in_force_and_how_every_way_fares() -> None:
    health = LocalProvider().health()

    assert health.healthy
    assert health.summary.startswith("isolation: namespace (")
    assert health.details["syscall-filter"] == "works"
    assert "none" not in health.details


def test_health_without_a_working_way_gives_the_reason_and_advice(tmp_path: Path) -> None:
    broken = broken_bubblewrap(tmp_path)

    health = LocalProvider(isolation="namespace", bubblewrap=broken).health()

    assert health == Health(
        healthy=False,
        summary="no isolation is possible here",
        advice=health.advice,
        details={"in_force": None, f"namespace ({broken})": "bwrap: No permissions to create new namespace"},
    )
    assert "user namespaces" in health.advice[0]


def broken_bubblewrap(directory: Path) -> str:
    """Return a bwrap that does what the real one does in a container with Docker's default profile."""
    path = directory / "bwrap"
    path.write_text(
        "#!/bin/sh\n"
        '[ "$1" = --version ] && exec echo bubblewrap 0\n'
        "echo 'bwrap: No permissions to create new namespace' >&2\n"
        "exit 1\n"
    )
    path.chmod(0o755)
    return str(path)


def test_auto_falls_back_where_user_namespaces_are_refused(tmp_path: Path) -> None:
    provider = LocalProvider(bubblewrap=broken_bubblewrap(tmp_path))

    with provider.create_session() as session:
        assert session.isolation is IsolationLevel.SYSCALL_FILTER
        assert session.execute(SandboxCommand(command="echo works")).stdout == "works\n"


def test_namespace_asked_for_by_name_never_falls_back(tmp_path: Path) -> None:
    provider = LocalProvider(isolation="namespace", bubblewrap=broken_bubblewrap(tmp_path))

    with pytest.raises(SandboxConfigError, match=r"no isolation is possible.*No permissions to create new namespace"):
        provider.create_session()


def test_setting_that_keeps_a_sandbox_from_starting_does_not_weaken_it(tmp_path: Path) -> None:
    """A shadowed target fails in bwrap; the answer is an error, not a sandbox of the next tier."""
    file = tmp_path / "file"
    file.write_text("x")
    mounts = [{"source": str(file), "target": "/data"}, {"source": str(file), "target": "/data/below"}]

    with pytest.raises(SandboxConfigError, match="does not start with this configuration"):
        LocalProvider().create_session(SandboxSpec(config={"mounts": mounts}))


def test_no_isolation_is_loud() -> None:
    provider = LocalProvider(isolation="none")

    with pytest.warns(RuntimeWarning, match="commands run unprotected"):
        session = provider.create_session()

    with session:
        assert session.isolation is IsolationLevel.NONE
        assert session.execute(SandboxCommand(command="echo works")).stdout == "works\n"
    assert "unprotected" in provider.health().summary


@pytest.mark.parametrize("program", ["/nope", "/bin/true", "/etc/passwd"])
def test_program_that_is_not_bwrap_is_refused_by_name_and_told_by_health(program: str) -> None:
    provider = LocalProvider(bubblewrap=program)

    with pytest.raises(SandboxConfigError, match="AI4J_LOCAL_BWRAP") as caught:
        provider.create_session()
    health = provider.health()

    assert (health.healthy, health.summary) == (False, caught.value.message)
