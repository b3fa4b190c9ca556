"""A directory of fake installed distributions, for discovery without installing anything."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

PROVIDERS = "ai4j.sandbox_providers"

_PROVIDER_PLUGIN = """
from ai4j_sandbox.capability import IsolationLevel, ProviderInfo
from ai4j_sandbox.hookspecs import ProviderRegistration, hookimpl


def make(**arguments):
    from {module}_provider import PluginProvider

    return PluginProvider(**arguments)


@hookimpl
def ai4j_sandbox_providers():
    info = ProviderInfo(
        provider_id="{provider_id}", display_name="Plugin", distribution="typed", version="by hand", spi={spi},
        isolation=IsolationLevel.{isolation},
    )
    return [ProviderRegistration(info=info, factory=make)]
"""

_PROVIDER = """
from ai4j_sandbox.spi import SandboxProvider
from {module} import ai4j_sandbox_providers


class PluginProvider(SandboxProvider):
    info = ai4j_sandbox_providers()[0].info

    def __init__(self, *, api_key=None):
        self.api_key = api_key

    def _create(self, spec):
        raise NotImplementedError
"""


class PluginSite:
    """What `pip install --target` would have made of some distributions."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def path(self) -> list[str]:
        """The search path that finds only these distributions."""
        return [str(self.directory)]

    @contextmanager
    def importable(self) -> Iterator[PluginSite]:
        """Let the modules here be imported inside the block, and forget them after it."""
        sys.path.insert(0, str(self.directory))
        importlib.invalidate_caches()
        try:
            yield self
        finally:
            sys.path.remove(str(self.directory))
            for name, module in list(sys.modules.items()):
                if str(getattr(module, "__file__", "")).startswith(str(self.directory)):
                    del sys.modules[name]

    def distribution(
        self,
        name: str,
        version: str = "1.0",
        *,
        providers: Mapping[str, str] | None = None,
        entry_points: str | bytes | None = None,
        requires: Sequence[str] = (),
        folder: str | None = None,
    ) -> Path:
        """Add the metadata of one distribution; `entry_points` is the raw file where `providers` will not do."""
        metadata = self.directory / (folder or f"{name.replace('-', '_')}-{version}.dist-info")
        metadata.mkdir()
        lines = ["Metadata-Version: 2.3", f"Name: {name}", f"Version: {version}"]
        lines += (f"Requires-Dist: {requirement}" for requirement in requires)
        (metadata / "METADATA").write_text("\n".join([*lines, "", "Name: not-a-header"]) + "\n")
        if providers is not None:
            entry_points = "\n".join([f"[{PROVIDERS}]", *(f"{key} = {value}" for key, value in providers.items())])
        if entry_points is not None:
            content = entry_points.encode() if isinstance(entry_points, str) else entry_points
            (metadata / "entry_points.txt").write_bytes(content)
        return metadata

    def module(self, name: str, source: str) -> None:
        """Add an importable module."""
        (self.directory / f"{name}.py").write_text(dedent(source))

    def provider_module(
        self, name: str, provider_id: str, *, spi: object = ((0, 1), (0, 2)), isolation: str = "CONTAINER"
    ) -> None:
        """Add a hook module that contributes a provider, and the module of the provider beside it."""
        source = _PROVIDER_PLUGIN.format(module=name, provider_id=provider_id, spi=spi, isolation=isolation)
        self.module(name, source)
        self.module(f"{name}_provider", _PROVIDER.format(module=name))
