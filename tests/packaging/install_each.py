"""Build every wheel and install each alone in a fresh environment, as a user would; then use it.

Run by ``make dist``: ``python tests/packaging/install_each.py core plugins/local …``. Exits non-zero at the first
distribution that does not build, lacks a requirement, or cannot be used alone.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[2]

USE = """
import importlib
from ai4j_sandbox import default_registry
importlib.import_module({module!r})
registry = default_registry()
assert not registry.problems(), registry.problems()
expected = {providers!r}
assert set(expected) <= set(registry.ids()), (expected, registry.ids())
for provider_id in expected:
    assert registry.provider(provider_id).provider_id == provider_id
"""


def main(folders: list[str]) -> int:
    """Build and try every distribution; return the exit code."""
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(max_workers=2) as workers:
        wheels = Path(scratch, "wheels")
        list(workers.map(lambda folder: build(ROOT / folder, wheels), folders))
        tries = ((ROOT / folder, wheels, Path(scratch, "env", folder.replace("/", "-"))) for folder in folders)
        for said in workers.map(lambda arguments: install_and_use(*arguments), tries):
            sys.stdout.write(f"{said}\n")
    return 0


def build(folder: Path, wheels: Path) -> None:
    """Build one wheel."""
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(wheels), str(folder))


def install_and_use(folder: Path, wheels: Path, environment: Path) -> str:
    """Install one distribution with its requirements into a fresh environment, import it and use its providers."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    venv.create(environment, with_pip=True)
    python = str(environment / "bin" / "python")
    requirement = f"{project['name']}=={project['version']}"
    run(python, "-m", "pip", "install", "--quiet", "--find-links", str(wheels), requirement)
    providers = list(project.get("entry-points", {}).get("ai4j.sandbox_providers", {}))
    module = project["name"].replace("-", "_")
    run(python, "-c", USE.format(module=module, providers=providers))
    return f"{project['name']}: installs alone, {len(providers)} provider(s)"


def run(*command: str) -> None:
    """Run a command quietly; end with what it said when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
