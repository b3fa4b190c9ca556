"""`ai4j sandbox port`, `pause`, `resume` and `extend` with a session that can, and with one that cannot."""

from __future__ import annotations

import pytest

from ai4j_sandbox.spi import PortUrl
from ai4j_sandbox.testing import FakeProvider
from ai4j_sandbox.testing.fake import FakeSession
from support.command_line import document_of, invoke, registry_of
from support.secrets import CANARY, assert_no_secret


class AbleSession(FakeSession):
    """Can do everything, and notes what it did."""

    def port_url(self, port: int) -> PortUrl:
        return PortUrl(url=f"https://{port}.example", headers={"X-Token": CANARY})

    def pause(self) -> None:
        done.append("pause")

    def resume(self) -> None:
        done.append("resume")

    def extend(self, seconds: int) -> None:
        done.append(f"extend {seconds}")


class AbleProvider(FakeProvider):
    def connect(self, session_id, spec=None):
        session = super().connect(session_id, spec)
        session.__class__ = AbleSession
        return session


done: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    done.clear()


def run(provider: FakeProvider, command: str, *arguments: str):
    """Run one of the commands on the provider's only sandbox."""
    sandbox = provider.create_session().session_id
    return invoke("sandbox", command, f"fake/{sandbox}", *arguments, registry=registry_of(provider))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("pause",), "pause"),
        (("resume",), "resume"),
        (("extend", "2h"), "extend 7200"),
        (("extend", "0.1"), "extend 1"),
    ],
)
def test_what_the_session_can_is_done(arguments, expected):
    result = run(AbleProvider(), *arguments)

    assert (result.exit_code, done) == (0, [expected])


@pytest.mark.parametrize("arguments", [("pause",), ("resume",), ("extend", "60"), ("port", "80")])
def test_what_the_session_cannot_is_told_with_what_it_can(arguments):
    result = run(FakeProvider(), *arguments)

    assert result.exit_code == 2
    assert "it can do: streaming" in result.stderr


def test_a_port_is_told_by_its_url_alone():
    result = run(AbleProvider(), "port", "8080")

    assert (result.exit_code, result.stdout) == (0, "https://8080.example\n")


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_the_token_of_a_port_is_shown_only_when_asked_for(options):
    hidden = run(AbleProvider(), "port", "80", *options)
    shown = run(AbleProvider(), "port", "80", "--show-headers", *options)

    assert_no_secret(hidden.output)
    assert CANARY in shown.stdout


@pytest.mark.parametrize(
    "arguments", [("port", "0"), ("port", "65536"), ("port", "x"), ("extend", "soon"), ("extend", "-1h")]
)
def test_numbers_that_are_none_are_refused(arguments):
    assert run(AbleProvider(), *arguments).exit_code == 2


def test_json_tells_what_was_done():
    assert document_of(run(AbleProvider(), "extend", "60", "--json"))["done"] == "lives at least 60 seconds from now"
