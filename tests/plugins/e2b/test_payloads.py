from __future__ import annotations

import json
from typing import Any

import pytest

from ai4j_sandbox.errors import (
    Outcome,
    SandboxAuthError,
    SandboxCapacityError,
    SandboxConflictError,
    SandboxConnectionError,
    SandboxException,
    SandboxNotFoundError,
    SandboxProtocolError,
    SandboxQuotaError,
    SandboxSessionLostError,
)
from ai4j_sandbox.model import SandboxSpec
from ai4j_sandbox.spi import PortUrl
from ai4j_sandbox_e2b.config import SETTINGS, E2BSandboxConfig, e2b_config
from ai4j_sandbox_e2b.payloads import (
    create_body,
    envd_address,
    envd_headers,
    explain_control,
    explain_edge,
    metadata_query,
    reachable_port,
    sent_metadata,
)
from ai4j_sandbox_wire.faults import read_fault
from ai4j_sandbox_wire.message import HttpReply
from ai4j_sandbox_wire.sandbox_records import RemoteSandbox
from support.secrets import CANARY


def config(options: dict[str, Any] | None = None, **environ: str) -> E2BSandboxConfig:
    return e2b_config(
        SETTINGS.resolve(SandboxSpec(config=options or {}), environ={"E2B_API_KEY": "unit-key"} | environ)
    )


# --- what is sent -------------------------------------------------------------------------------------------------


def test_create_asks_for_template_and_life_and_a_closed_door() -> None:
    assert create_body(config({"templateID": "base", "timeoutSeconds": 300}), {"task": "t"}) == {
        "templateID": "base",
        "timeout": 300,
        "metadata": {"task": "t"},
        "envVars": {},
        "secure": True,
    }


def test_create_sends_every_option_as_the_server_reads_it() -> None:
    options = {
        "secure": "true",
        "public": False,
        "allowInternetAccess": False,
        "network": {"denyOut": ["0.0.0.0/0"], "allowOut": ["10.0.0.0/8"]},
        "resources": {"cpu": 2},
        "autoPause": True,
        "autoResume": True,
        "env": {"CI": "true"},
    }

    body = create_body(config(options), {})

    assert json.loads(json.dumps(body)) == {
        "templateID": "base",
        "timeout": 300,
        "metadata": {},
        "envVars": {"CI": "true"},
        "secure": True,
        "autoPause": True,
        "autoResume": {"enabled": True},
        "allow_internet_access": False,
        "network": {"denyOut": ["0.0.0.0/0"], "allowOut": ["10.0.0.0/8"], "allowPublicTraffic": False},
        "resources": {"cpu": 2},
    }


def test_request_timeout_never_becomes_the_lifetime() -> None:  # C14
    assert create_body(config({"timeoutSeconds": 300, "readTimeoutMillis": 30000}), {})["timeout"] == 300


def test_metadata_is_filtered_and_tagged() -> None:
    options = config({"metadata": {"run": "7", "dbPassword": CANARY, "url": f"http://u:{CANARY}@h"}}).create

    sent = sent_metadata(options, {"ai4jOwner": "ai4j", "task": "t"}, "tag-1")

    assert sent == {
        "run": "7",
        "url": "http://[redacted]@h",
        "ai4jOwner": "ai4j",
        "task": "t",
        "ai4jCreate": "tag-1",
    }


@pytest.mark.parametrize(
    ("metadata", "query"),
    [({}, None), ({"a": "b"}, "a=b"), ({"a b": "c&d=e", "ü": "1"}, "a%20b=c%26d%3De&%C3%BC=1")],
)
def test_metadata_filter_encodes_each_part(metadata: dict[str, str], query: str | None) -> None:
    assert metadata_query(metadata) == query


# --- refusals -----------------------------------------------------------------------------------------------------


def explained(explain: Any, status: int, body: str, **headers: str) -> SandboxException | None:
    reply = HttpReply(status=status, headers={"content-type": "application/json"} | headers, body=body.encode())
    return explain(reply, read_fault(reply, "POST http://api/sandboxes"))


@pytest.mark.parametrize(
    ("status", "body", "kind", "says"),
    [
        (401, '{"code":401,"message":"bad key"}', SandboxAuthError, "E2B_API_KEY"),
        (400, '{"code":400,"message":"Invalid sandbox ID"}', SandboxNotFoundError, "Invalid sandbox ID"),
        (429, '{"code":429,"message":"maximum number of concurrent E2B sandboxes (20)"}', SandboxQuotaError, "ls"),
        (
            503,
            '{"code":503,"message":"full","error_code":"sandbox_capacity_unavailable"}',
            SandboxCapacityError,
            "no room",
        ),
    ],
)
def test_control_refusal_says_what_to_do(status: int, body: str, kind: type[SandboxException], says: str) -> None:
    error = explained(explain_control, status, body)

    assert type(error) is kind
    assert says in str(error)
    assert error.outcome is Outcome.NOT_STARTED


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, '{"code":404,"message":"template not found"}'),
        (429, '{"code":429,"message":"Rate limit exceeded"}'),
        (500, "<html>"),
        (504, '{"code":504,"message":"x","error_code":"sandbox_placement_timeout"}'),
    ],
)
def test_other_control_refusals_are_left_to_their_status(status: int, body: str) -> None:
    assert explained(explain_control, status, body) is None


@pytest.mark.parametrize(
    ("status", "body", "kind", "says"),
    [
        (
            502,
            '{"sandboxId":"s","message":"The sandbox was not found","code":502}',
            SandboxSessionLostError,
            "E2B_TIMEOUT",
        ),
        (
            502,
            '{"message":"The sandbox is running but port is not open","port":1,"code":502}',
            SandboxConnectionError,
            "E2B_ENVD_PORT",
        ),
        (409, '{"message":"The sandbox is still transitioning. Try again"}', SandboxConflictError, "paused or resumed"),
        (401, '{"code":401,"message":"unauthorized access"}', SandboxAuthError, "E2B_ACCESS_TOKEN"),
    ],
)
def test_answer_of_the_edge_says_what_to_do(status: int, body: str, kind: type[SandboxException], says: str) -> None:
    error = explained(explain_edge, status, body)

    assert type(error) is kind
    assert says in str(error)
    assert error.outcome is Outcome.NOT_STARTED


# --- the data plane -----------------------------------------------------------------------------------------------

SANDBOX = RemoteSandbox(sandbox_id="sid123")
SECURED = RemoteSandbox(sandbox_id="sid123", envd_access_token="envd-token")
PRIVATE_CLUSTER = RemoteSandbox(sandbox_id="sid123", domain="cluster.example")


@pytest.mark.parametrize(
    ("environ", "sandbox", "address"),
    [
        ({}, RemoteSandbox(sandbox_id="abc"), "https://49983-abc.e2b.app"),  # H17
        ({"E2B_DOMAIN": "e2b.test", "E2B_ENVD_PORT": "3000"}, SANDBOX, "https://3000-sid123.e2b.test"),  # H16
        ({"E2B_SANDBOX_URL": "http://127.0.0.1:9/x"}, PRIVATE_CLUSTER, "http://127.0.0.1:9/x"),  # H18
        ({}, PRIVATE_CLUSTER, "https://49983-sid123.cluster.example"),
    ],
)
def test_envd_is_at_the_derived_host_unless_told(environ: dict[str, str], sandbox: RemoteSandbox, address: str) -> None:
    assert str(envd_address(config(**environ), sandbox)) == address


@pytest.mark.parametrize("domain", ["evil.example/x", "evil@x", "http://x"])
def test_domain_that_the_service_made_up_is_refused(domain: str) -> None:
    with pytest.raises(SandboxProtocolError, match="domain"):
        envd_address(config(), RemoteSandbox(sandbox_id="s", domain=domain))


@pytest.mark.parametrize(
    ("options", "environ", "sandbox", "credentials"),
    [
        # The contract: without an envd token the API key is the Bearer.
        ({}, {}, SANDBOX, {"Authorization": "Bearer unit-key"}),
        ({"sendApiKeyAsBearer": False}, {}, SANDBOX, {}),
        # It stays within our own configuration.
        ({}, {}, PRIVATE_CLUSTER, {}),
        ({}, {"E2B_SANDBOX_URL": "http://127.0.0.1:9"}, PRIVATE_CLUSTER, {"Authorization": "Bearer unit-key"}),
        # A token of the sandbox's own is what it asks for, and comes before a configured one.
        ({}, {}, SECURED, {"Authorization": "Bearer envd-token", "X-Access-Token": "envd-token"}),
        (
            {},
            {"E2B_ACCESS_TOKEN": "mine"},
            SECURED,
            {"Authorization": "Bearer envd-token", "X-Access-Token": "envd-token"},
        ),
        ({}, {"E2B_ACCESS_TOKEN": "mine"}, PRIVATE_CLUSTER, {"Authorization": "Bearer mine", "X-Access-Token": "mine"}),
    ],
)
def test_credentials_of_the_data_plane(
    options: dict[str, Any], environ: dict[str, str], sandbox: RemoteSandbox, credentials: dict[str, str]
) -> None:
    headers = envd_headers(config(options, **environ), sandbox)

    assert headers == {"E2b-Sandbox-Id": "sid123", "E2b-Sandbox-Port": "49983"} | credentials


def test_port_is_reached_at_its_own_host_with_the_traffic_token() -> None:
    sandbox = RemoteSandbox(sandbox_id="sid123", traffic_access_token="traffic-token")

    assert reachable_port(config(), sandbox, 8080) == PortUrl(
        url="https://8080-sid123.e2b.app", headers={"e2b-traffic-access-token": "traffic-token"}
    )
    assert reachable_port(config(), SANDBOX, 8080) == PortUrl(url="https://8080-sid123.e2b.app")


def test_port_behind_a_proxy_is_named_by_headers() -> None:
    assert reachable_port(config(E2B_SANDBOX_URL="http://127.0.0.1:9"), SANDBOX, 8080) == PortUrl(
        url="http://127.0.0.1:9", headers={"E2b-Sandbox-Id": "sid123", "E2b-Sandbox-Port": "8080"}
    )
