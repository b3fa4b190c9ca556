"""Running ``ai4j`` in this process, with providers of the test's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from ai4j_cli.application import Application
from ai4j_cli.main import program
from ai4j_sandbox import SandboxProvider, SandboxRegistry
from ai4j_sandbox.testing import FakeProvider


def registry_of(*providers: SandboxProvider, path: Path | None = None) -> SandboxRegistry:
    """Return a registry of these providers and of what is installed below `path`, and of nothing else."""
    registry = SandboxRegistry(path=[] if path is None else [str(path)])
    for provider in providers:
        registry.register(provider)
    return registry


def invoke(*arguments: str, registry: SandboxRegistry, stdin: bytes = b"") -> Result:
    """Run ``ai4j`` with these arguments."""
    return CliRunner().invoke(program, arguments, obj=Application(registry), input=stdin, prog_name="ai4j")


def run_fake(*arguments: str, provider: FakeProvider, stdin: bytes = b"") -> Result:
    """Run ``ai4j sandbox run --provider fake`` with these arguments."""
    return invoke("sandbox", "run", "--provider", "fake", *arguments, registry=registry_of(provider), stdin=stdin)


def document_of(result: Result) -> Any:
    """Return the JSON document on standard output; there must be exactly one."""
    return json.loads(result.stdout)
