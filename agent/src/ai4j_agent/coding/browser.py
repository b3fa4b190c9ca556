"""A browser in the workspace, where one is installed: Chromium, driven through its input and output.

`--remote-debugging-pipe` lets Chromium speak the DevTools protocol on two descriptors. The launcher makes the command's
stdin and stdout of them, so that no port is opened and every provider that has stdin can do it. The profile is a
directory of the sandbox that goes with the browser.
"""

from __future__ import annotations

import base64
import contextlib
import json
import queue
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.errors import (
    SandboxException,
    SandboxNotFoundError,
    SandboxTimeoutError,
    UnsupportedCapabilityError,
)
from ai4j_sandbox.model import OutputStream, SandboxCommand
from ai4j_sandbox.process import SandboxProcess

from .devtools import DevToolsDecoder, encode

Start: TypeAlias = Callable[[SandboxCommand], SandboxProcess]

PROGRAMS = (
    "chromium",
    "chromium-headless-shell",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
)
"""Names a browser may be installed under, in the order in which they are looked for."""

LOAD_SECONDS = 30.0
"""How long a page may take."""

_SETTLE_SECONDS = 0.1
_ENDING_SECONDS = 2.0
_KEPT_ERROR_CHARACTERS = 2000
_NOT_INSTALLED = 127

_LAUNCH = f"""
exec 3<&0 4>&1 </dev/null >&2
for program in {" ".join(PROGRAMS)}; do
    if command -v "$program" >/dev/null; then
        profile=$(mktemp -d) || exit 1
        trap 'rm -rf "$profile"' EXIT
        trap 'exit 143' TERM
        "$program" --remote-debugging-pipe --user-data-dir="$profile" "$@" about:blank
        exit
    fi
done
exit {_NOT_INSTALLED}
"""

_OPTIONS = (
    "--headless",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--window-size=1280,800",
)

# Chromium cannot build its own walls inside of a sandbox; there the sandbox is the wall.
_INSIDE_A_SANDBOX = ("--no-sandbox",)


class DevToolsBrowser:
    """A Chromium with one page; see `ai4j_sandbox.Browser` for what its methods promise.

    Args:
        start: Starts commands where the browser is.
        isolated: Whether that is a sandbox.

    Raises:
        UnsupportedCapabilityError: No browser is installed there, or commands have no stdin.
        SandboxException: It does not start.
    """

    def __init__(self, start: Start, *, isolated: bool) -> None:
        options = (*_OPTIONS, *(_INSIDE_A_SANDBOX if isolated else ()))
        command = SandboxCommand(command=("/bin/sh", "-c", _LAUNCH, "sh", *options), keep_stdin_open=True)
        self._using = threading.RLock()
        self._connection = _Connection(start(command))
        try:
            target = self._connection.call("Target.createTarget", {"url": "about:blank"})["targetId"]
            attached = self._connection.call("Target.attachToTarget", {"targetId": target, "flatten": True})
            self._page = attached["sessionId"]
            self._call("Page.enable")
        except BaseException:
            self._connection.close()
            raise

    def open(self, url: str) -> str:
        """Load a page and return its title."""
        with self._using:
            deadline = Deadline(LOAD_SECONDS)
            self._connection.forget_events()
            answer = self._call("Page.navigate", {"url": url})
            if answer.get("errorText"):
                raise SandboxException(f"{url} cannot be opened: {answer['errorText']}", operation="browser")
            if "loaderId" in answer:  # otherwise only the part of the page changed
                self._connection.wait_for("Page.loadEventFired", deadline)
            return str(self.evaluate("document.title"))

    def text(self) -> str:
        """Return the text of the page."""
        return str(self.evaluate("(document.body || document.documentElement).innerText || ''"))

    def screenshot(self) -> bytes:
        """Return what is visible, as a PNG image."""
        with self._using:
            return base64.b64decode(self._call("Page.captureScreenshot", {"format": "png"})["data"])

    def click(self, selector: str) -> None:
        """Click in the middle of an element."""
        with self._using:
            place = self._on_element(selector, _MIDDLE)
            mouse = {"x": place["x"], "y": place["y"], "button": "left", "clickCount": 1}
            for kind in ("mousePressed", "mouseReleased"):
                self._call("Input.dispatchMouseEvent", {"type": kind, **mouse})
            self._settle()

    def type(self, selector: str, text: str, *, submit: bool = False) -> None:
        """Type into an element."""
        with self._using:
            self._on_element(selector, "element.focus()")
            self._call("Input.insertText", {"text": text})
            if submit:
                for kind in ("keyDown", "keyUp"):
                    self._call("Input.dispatchKeyEvent", {"type": kind, **_ENTER})
                self._settle()

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression."""
        options = {"expression": expression, "returnByValue": True, "awaitPromise": True, "userGesture": True}
        with self._using:
            answer = self._call("Runtime.evaluate", options)
        problem = answer.get("exceptionDetails")
        if problem is not None:
            words = problem.get("exception", {}).get("description") or problem.get("text")
            raise SandboxException(f"the script failed: {words}", operation="browser")
        return answer["result"].get("value")

    def close(self) -> None:
        """End the browser. Idempotent."""
        self._connection.close()

    def _call(self, method: str, parameters: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return self._connection.call(method, parameters or {}, self._page)

    def _on_element(self, selector: str, action: str) -> Any:
        script = (
            f"(() => {{ const element = document.querySelector({json.dumps(selector)}); "
            f"if (!element) return null; element.scrollIntoView({{block: 'center'}}); return ({action}) || true; }})()"
        )
        found = self.evaluate(script)
        if found is None:
            raise SandboxNotFoundError(f"nothing on the page matches {selector!r}", operation="browser")
        return found

    def _settle(self) -> None:
        """Wait until what an action may have begun to load is there."""
        deadline = Deadline(LOAD_SECONDS)
        waiting = f"new Promise(done => setTimeout(() => done(document.readyState), {_SETTLE_SECONDS * 1000:.0f}))"
        while not deadline.expired:
            # A page that is left takes its script with it.
            with contextlib.suppress(SandboxException):
                if self.evaluate(waiting) == "complete":
                    return
        raise SandboxTimeoutError(f"the page was not there after {LOAD_SECONDS:.0f} s", operation="browser")


_MIDDLE = "(box => ({x: box.left + box.width / 2, y: box.top + box.height / 2}))(element.getBoundingClientRect())"
_ENTER = {"key": "Enter", "code": "Enter", "text": "\r", "windowsVirtualKeyCode": 13}


class _Connection:
    """Requests and answers of one browser process. A thread of its own receives."""

    def __init__(self, process: SandboxProcess) -> None:
        self._process = process
        self._messages: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._events: list[dict[str, Any]] = []
        self._calling = threading.Lock()
        self._number = 0
        self._said = ""
        self._failure: SandboxException | None = None
        self._receiver = threading.Thread(target=self._receive, name=f"browser {process.command_id}", daemon=True)
        self._receiver.start()

    def call(self, method: str, parameters: Mapping[str, Any], session_id: str | None = None) -> dict[str, Any]:
        """Send a request and return its result."""
        with self._calling:
            deadline = Deadline(LOAD_SECONDS)
            self._number += 1
            try:
                self._process.write_stdin(encode(self._number, method, parameters, session_id))
            except SandboxException as error:
                raise self._ended() from error
            while True:
                message = self._next(deadline, method)
                if message.get("id") == self._number:
                    return _result(message, method)
                if "method" in message:
                    self._events.append(message)

    def forget_events(self) -> None:
        """Forget what happened so far."""
        self._events.clear()

    def wait_for(self, event: str, deadline: Deadline) -> None:
        """Return when an event happened since `forget_events`."""
        while not any(message["method"] == event for message in self._events):
            message = self._next(deadline, event)
            if "method" in message:
                self._events.append(message)

    def close(self) -> None:
        """End the process."""
        if not self._process.done:
            with contextlib.suppress(SandboxException):
                self._process.write_stdin(encode(0, "Browser.close", {}))
            self._receiver.join(_ENDING_SECONDS)
        self._process.cancel()

    def _receive(self) -> None:
        decoder = DevToolsDecoder()
        try:
            for chunk in self._process.output():
                if chunk.stream is OutputStream.STDERR:
                    self._said = (self._said + chunk.data.decode("utf-8", "replace"))[-_KEPT_ERROR_CHARACTERS:]
                    continue
                for message in decoder.feed(chunk.data):
                    self._messages.put(message)
                    self._dismiss_dialog(message)
        except SandboxException as error:
            self._failure = error
        finally:
            self._messages.put(None)

    def _dismiss_dialog(self, message: Mapping[str, Any]) -> None:
        """Close what a page would ask a person, because everything on the page waits for the answer."""
        if message.get("method") == "Page.javascriptDialogOpening":
            answer = encode(0, "Page.handleJavaScriptDialog", {"accept": False}, message.get("sessionId"))
            with contextlib.suppress(SandboxException):
                self._process.write_stdin(answer)

    def _next(self, deadline: Deadline, what: str) -> dict[str, Any]:
        try:
            message = self._messages.get(timeout=deadline.remaining())
        except queue.Empty:
            raise SandboxTimeoutError(f"the browser did not answer to {what}", operation="browser") from None
        if message is None:
            self._messages.put(None)  # for whoever asks next
            raise self._ended()
        return message

    def _ended(self) -> SandboxException:
        if self._failure is not None:
            return self._failure
        self._receiver.join(_ENDING_SECONDS)
        if self._process.done and self._process.wait().exit_code == _NOT_INSTALLED:
            return UnsupportedCapabilityError(
                f"no browser is installed there; looked for {', '.join(PROGRAMS)}",
                hint="use an image that has Chromium",
                operation="browser",
            )
        return SandboxException(f"the browser ended: {self._said.strip() or 'without a word'}", operation="browser")


def _result(message: Mapping[str, Any], method: str) -> dict[str, Any]:
    if "error" in message:
        raise SandboxException(f"{method} failed: {message['error'].get('message')}", operation="browser")
    result = message.get("result")
    return result if isinstance(result, dict) else {}
