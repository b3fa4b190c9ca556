"""Whatever a client sends, it is told so: a status of 4xx in the service's own shape, never 500."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from ai4j_sandbox.testing import FakeProvider, FakeResult
from ai4j_sandbox_emulator import Emulator
from ai4j_sandbox_emulator.envd.call import Method, Unary
from ai4j_sandbox_emulator.envd.filesystem import FilesystemService
from ai4j_sandbox_emulator.envd.messages import Enumeration, Field, Message, Scalar
from ai4j_sandbox_emulator.envd.processes import ProcessService
from ai4j_sandbox_emulator.envelope import EnvelopeReader
from support.emulator_client import Answer, Box, EmulatorClient

NO_OBJECTS = (
    b"{",
    b"\xff\xfe",
    b"[]",
    b'"text"',
    b"5",
    b"null",
    b'{"unknown": NaN}',
    b'{"unknown": "\\ud800"}',
    b'{"unknown": ' + b"[" * 200 + b"]" * 200 + b"}",
    b"[" * 100_000 + b"]" * 100_000,
    b'{"timeout": ' + b"9" * 5000 + b"}",
)
ODD_VALUES: tuple[Any, ...] = (5, -1, 1.5, 10**30, True, "x", "", [], [5], ["x"], {}, {"x": 5}, {"x": "y"}, [[]], [{}])


@pytest.fixture(scope="module", params=["e2b", "cubesandbox", "cubesandbox-older"])
def control(request: pytest.FixtureRequest) -> Iterator[EmulatorClient]:
    """A control API whose clock stands still, so that no odd timeout ends a sandbox."""
    with Emulator(
        faces=(request.param,), provider=FakeProvider(lambda command: FakeResult()), clock=lambda: 1_000_000.0
    ) as emulator:
        yield EmulatorClient(emulator.url())


@pytest.fixture(scope="module")
def sandbox_id(control: EmulatorClient) -> str:
    return str(control.call("POST", "/sandboxes", {"templateID": "t", "timeout": 60}).json["sandboxID"])


# --- the control APIs -------------------------------------------------------------------------------------------------

BODIES = {
    "POST /sandboxes": (
        *("templateID", "timeout", "secure", "autoPause", "autoPauseMemory", "autoResume", "metadata", "envVars"),
        *("envs", "allow_internet_access", "network", "volumeMounts", "lifecycle", "mcp", "iam"),
    ),
    "POST /v2/sandboxes": ("templateID", "timeout", "metadata", "envVars", "network"),
    "POST /sandboxes/{id}/connect": ("timeout",),
    "POST /v2/sandboxes/{id}/connect": ("timeout",),
    "POST /sandboxes/{id}/resume": ("timeout",),
    "POST /sandboxes/{id}/timeout": ("timeout",),
    "POST /sandboxes/{id}/refreshes": ("duration",),
    "PUT /sandboxes/{id}/network": ("allowOut", "denyOut", "egressProxy", "rules", "allow_internet_access"),
    "POST /sandboxes/{id}/snapshots": ("name",),
    "POST /sandboxes/{id}/rollback": ("snapshotID",),
    "POST /sandboxes/{id}/fork": ("timeout",),
}
NETWORK = ("allowPublicTraffic", "allowOut", "denyOut", "egressProxy", "maskRequestHost", "rules")


def send(client: EmulatorClient, call: str, sandbox_id: str, body: bytes) -> Answer:
    method, path = call.split()
    return client.call(method, path.replace("{id}", sandbox_id), body, {"Content-Type": "application/json"})


def fits(answer: Answer) -> bool:
    """Whether an answer is one of the service's own: what it refuses has a code and a text, or is plain text."""
    if answer.status < 400:
        return True
    if answer.status >= 500:
        return False
    if "json" not in answer.headers.get("Content-Type", ""):
        return True
    return bool(answer.json["code"] == answer.status and answer.json["message"])


@pytest.mark.parametrize("call", BODIES)
def test_body_that_is_no_object_is_refused(control: EmulatorClient, sandbox_id: str, call: str) -> None:
    answers = [send(control, call, sandbox_id, body) for body in NO_OBJECTS]

    assert [answer for answer in answers if not (fits(answer) and answer.status >= 400)] == []


@pytest.mark.parametrize(("call", "names"), BODIES.items())
def test_field_of_any_type_is_taken_or_refused(
    control: EmulatorClient, sandbox_id: str, call: str, names: tuple[str, ...]
) -> None:
    documents = [{"templateID": "t", "timeout": 60, name: value} for name in names for value in ODD_VALUES]

    answers = [(each, send(control, call, sandbox_id, json.dumps(each).encode())) for each in documents]

    assert [pair for pair in answers if not fits(pair[1])] == []


def test_network_rules_of_any_type_are_taken_or_refused(control: EmulatorClient, sandbox_id: str) -> None:
    networks = [{name: value} for name in NETWORK for value in ODD_VALUES]
    created = [{"templateID": "t", "secure": True, "network": network} for network in networks]
    calls = [("POST /sandboxes", each) for each in created] + [
        ("PUT /sandboxes/{id}/network", each) for each in networks
    ]

    answers = [(call, each, send(control, call, sandbox_id, json.dumps(each).encode())) for call, each in calls]

    assert [answer for answer in answers if not fits(answer[2])] == []


@pytest.mark.parametrize(
    "value", ["x", "%C2%B2", "9" * 5000, "-1", "1e5", "%FF", "%00", "%ED%A0%80", "0001-01-01", "1__2"]
)
@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/sandboxes", ("metadata",)),
        ("/v2/sandboxes", ("metadata", "state", "limit", "nextToken", "order", "startedAfter", "template")),
        ("/snapshots", ("limit", "nextToken", "sandboxID", "name")),
        ("/sandboxes/metrics", ("sandbox_ids",)),
        ("/sandboxes/{id}/metrics", ("start", "end")),
        ("/sandboxes/{id}/logs", ("start", "limit")),
        ("/v2/sandboxes/{id}/logs", ("cursor", "limit", "direction", "level", "search")),
    ],
)
def test_query_of_any_kind_is_taken_or_refused(
    control: EmulatorClient, sandbox_id: str, path: str, names: tuple[str, ...], value: str
) -> None:
    answers = [control.call("GET", f"{path.replace('{id}', sandbox_id)}?{name}={value}") for name in names]

    assert [answer for answer in answers if not fits(answer)] == []


@pytest.mark.parametrize("name", ["Authorization", "X-API-Key", "Idempotency-Key", "E2b-Sandbox-Port", "Content-Type"])
def test_header_of_any_bytes_is_taken_or_refused(control: EmulatorClient, name: str) -> None:
    values = ("\xff", "Basic \xff", "Bearer \xff", "9" * 5000, "²", "")

    answers = [control.call("POST", "/v2/sandboxes", b"{}", {name: value}) for value in values]

    assert [answer for answer in answers if not fits(answer)] == []


@pytest.mark.parametrize("body", NO_OBJECTS)
def test_fault_that_is_none_is_refused(control: EmulatorClient, body: bytes) -> None:
    assert control.call("POST", "/_emulator/faults", body).status == 400


# --- envd: the calls --------------------------------------------------------------------------------------------------

METHODS: dict[str, Method] = {
    **{f"process.Process/{name}": method for name, method in ProcessService().methods().items()},
    **{f"filesystem.Filesystem/{name}": method for name, method in FilesystemService().methods().items()},
}
WRONG_VALUES: dict[Scalar, tuple[Any, ...]] = {
    Scalar.STRING: (5, True, [], {}, "\ud800"),
    Scalar.BYTES: (5, [], "!", "A", "\udcff"),
    Scalar.BOOL: (1, "true", [], {}),
    Scalar.UINT32: (-1, 2**32, 1.5, 10**30, float("inf"), "x", True, [], {}),
}


def wrong_values(field: Field) -> tuple[Any, ...]:
    single: tuple[Any, ...]
    match field.kind:
        case Message():
            single = (
                5,
                "x",
                [],
                *({inner.name: wrong} for inner in field.kind.fields for wrong in wrong_values(inner)),
            )
        case Enumeration():
            single = ("NO_SUCH_NAME", {}, [], 1.5)
        case scalar:
            single = WRONG_VALUES[scalar]
    if field.repeated:
        return (5, "x", {}, *([wrong] for wrong in single))
    return (5, "x", [], *({"key": wrong} for wrong in single), {"\ud800": ""}) if field.string_map else single


def refusal(box: Box, name: str, content: bytes, kind: str = "json", **headers: str) -> str:
    """Return the code with which a call fails; of a stream, that in its last frame."""
    if isinstance(METHODS[name], Unary):
        answer = box.call("POST", f"/{name}", content, **{"Content-Type": f"application/{kind}", **headers})
        return str(answer.json["code"]) if answer.status >= 400 and answer.body else str(answer.status)
    body = struct.pack(">BI", 0, len(content)) + content
    answer = box.call("POST", f"/{name}", body, **{"Content-Type": f"application/connect+{kind}", **headers})
    return last_code(answer)


def last_code(answer: Answer) -> str:
    last = EnvelopeReader().feed(answer.body)[-1]
    return str(json.loads(last.payload)["error"]["code"]) if last.flags & 2 else "no end"


@pytest.mark.parametrize("name", METHODS)
def test_call_without_an_object_is_an_invalid_argument(shared_box: Box, name: str) -> None:
    assert {body: refusal(shared_box, name, body) for body in NO_OBJECTS if b"timeout" not in body} == {
        body: "invalid_argument" for body in NO_OBJECTS if b"timeout" not in body
    }


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.request.fields])
def test_field_of_a_wrong_type_is_an_invalid_argument(shared_box: Box, name: str) -> None:
    documents = [
        json.dumps({field.name: wrong}).replace("Infinity", "1e999")
        for field in METHODS[name].request.fields
        for wrong in wrong_values(field)
    ]

    codes = {document: refusal(shared_box, name, document.encode()) for document in documents}

    assert {document: code for document, code in codes.items() if code != "invalid_argument"} == {}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("content", [b"\x0a\xff", b"\x0f", b"\xff" * 10, b"\xff" * 9 + b"\x7f", b"\x80"])
def test_binary_message_that_is_none_is_an_invalid_argument(shared_box: Box, name: str, content: bytes) -> None:
    assert refusal(shared_box, name, content, kind="proto") == "invalid_argument"


def test_binary_text_that_is_no_utf8_is_an_invalid_argument(shared_box: Box) -> None:
    assert refusal(shared_box, "filesystem.Filesystem/Stat", b"\x0a\x01\xff", kind="proto") == "invalid_argument"


@pytest.mark.parametrize("rows", [2**16, 2**32 - 1])
def test_terminal_of_an_absurd_size_is_an_invalid_argument(shared_box: Box, rows: int) -> None:
    pty = {"size": {"rows": rows, "cols": 80}}

    started = refusal(
        shared_box, "process.Process/Start", json.dumps({"process": {"cmd": "true"}, "pty": pty}).encode()
    )

    assert started == "invalid_argument"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "unimplemented"),
        (b"\0\0", "invalid_argument"),
        (b"\0\0\0\0\x05{}", "invalid_argument"),
        (b"\0\xff\xff\xff\xff{}", "invalid_argument"),
        (b"\x01\0\0\0\x02{}", "invalid_argument"),
        (b"\x01\0\0\0\x0a" + gzip.compress(b"{}")[:10], "invalid_argument"),
        (b"\0\0\0\0\x02{}" * 2, "unimplemented"),
    ],
)
def test_envelopes_that_are_none_are_told_in_the_stream(shared_box: Box, body: bytes, code: str) -> None:
    kind = {"Content-Type": "application/connect+json", "Connect-Content-Encoding": "gzip"}

    answer = shared_box.call("POST", "/process.Process/Start", body, **kind)

    assert (answer.status, last_code(answer)) == (200, code)


def test_compressed_message_beyond_the_limit_is_refused_before_it_is_whole(shared_box: Box) -> None:
    bomb = gzip.compress(b" " * (17 * 1024 * 1024), 9)
    body = struct.pack(">BI", 1, len(bomb)) + bomb

    answer = shared_box.call("POST", "/process.Process/Start", body, **{"Content-Type": "application/connect+json"})

    assert last_code(answer) == "invalid_argument"


@pytest.mark.parametrize("value", ["9" * 5000, "9" * 11, "²", "-1", "1.5", "\xff"])
def test_timeout_of_a_stream_is_digits(shared_box: Box, value: str) -> None:
    kind = {"Content-Type": "application/connect+json", "Connect-Timeout-Ms": value}

    answer = shared_box.call("POST", "/filesystem.Filesystem/WatchDir", b"\0\0\0\0\x02{}", **kind)

    assert last_code(answer) == "invalid_argument"


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("X-Access-Token", "\xff", 401),
        ("Connect-Protocol-Version", "\xff", 400),
        ("Keepalive-Ping-Interval", "9" * 5000, 200),
        ("Keepalive-Ping-Interval", "²", 200),
        ("Authorization", "Basic \xff", 200),
        ("Authorization", "Basic bm9ib2R5Og==", 401),
        ("Content-Encoding", "zstd", 400),
        ("Content-Encoding", "gzip", 400),
    ],
)
def test_header_of_a_call_is_taken_or_refused(shared_box: Box, name: str, value: str, status: int) -> None:
    answer = shared_box.call(
        "POST", "/process.Process/List", b"{}", **{"Content-Type": "application/json", name: value}
    )

    assert answer.status == status


# --- envd: files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [*NO_OBJECTS, b"{}", b'{"source_paths": "ab", "destination": "c"}'])
def test_composition_that_cannot_be_meant_is_refused(shared_box: Box, body: bytes) -> None:
    answer = shared_box.call("POST", "/files/compose", body)

    assert (answer.status, answer.json["code"]) == (400, 400)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("multipart/form-data", b"x"),
        ("multipart/form-data; boundary=b", b"x"),
        ("multipart/form-data; boundary=b", b""),
        (
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\ncut',
        ),
        ("multipart/form-data; boundary=b", b"--b\r\nno header at all\r\n\r\n--b--"),
        ("multipart/form-data; boundary=" + "b" * 200, b"x"),
        ("text/plain", b"x"),
        ("\xff", b"x"),
    ],
)
def test_upload_that_cannot_be_read_is_refused(shared_box: Box, kind: str, body: bytes) -> None:
    answer = shared_box.call("POST", "/files", body, **{"Content-Type": kind})

    assert (answer.status, answer.json["code"]) == (400, 400)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "\xff"])
def test_upload_whose_compression_is_broken_is_refused(shared_box: Box, encoding: str) -> None:
    kind = {"Content-Type": "application/octet-stream", "Content-Encoding": encoding}

    assert shared_box.call("POST", "/files?path=broken", b"not compressed", **kind).status == 400


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Range", "bytes=²-"),
        ("Range", f"bytes={'9' * 5000}-"),
        ("If-Modified-Since", "\xff"),
        ("If-Modified-Since", "Mon, 01 Jan 0001 00:00:00 +2359"),
        ("Accept-Encoding", "\xff"),
        ("X-Access-Token", "\xff"),
        ("X-Metadata-a", "\xff"),
    ],
)
def test_header_of_a_download_is_taken_or_refused(shared_box: Box, name: str, value: str) -> None:
    assert shared_box.call("GET", "/files?path=/etc/passwd", **{name: value}).status < 500


@pytest.mark.parametrize(
    "query",
    [
        "path=%FF",
        "path=%ED%A0%80",
        "path=%00",
        "path=~x/y",
        "path=/etc/passwd&username=%FF",
        "",
        "path=a/" + "b" * 3000,
    ],
)
def test_query_of_a_transfer_is_taken_or_refused(shared_box: Box, query: str) -> None:
    read = shared_box.call("GET", f"/files?{query}")
    signed = shared_box.client.call(
        "GET", f"/files?{query}&signature=%FF&signature_expiration=%C2%B2", headers=shared_box.headers
    )

    assert read.status in (400, 401, 404)
    assert signed.status < 500
