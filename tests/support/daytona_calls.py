"""Calls to an emulated Daytona as a client without comfort makes them, for tests of the emulator."""

from __future__ import annotations

import uuid
from typing import Any

from support.emulator_client import Answer, EmulatorClient

KEY = "dtn_any"


class DaytonaCalls:
    """Calls to the control API at `url`."""

    def __init__(self, url: str, key: str = KEY) -> None:
        self._client = EmulatorClient(url)
        self._headers = {"Authorization": f"Bearer {key}"}

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Return the answer to one request; header names are given with underscores."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self._client.call(method, path, body, {**self._headers, **named})

    def create(self, **body: Any) -> DaytonaBox:
        """Make a sandbox."""
        answer = self.call("POST", "/api/sandbox", body)
        assert answer.status == 200, answer
        return DaytonaBox(self, answer.json["id"])


class DaytonaBox:
    """Calls about one sandbox, and into it."""

    def __init__(self, calls: DaytonaCalls, sandbox_id: str) -> None:
        self.calls = calls
        self.sandbox_id = sandbox_id

    def control(self, method: str, suffix: str = "", body: Any = None) -> Answer:
        """Return the answer of the control API about this sandbox."""
        return self.calls.call(method, f"/api/sandbox/{self.sandbox_id}{suffix}", body)

    def toolbox(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Return the answer of its toolbox."""
        return self.calls.call(method, f"/toolbox/{self.sandbox_id}{path}", body, **headers)

    @property
    def state(self) -> str:
        """The state that is shown."""
        state: str = self.control("GET").json["state"]
        return state

    def run(self, command: str, **body: Any) -> Any:
        """Return what ``execute`` answers."""
        answer = self.toolbox("POST", "/process/execute", {"command": command, **body})
        assert answer.status == 200, answer
        return answer.json

    def session(self) -> str:
        """Start a session; return its id."""
        session_id = uuid.uuid4().hex
        assert self.toolbox("POST", "/process/session", {"sessionId": session_id}).status == 201
        return session_id

    def upload(self, *files: tuple[str, bytes]) -> Answer:
        """Upload files with one call."""
        parts = []
        for index, (path, content) in enumerate(files):
            parts.append(
                b'--B\r\nContent-Disposition: form-data; name="files[%d].path"\r\n\r\n%b\r\n' % (index, path.encode())
            )
            head = b'--B\r\nContent-Disposition: form-data; name="files[%d].file"; filename="f"\r\n\r\n' % index
            parts.append(head + content + b"\r\n")
        body = b"".join(parts) + b"--B--\r\n"
        return self.toolbox("POST", "/files/bulk-upload", body, Content_Type="multipart/form-data; boundary=B")
