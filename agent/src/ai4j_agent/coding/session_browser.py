"""The browser of one agent session."""

from __future__ import annotations

import threading

from ai4j_sandbox.spi import Browser

from .workspace import Workspace


class SessionBrowser:
    """Started when it is first used; ended with the session, or when the session works somewhere else."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._browser: Browser | None = None
        self._workspace: Workspace | None = None

    def on(self, workspace: Workspace) -> Browser:
        """Return the browser of a workspace."""
        with self._lock:
            if self._browser is None or self._workspace is not workspace:
                self._end()
                self._browser, self._workspace = workspace.open_browser(), workspace
            return self._browser

    def close(self) -> None:
        """End the browser. Idempotent."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        browser, self._browser = self._browser, None
        if browser is not None:
            browser.close()
