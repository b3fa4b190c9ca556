from __future__ import annotations

import pytest

from ai4j_sandbox.errors import SandboxConfigError, SandboxProtocolError
from ai4j_sandbox_wire.base_url import Origin
from ai4j_sandbox_wire.message import Body, HttpReply, HttpRequest, checked_headers, excerpt
from support.secrets import CANARY, assert_no_secret, everything_said

JSON = {"content-type": "application/json; charset=utf-8"}


@pytest.mark.parametrize(
    "value", [f"{CANARY}\n", f"a\r\nX-Evil: {CANARY}", f"{CANARY}\0", f"{CANARY}✓", f" {CANARY}", f"{CANARY}\xa0"]
)
def test_header_value_that_cannot_be_sent_is_refused_without_repeating_it(value: str) -> None:
    with pytest.raises(SandboxConfigError, match="X-API-Key") as caught:
        checked_headers({"X-API-Key": value})

    assert_no_secret(everything_said(caught.value))


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a\r\n", "ä"])
def test_header_name_that_is_no_token_is_refused(name: str) -> None:
    with pytest.raises(SandboxConfigError, match="header name"):
        checked_headers({name: "x"})


def test_latin_and_tab_pass() -> None:
    headers = {"X": "é\tb c", "Y": "", "Z": "z"}

    assert checked_headers(headers) == headers


def test_empty_body_is_no_json_value() -> None:
    assert HttpReply(status=204).json() is None


def test_json_of_another_type_is_refused_with_its_beginning() -> None:
    reply = HttpReply(
        status=200, headers={"content-type": "text/html"}, body=b"<html><title> Sign\n in </title>secret</html>"
    )

    with pytest.raises(SandboxProtocolError, match=r"status 200.*text/html.*titled 'Sign in'"):
        reply.json()


def test_mislabelled_json_is_parsed_when_told() -> None:
    reply = HttpReply(status=200, headers={"content-type": "text/plain"}, body=b'[{"name":"a"}]')

    assert reply.json(any_type=True) == [{"name": "a"}]


@pytest.mark.parametrize("body", [b"{", b"\x1f\x8b\x08", b"[" * 100_000])
def test_broken_json_is_a_protocol_error(body: bytes) -> None:
    with pytest.raises(SandboxProtocolError, match="JSON was expected"):
        HttpReply(status=200, headers=JSON, body=body).json()


@pytest.mark.parametrize(
    ("body", "kind"),
    [(b"", Body.NOTHING), (b" null ", Body.NOTHING), (b"{}", Body.OBJECT), (b"[]", Body.LIST), (b'"OK"', Body.VALUE)],
)
def test_body_is_what_it_holds_whatever_it_is_called(body: bytes, kind: Body) -> None:
    reply = HttpReply(status=200, headers={"content-type": "text/plain"}, body=body)

    for expected in (Body.NOTHING, Body.OBJECT, Body.LIST, Body.VALUE):
        if expected is kind:
            reply.require(expected)
        else:
            with pytest.raises(SandboxProtocolError, match="was expected"):
                reply.require(expected)


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        (Body.ACKNOWLEDGEMENT, "a JSON object or no body was expected"),
        (Body.LIST, "a JSON list was expected"),
        (Body.VALUE, "JSON was expected"),
    ],
)
def test_unexpected_body_is_told_with_what_was_expected(expected: Body, said: str) -> None:
    reply = HttpReply(
        status=201, headers=JSON | {"x-request-id": "r"}, body=b"[1]" if expected is not Body.LIST else b"7"
    )

    with pytest.raises(
        SandboxProtocolError, match=f"{said}, but the answer .status 201. is 'application/json'"
    ) as caught:
        reply.require(expected)

    assert (caught.value.http_status, caught.value.request_id) == (201, "r")


def test_request_hides_headers_body_and_query() -> None:
    request = HttpRequest(
        method="POST",
        origin=Origin("https", "h", 443),
        target=f"/files?signature={CANARY}",
        headers={"X-API-Key": CANARY},
        body=CANARY.encode(),
    )

    assert request.place == "POST https://h/files"
    assert_no_secret(repr(request.headers and request.place))
    assert "X-API-Key" not in repr(request)


def test_excerpt_is_one_bounded_line() -> None:
    assert excerpt("a\n  b") == "a b"
    assert excerpt("x" * 300) == "x" * 200 + "…"
