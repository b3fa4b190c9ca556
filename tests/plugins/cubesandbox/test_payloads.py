from __future__ import annotations

import json
from typing import Any

import pytest

from ai4j_sandbox.errors import (
    Outcome,
    SandboxAuthError,
    SandboxCapacityError,
    SandboxConfigError,
    SandboxConflictError,
    SandboxConnectionError,
    SandboxException,
    SandboxNotFoundError,
    SandboxPermissionError,
    SandboxProtocolError,
    SandboxSessionLostError,
    SandboxTimeoutError,
)
from ai4j_sandbox.model import SandboxCommand, SandboxSpec
from ai4j_sandbox.spi import PortUrl
from ai4j_sandbox_cubesandbox.config import SETTINGS, CubeSandboxConfig, cube_config
from ai4j_sandbox_cubesandbox.payloads import (
    create_body,
    envd_address,
    envd_headers,
    explain_control,
    explain_proxy,
    login_arguments,
    metadata_query,
    reachable_port,
    sent_metadata,
)
from ai4j_sandbox_wire.faults import read_fault
from ai4j_sandbox_wire.message import HttpReply
from ai4j_sandbox_wire.sandbox_records import RemoteSandbox
from support.secrets import CANARY

SANDBOX = RemoteSandbox(sandbox_id="sb1")


def configured(config: dict[str, Any] | None = None, **environ: str) -> CubeSandboxConfig:
    environ = {"CUBE_TEMPLATE_ID": "tpl-1", **environ}
    return cube_config(SETTINGS.resolve(SandboxSpec(config=config or {}), environ=environ))


def reply(status: int, document: Any = None, content_type: str = "application/json") -> HttpReply:
    body = document if isinstance(document, bytes) else b"" if document is None else json.dumps(document).encode()
    return HttpReply(status=status, headers={"content-type": content_type}, body=body)


# --- what is sent -------------------------------------------------------------------------------------------------


def test_least_that_is_asked_for() -> None:
    assert create_body(configured(), {"a": "b"}) == {"templateID": "tpl-1", "timeout": 300, "metadata": {"a": "b"}}


def test_everything_that_can_be_asked_for() -> None:
    config = configured(
        {
            "timeoutSeconds": 60,
            "envVars": {"CI": "true", "PATH": "/opt/x"},
            "allowInternetAccess": False,
            "network": {"allowOut": ["10.0.0.0/8"], "rules": [{"name": "r"}]},
            "autoPause": True,
            "autoResume": True,
        }
    )

    assert create_body(config, {}) == {
        "templateID": "tpl-1",
        "timeout": 60,
        "metadata": {},
        "envVars": {"CI": "true"},  # a reserved name would be refused; commands get it all the same
        "allow_internet_access": False,
        "network": {"allowOut": ["10.0.0.0/8"], "rules": [{"name": "r"}]},
        "lifecycle": {"onTimeout": "pause", "autoResume": True},
        "autoPause": True,
    }


def test_missing_template_is_an_error_before_any_request() -> None:  # H32
    config = cube_config(SETTINGS.resolve(SandboxSpec(), environ={}))

    with pytest.raises(SandboxConfigError, match=r"templateID is required.*CUBE_TEMPLATE_ID") as caught:
        create_body(config, {})

    assert caught.value.outcome is Outcome.NOT_STARTED


def test_metadata_is_filtered_and_marked() -> None:
    options = configured({"metadata": {"run": "7", "API-Token": "x", "host-mount": "[]", "my_cookie": "c"}}).create

    assert sent_metadata(options, {"task": "t"}, "tag-1") == {
        "ai4jProvider": "cubesandbox",
        "run": "7",
        "host-mount": "[]",
        "task": "t",
        "ai4jCreate": "tag-1",
    }


@pytest.mark.parametrize(
    ("metadata", "query"),
    [
        ({}, None),
        ({"a": "b"}, "a=b"),
        ({"a": "b", "c": "d-e_f.g"}, "a=b&c=d-e_f.g"),
        ({"a": "x=y"}, None),  # CubeAPI decodes nothing inside: what cannot be asked for is sorted out here
        ({"a": "two words", "c": "d"}, "c=d"),
    ],
)
def test_filter_asks_for_what_can_be_asked_for(metadata: dict[str, str], query: str | None) -> None:
    assert metadata_query(metadata) == query


@pytest.mark.parametrize(
    ("command", "path", "arguments"),
    [
        ("echo a\\ ", None, ("sh", "-c", "echo a\\ ")),
        ("echo $PATH", "/opt/x:/bin", ("sh", "-c", "export PATH=/opt/x:/bin; echo $PATH")),  # F11
        ("pwd", "/a b:$x", ("sh", "-c", "export PATH='/a b:$x'; pwd")),
        (["git", "commit", "-m", "a b"], "/opt/x", ("git", "commit", "-m", "a b")),
    ],
)
def test_command_becomes_program_and_arguments(command: Any, path: str | None, arguments: tuple[str, ...]) -> None:
    assert login_arguments(SandboxCommand(command=command), ("sh", "-c"), path) == arguments


# --- what a refusal means -----------------------------------------------------------------------------------------


def meaning(explain: Any, answer: HttpReply) -> SandboxException | None:
    found: SandboxException | None = explain(answer, read_fault(answer, "POST http://h/sandboxes"))
    return found


@pytest.mark.parametrize(
    ("code", "kind", "outcome"),
    [
        ("130597", SandboxCapacityError, Outcome.NOT_STARTED),
        ("130404", SandboxNotFoundError, Outcome.NOT_STARTED),
        ("130409", SandboxConflictError, Outcome.NOT_STARTED),
        ("130490", SandboxConflictError, Outcome.NOT_STARTED),
        ("130400", SandboxConfigError, Outcome.NOT_STARTED),
        ("130595", SandboxTimeoutError, Outcome.UNKNOWN),
    ],
)
def test_code_inside_a_500_says_what_is_meant(code: str, kind: type[SandboxException], outcome: Outcome) -> None:
    found = meaning(explain_control(), reply(500, {"code": 500, "message": f"backend says ret_code={code}: no"}))

    assert type(found) is kind
    assert found.outcome is outcome


@pytest.mark.parametrize(
    "answer", [reply(500, {"message": "x"}), reply(404, {"code": 404, "message": "no"}), reply(408)]
)
def test_other_refusals_are_left_to_their_status(answer: HttpReply) -> None:
    assert meaning(explain_control(), answer) is None


def test_rejected_key_names_the_setting_and_a_withheld_one() -> None:
    refused = reply(401, {"code": 401, "message": "missing"})

    plain, withheld = meaning(explain_control(), refused), meaning(explain_control(withheld_key=True), refused)

    assert isinstance(plain, SandboxAuthError)
    assert "CUBE_API_KEY" in str(plain)
    assert "CUBE_ACCEPT_E2B_KEY" in str(withheld)


@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        (reply(404, {"error": "not found"}), SandboxSessionLostError, "CUBE_TIMEOUT"),
        (reply(410, {"error": "gone"}), SandboxSessionLostError, "gone"),
        (reply(403, {"error": "forbidden"}), SandboxPermissionError, "CUBE_TRAFFIC_ACCESS_TOKEN"),
        (reply(503, {"error": "service unavailable"}), SandboxConflictError, "paused"),
        (reply(502, b"<html>502</html>", "text/html"), SandboxConnectionError, "CUBE_ENVD_PORT"),
        (reply(504, b"<html>504</html>", "text/html"), SandboxConnectionError, "CUBE_ENVD_PORT"),
    ],
)
def test_answer_of_the_proxy_is_not_taken_for_envds(answer: HttpReply, kind: type[SandboxException], says: str) -> None:
    found = meaning(explain_proxy, answer)

    assert type(found) is kind
    assert says in str(found)


@pytest.mark.parametrize(
    "answer",
    [
        reply(404, {"code": 404, "message": "path not found"}),
        reply(404, {"code": "not_found", "message": "no process"}),
        reply(404, b"404 page not found", "text/plain"),
        reply(500, {"error": "internal"}),
    ],
)
def test_answer_of_envd_is_left_to_envd(answer: HttpReply) -> None:
    assert meaning(explain_proxy, answer) is None


# --- where a sandbox is -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "sandbox", "address"),
    [
        ({}, SANDBOX, "http://49983-sb1.cube.app"),
        ({"CUBE_SANDBOX_DOMAIN": ".cube.app"}, SANDBOX, "http://49983-sb1.cube.app"),  # K08
        ({"CUBE_SANDBOX_DOMAIN": "cube.app:8080"}, SANDBOX, "http://49983-sb1.cube.app:8080"),  # K08
        ({}, RemoteSandbox(sandbox_id="sb1", domain="told.app"), "http://49983-sb1.told.app"),
        ({"CUBE_ENVD_PORT": "49999"}, SANDBOX, "http://49999-sb1.cube.app"),
        ({"CUBE_PROXY_SCHEME": "https"}, SANDBOX, "https://49983-sb1.cube.app"),
        ({"CUBE_PROXY_PORT_HTTP": "8080"}, SANDBOX, "http://49983-sb1.cube.app:8080"),
        ({"CUBE_PROXY_NODE_IP": "10.0.0.1", "CUBE_PROXY_PORT_HTTP": "8080"}, SANDBOX, "http://49983-sb1.cube.app"),
        ({"CUBE_PROXY_URL": "https://p/x/"}, SANDBOX, "https://p/x/sandbox/sb1/49983"),
        ({"CUBE_ENVD_BASE_URL": "http://h:1", "CUBE_PROXY_URL": "http://p"}, SANDBOX, "http://h:1"),  # H34
    ],
)
def test_envd_is_found_in_three_ways(environ: dict[str, str], sandbox: RemoteSandbox, address: str) -> None:
    assert str(envd_address(configured(**environ), sandbox)) == address


@pytest.mark.parametrize("domain", ["evil.example/x", "a@evil.example", "evil.example?x", "a..b"])
def test_domain_that_would_lead_elsewhere_is_an_error(domain: str) -> None:  # I-42
    with pytest.raises(SandboxProtocolError):
        envd_address(configured(), RemoteSandbox(sandbox_id="sb1", domain=domain))


def test_api_key_never_goes_to_a_sandbox() -> None:
    sandbox = RemoteSandbox(sandbox_id="sb1", envd_access_token="envd", traffic_access_token="traffic")

    headers = envd_headers(configured(CUBE_API_KEY=CANARY), sandbox)

    assert headers == {"X-Access-Token": "envd", "e2b-traffic-access-token": "traffic"}


def test_traffic_token_of_the_host_is_for_a_sandbox_that_was_told_none() -> None:
    config = configured(CUBE_TRAFFIC_ACCESS_TOKEN="given")

    assert envd_headers(config, SANDBOX) == {"e2b-traffic-access-token": "given"}
    assert envd_headers(config, RemoteSandbox(sandbox_id="sb1", traffic_access_token="told")) == {
        "e2b-traffic-access-token": "told"
    }


@pytest.mark.parametrize(
    ("environ", "url", "host"),
    [
        ({}, "http://80-sb1.cube.app", None),
        ({"CUBE_PROXY_URL": "http://p"}, "http://p/sandbox/sb1/80", None),
        ({"CUBE_PROXY_NODE_IP": "10.0.0.1"}, "http://10.0.0.1", "80-sb1.cube.app"),
        ({"CUBE_PROXY_NODE_IP": "::1", "CUBE_PROXY_PORT_HTTP": "8"}, "http://[::1]:8", "80-sb1.cube.app"),
        ({"CUBE_ENVD_BASE_URL": "http://h:1"}, "http://h:1", "80-sb1.cube.app"),
    ],
)
def test_port_is_reached_in_the_same_way(environ: dict[str, str], url: str, host: str | None) -> None:
    assert reachable_port(configured(**environ), SANDBOX, 80) == PortUrl(
        url=url, headers={} if host is None else {"Host": host}
    )
