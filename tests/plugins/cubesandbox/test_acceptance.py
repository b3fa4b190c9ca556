"""The acceptance tests of the Java original (`CubeSandboxProviderTest`), case by case, as behaviour of this provider.

One stub answers for both planes; ``CUBE_ENVD_BASE_URL`` leads the data plane to it.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ai4j_sandbox.errors import (
    SandboxAdmissionError,
    SandboxException,
    SandboxOutcomeUnknownError,
    SandboxPermissionError,
)
from ai4j_sandbox.model import SandboxCommand, SandboxSpec, SandboxStatus
from ai4j_sandbox_cubesandbox import CubeSandboxProvider
from ai4j_sandbox_cubesandbox.config import SETTINGS
from support.cube_stub import CREATED, CubeStub
from support.e2b_stub import answer, stream
from support.envd_stub import END_OF_STREAM, EXITED, START, failure, output

START_CALL = "POST /process.Process/Start"


def test_31_create_execute_destroy() -> None:
    frames = stream(START, output(b"ai4j-cubesandbox-ok"), EXITED, END_OF_STREAM)
    created = answer({**CREATED, "envdAccessToken": "envd-token"}, 201)
    spec = SandboxSpec(
        provider_id="cubesandbox",
        image="tpl-from-image",
        workspace_id="/workspace",
        labels={"task": "demo", "apiKey": "label-secret"},
        config={"allowInternetAccess": False},
    )
    answers = {START_CALL: frames, "POST /sandboxes": created, "POST /filesystem.Filesystem/MakeDir": answer({})}
    with CubeStub(answers) as stub:
        session = stub.provider().create_session(spec)
        result = session.execute(
            SandboxCommand(command_id="hello", command="printf ai4j-cubesandbox-ok", timeout_millis=2000)
        )
        session.close()

    (create,) = stub.requests("POST /sandboxes")
    body = json.loads(create.body)
    assert create.headers["authorization"] == "Bearer unit-secret"
    assert (body["templateID"], body["allow_internet_access"]) == ("tpl-from-image", False)
    assert "allowInternetAccess" not in body
    assert "apiKey" not in body["metadata"]
    assert "ai4jWorkspaceId" not in body["metadata"]
    assert dict(session.spec.labels) == {"task": "demo"}  # and nothing of the service among them
    assert (result.exit_code, result.stdout, result.stderr, result.artifacts) == (0, "ai4j-cubesandbox-ok", "", ())
    (start,) = stub.requests(START_CALL)
    assert start.headers["authorization"] == "Basic cm9vdDo="
    assert start.headers["connect-protocol-version"] == "1"
    assert start.headers["connect-timeout-ms"] == "3500"  # ours of 2000 comes first, and is polite
    assert start.headers["x-access-token"] == "envd-token"
    assert "unit-secret" not in str(start.headers)
    assert start.body[:5] == b"\0" + len(start.body[5:]).to_bytes(4)
    process = json.loads(start.body[5:])["process"]
    assert [process["cmd"], *process["args"]] == ["/bin/bash", "-l", "-c", "printf ai4j-cubesandbox-ok"]
    assert process["cwd"] == "/workspace"
    assert session.status is SandboxStatus.CLOSED
    assert stub.asked[-1] == "DELETE /sandboxes/sb1"


def test_32_missing_template() -> None:
    with CubeStub() as stub, pytest.raises(SandboxException, match="templateID is required"):
        CubeSandboxProvider(environ=stub.environ(CUBE_TEMPLATE_ID="")).create_session()

    assert stub.asked == []


def test_33_milliseconds_stay_milliseconds() -> None:
    settings = SETTINGS.resolve(SandboxSpec(config={"requestTimeoutMillis": 750}), environ={})

    assert settings["request_timeout_millis"] == 750


def test_34_base_url_is_used_for_processes_whatever_the_port() -> None:
    with CubeStub() as stub, stub.provider(envd_port=1).create_session() as session:
        assert session.execute(SandboxCommand(command="true")).exit_code == 0

    assert len(stub.starts()) == 1


def test_35_connect_existing() -> None:
    with CubeStub() as stub:
        session = stub.provider().connect("sb1", SandboxSpec(workspace_id="/workspace"))
        session.execute(SandboxCommand(command="pwd"))
        session.close()

    assert (session.session_id, session.owned) == ("sb1", False)
    assert stub.asked == ["POST /sandboxes/sb1/connect", "GET /health", START_CALL]
    assert stub.starts()[0]["process"]["cwd"] == "/workspace"


def test_36_error_at_the_end_of_the_stream() -> None:
    refused = stream(failure("permission_denied", "permission denied: cwd"))
    with (
        CubeStub({START_CALL: refused}) as stub,
        stub.provider().create_session() as session,
        pytest.raises(SandboxPermissionError, match="permission denied"),
    ):
        session.execute(SandboxCommand(command="true"))


def test_37_envelope_that_is_cut_off() -> None:
    with (
        CubeStub({START_CALL: stream(START + output(b"half")[:-3])}) as stub,
        stub.provider().create_session() as session,
        pytest.raises(SandboxOutcomeUnknownError),
    ):
        session.execute(SandboxCommand(command="true"))


def test_40_41_which_specs_it_takes() -> None:
    provider = CubeSandboxProvider(environ={})

    assert provider.supports(None)
    assert provider.supports(SandboxSpec())
    assert all(
        provider.supports(SandboxSpec(provider_id=name)) for name in ("cubesandbox", "CubeSandbox", "CUBESANDBOX")
    )
    assert not any(provider.supports(SandboxSpec(provider_id=name)) for name in ("cube", "daytona"))


def test_42_key_in_a_spec_is_refused() -> None:
    with CubeStub() as stub, pytest.raises(SandboxAdmissionError, match="apiKey: is never read from a spec"):
        stub.provider().create_session(SandboxSpec(config={"apiKey": "from-spec"}))

    assert stub.asked == []


def test_43_44_variables_of_e2b() -> None:
    with CubeStub() as stub:
        e2b = {"E2B_API_URL": stub.http.url, "E2B_API_KEY": "e2b-key"}
        environ = stub.environ(CUBE_API_URL="", CUBE_API_KEY="") | e2b
        CubeSandboxProvider(environ=environ).create_session().close()
        CubeSandboxProvider(environ=environ | {"CUBE_API_KEY": "cube-key"}).create_session().close()

    sent = [request.headers["authorization"] for request in stub.requests("POST /sandboxes")]
    assert sent == ["Bearer e2b-key", "Bearer cube-key"]


def test_46_spec_is_copied() -> None:
    config = {"metadata": {"a": "b"}}
    spec = SandboxSpec(config=config)
    config["metadata"]["a"] = "changed"
    with CubeStub() as stub:
        stub.provider().create_session(spec).close()

    assert json.loads(stub.requests("POST /sandboxes")[0].body)["metadata"]["a"] == "b"


def test_47_48_provider_under_another_id() -> None:
    class CorporateProvider(CubeSandboxProvider):
        info = replace(CubeSandboxProvider.info, provider_id="corp-cube")

    with CubeStub() as stub:
        session = CorporateProvider(environ=stub.environ()).create_session(SandboxSpec(provider_id="corp-cube"))
        session.close()

    assert session.provider_id == "corp-cube"
    assert CubeSandboxProvider(environ={}).provider_id == "cubesandbox"
    assert json.loads(stub.requests("POST /sandboxes")[0].body)["metadata"]["ai4jProvider"] == "corp-cube"
