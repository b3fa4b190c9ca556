"""The conformance suite: what every provider promises, as tests to inherit (`SandboxContract`)."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    *(
        f"{__name__}.{part}"
        for part in (
            "abilities",
            "artifacts",
            "events",
            "files",
            "lifecycle",
            "results",
            "secrets",
            "stdin",
            "stopping",
        )
    )
)

from .abilities import AbilitiesContract  # noqa: E402 - pytest must know the modules before they are imported
from .artifacts import ArtifactsContract  # noqa: E402 - same
from .events import EventsContract  # noqa: E402 - same
from .files import FilesContract  # noqa: E402 - same
from .lifecycle import LifecycleContract  # noqa: E402 - same
from .results import ResultsContract  # noqa: E402 - same
from .secrets import SecretsContract  # noqa: E402 - same
from .stdin import StdinContract  # noqa: E402 - same
from .stopping import StoppingContract  # noqa: E402 - same

__all__ = ["SandboxContract"]


class SandboxContract(
    ResultsContract,
    StdinContract,
    StoppingContract,
    EventsContract,
    FilesContract,
    ArtifactsContract,
    LifecycleContract,
    SecretsContract,
    AbilitiesContract,
):
    """Proves that a provider keeps the promises of the SPI. Inherit it, give one fixture, and run pytest::

        import pytest
        from ai4j_sandbox.testing import SandboxContract
        from my_sandbox import MyProvider

        class TestMySandbox(SandboxContract):
            misspelt_setting = ("deletOnClose", "deleteOnClose")  # optional, likewise `spec`

            @pytest.fixture
            def provider(self):
                return MyProvider(api_url="http://127.0.0.1:8080")

    Every test makes a session of its own and closes it. What the provider does not claim in its capabilities is
    skipped by name, with the reason it gives; what it claims is tested. The sandbox needs a POSIX ``sh`` and the
    usual tools (``cat``, ``find``, ``mktemp``, ``stat``); tests that need more skip by name.
    """
