"""The `browser` tool: a real Chromium in a `local` sandbox where one is installed, and clear words where not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ai4j_agent.coding import SandboxWorkspace
from ai4j_agent.coding.browser import PROGRAMS
from ai4j_sandbox import SandboxCommand, SandboxSession, default_registry
from ai4j_sandbox.process import OutputChunk, ProcessChannel
from ai4j_sandbox.testing import FakeProvider, FakeResult
from ai4j_sandbox.testing.fake import FakeChannel
from support.coding_bench import Bench, local_works

PAGE = """<!doctype html><title>Shop</title><meta charset=utf-8>
<h1>Größe wählen</h1><p style="display:none">hidden</p>
<form action="answer.html"><input name=size><button>Go</button></form>
<button id=count onclick="this.textContent = Number(this.textContent) + 1">0</button>
<a style="position:absolute;top:3000px" href="answer.html">far below</a>
"""


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SandboxSession]:
    """A sandbox with a browser."""
    if not local_works():
        pytest.skip("the local provider cannot isolate commands on this machine")
    with default_registry().create_session(provider_id="local") as session:
        installed = f"for p in {' '.join(PROGRAMS)}; do command -v $p && exit; done; exit 1"
        if not session.execute(SandboxCommand(command=installed)).succeeded:
            pytest.skip("no Chromium is installed")
        session.files.write("index.html", PAGE)
        session.files.write("answer.html", "<title>Answer</title><p>Thank you</p>")
        yield session


@pytest.fixture(scope="module")
def page(sandbox: SandboxSession) -> Iterator[Bench]:
    """A bench whose browser shows the page when a test begins."""
    bench = Bench(SandboxWorkspace(sandbox))
    yield bench
    bench.workbench.browser.close()


@pytest.fixture
def shop(page: Bench) -> Bench:
    """The page, loaded anew."""
    page.call("browser", action="open", url="index.html")
    return page


def evaluated(bench: Bench, expression: str) -> Any:
    return bench.call("browser", action="evaluate", expression=expression)["value"]


def test_a_page_of_the_workspace_is_opened_and_read(shop: Bench) -> None:
    facts = shop.call("browser", action="open", url="index.html")

    assert facts == {"action": "open", "url": "file:///workspace/index.html", "title": "Shop"}
    said = shop.call("browser", action="text")
    assert said["text"].startswith("Größe wählen")
    assert "hidden" not in said["text"]


def test_a_server_inside_the_sandbox_is_reached(shop: Bench) -> None:
    started = shop.call("bash", action="start", command="exec python3 -m http.server 8123 --bind 127.0.0.1")
    shop.sh(
        "for i in $(seq 100); do python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8123))' "
        "2>/dev/null && exit; sleep 0.1; done; exit 1"
    )

    assert shop.call("browser", action="open", url="http://127.0.0.1:8123/answer.html")["title"] == "Answer"
    shop.call("bash", action="stop", processId=started["processId"])


def test_clicking_does_what_a_mouse_does_also_far_below(shop: Bench) -> None:
    shop.call("browser", action="click", selector="#count")
    shop.call("browser", action="click", selector="#count")
    assert evaluated(shop, "document.querySelector('#count').textContent") == "2"

    assert shop.call("browser", action="click", selector="a")["url"] == "file:///workspace/answer.html"
    assert shop.call("browser", action="text")["text"] == "Thank you"


def test_a_form_is_filled_in_and_sent(shop: Bench) -> None:
    facts = shop.call("browser", action="type", selector="input", content="größer 'x'", submit=True)

    assert facts["url"] == "file:///workspace/answer.html?size=gr%C3%B6%C3%9Fer+%27x%27"


def test_a_screenshot_becomes_an_artifact(shop: Bench) -> None:
    (artifact,) = shop.call("browser", action="screenshot")["artifacts"]

    assert (artifact["mimeType"], artifact["path"].startswith("/workspace/.ai4j/screenshot-")) == ("image/png", True)
    image = shop.workspace.files.read(artifact["path"])
    assert image.startswith(b"\x89PNG")
    assert len(image) == artifact["sizeBytes"]


def test_values_are_json_data_and_promises_are_waited_for(shop: Bench) -> None:
    assert evaluated(shop, "({a: [1, 'x', null], b: true})") == {"a": [1, "x", None], "b": True}
    assert evaluated(shop, "new Promise(done => setTimeout(() => done(7), 20))") == 7


def test_a_page_that_asks_somebody_is_told_no(shop: Bench) -> None:
    assert evaluated(shop, "[confirm('sure?'), prompt('name?')]") == [False, None]


def failure(bench: Bench, **arguments: Any) -> str:
    with pytest.raises(Exception) as failed:
        bench.call("browser", **arguments)
    return str(failed.value)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"action": "click", "selector": "#nothing"}, "nothing on the page matches '#nothing'"),
        ({"action": "evaluate", "expression": "nonsense("}, "the script failed: SyntaxError"),
        ({"action": "evaluate", "expression": "missing.name"}, "the script failed: ReferenceError"),
        ({"action": "open", "url": "missing.html"}, "cannot be opened: net::ERR_FILE_NOT_FOUND"),
        ({"action": "open", "url": "http://127.0.0.1:1/"}, "cannot be opened: net::ERR"),
        ({"action": "open", "url": "../outside.html"}, "escapes the workspace root"),
        ({"action": "open", "url": "file:///etc/passwd"}, "only http, https, about, data and paths"),
        ({"action": "open"}, "browser open needs url"),
        ({"action": "click"}, "browser click needs selector"),
        ({"action": "dance"}, "action must be one of"),
    ],
)
def test_what_does_not_work_is_told(shop: Bench, arguments: dict[str, Any], words: str) -> None:
    assert words in failure(shop, **arguments)


def test_a_browser_that_was_killed_is_told_and_another_one_starts_after_close(shop: Bench) -> None:
    shop.sh("for p in /proc/[0-9]*; do case $(readlink $p/exe) in *chrom*) kill -9 ${p#/proc/};; esac; done; true")

    assert "the browser ended" in failure(shop, action="text")
    shop.call("browser", action="close")
    assert shop.call("browser", action="open", url="index.html")["title"] == "Shop"


def test_closing_leaves_no_process_and_no_profile(sandbox: SandboxSession) -> None:
    bench = Bench(SandboxWorkspace(sandbox))
    bench.call("browser", action="open", url="about:blank")
    profiles = "ls -d /tmp/tmp.* 2>/dev/null | wc -l"
    before = int(bench.sh(profiles))

    bench.call("browser", action="close")
    bench.call("browser", action="close")

    assert int(bench.sh(profiles)) == before - 1


# --- where there is none ----------------------------------------


def bench_with(result: FakeResult) -> Bench:
    return Bench(SandboxWorkspace(FakeProvider(lambda command: result).create_session(), root="/w"))


def test_a_sandbox_without_a_browser_says_so() -> None:
    assert "no browser is installed there; looked for chromium" in failure(
        bench_with(FakeResult(exit_code=127)), action="open", url="about:blank"
    )


def test_a_browser_that_does_not_start_says_why() -> None:
    words = failure(bench_with(FakeResult(stderr="no room", exit_code=1)), action="open", url="about:blank")

    assert words == "the browser ended: no room"


class SilentChannel(FakeChannel):
    """Answers each request with an error of DevTools."""

    def write_stdin(self, data: bytes) -> None:
        answer = {"id": json.loads(data[:-1])["id"], "error": {"message": "not now"}}
        self._add(OutputChunk("stdout", json.dumps(answer).encode() + b"\0"))  # type: ignore[arg-type]  # equal to it


def test_a_request_that_devtools_refuses_is_told() -> None:
    def script(command: SandboxCommand) -> ProcessChannel:
        return SilentChannel(FakeResult(blocks=True), command)

    bench = Bench(SandboxWorkspace(FakeProvider(script).create_session(), root="/w"))

    assert failure(bench, action="open", url="about:blank") == "Target.createTarget failed: not now"
