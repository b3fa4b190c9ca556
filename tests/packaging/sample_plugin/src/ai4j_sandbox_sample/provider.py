"""The provider: says what can be configured, and creates the sandbox."""

from __future__ import annotations

import os
import shutil
import tempfile

from ai4j_sandbox import (
    SandboxProvider,
    SandboxSession,
    SandboxSpec,
    SessionDescription,
    Setting,
    SettingsTable,
)

from .hooks import INFO
from .session import SampleSession

SETTINGS = SettingsTable(
    INFO.provider_id,
    [
        Setting(
            name="shell",
            help="Program that runs a command given as one line",
            env=("AI4J_SAMPLE_SHELL",),
            config=("shell",),
            default="/bin/sh",
        ),
    ],
)


class SampleProvider(SandboxProvider):
    """Makes sandboxes that are directories of this machine."""

    info = INFO
    settings = SETTINGS

    def __init__(self, *, shell: str | None = None) -> None:
        self._arguments = {"shell": shell}

    def _create(self, spec: SandboxSpec) -> SandboxSession:
        settings = SETTINGS.resolve(spec, arguments=self._arguments)
        workspace = os.path.realpath(tempfile.mkdtemp(prefix="ai4j-sample-"))
        description = SessionDescription(session_id=os.path.basename(workspace), info=self.info, spec=spec)
        try:
            return SampleSession(description, workspace=workspace, shell=settings["shell"])
        except BaseException:
            shutil.rmtree(workspace)
            raise
