"""From options to the sandbox they mean: whose it is, and with which settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ai4j_sandbox import SandboxConfigError, SandboxSpec

from .application import sensitive_texts
from .parameters import provider_by_name

PROVIDER_VARIABLE = "AI4J_SANDBOX_PROVIDER"


def provider_of_environment() -> str | None:
    """Return the provider that the environment names; a blank variable names none."""
    return provider_by_name(os.environ.get(PROVIDER_VARIABLE, "").strip()) or None


def spec_of_file(name: str) -> SandboxSpec:
    """Return the spec a file describes. Raises `SandboxConfigError`."""
    from .documents import load_spec_file  # brings PyYAML and marshmallow, which most runs do without

    return load_spec_file(name)


def settings_of(pairs: tuple[tuple[str, str], ...]) -> Mapping[str, Any]:
    """Return the settings that ``--config`` options give.

    Raises:
        SandboxConfigError: A value is not YAML, or a credential is on the command line.
    """
    if not pairs:
        return {}
    from .documents import load_document

    settings = {key: load_document(text, f"--config {key}") for key, text in pairs}
    for name, _ in sensitive_texts(settings):
        raise SandboxConfigError(
            f"--config {name}: a credential does not belong on the command line, where every process can read it",
            hint="set the provider's environment variable (`ai4j providers show ID` names it), or use --spec FILE",
        )
    return settings
