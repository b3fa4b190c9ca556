"""What providers of a service have in common; what each of them adds is tested with it."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from typing import Any

import pytest

from ai4j_sandbox.capability import ProviderInfo
from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.errors import (
    SandboxAdmissionError,
    SandboxAuthError,
    SandboxCleanupError,
    SandboxNotFoundError,
    SandboxProtocolError,
)
from ai4j_sandbox.model import SandboxSpec, SandboxStatus, SandboxSummary
from ai4j_sandbox.settings import ResolvedSettings, Setting, SettingsTable
from ai4j_sandbox.spi import Health, SandboxSession
from ai4j_sandbox_wire.base_url import BaseUrl
from ai4j_sandbox_wire.message import HttpLimits, HttpRequest, Send
from ai4j_sandbox_wire.remote_provider import RemoteProvider
from support.http_stub import HttpStub, Reply


class FakeClient:
    """A control plane in which one sandbox exists."""

    def __init__(self, send: Send) -> None:
        self.send = send

    def find(self, metadata: Mapping[str, str], deadline: Deadline | None = None) -> list[SandboxSummary]:
        summary = SandboxSummary(session_id="s", provider_id="demo", status=SandboxStatus.RUNNING, labels=metadata)
        return [summary]

    def destroy(self, sandbox_id: str, deadline: Deadline | None = None) -> None:
        if sandbox_id == "odd":
            raise SandboxProtocolError("odd", http_status=200)
        if sandbox_id != "s":
            raise SandboxNotFoundError("no such sandbox")

    def remove_created(self, tag: str) -> bool:
        return False


class DemoProvider(RemoteProvider[str, FakeClient]):
    info = ProviderInfo(provider_id="demo", display_name="Demo", distribution="demo", version="1")
    settings = SettingsTable(
        "demo",
        (
            Setting(name="api_url", env=("DEMO_URL",), default="http://h", help="Where."),
            Setting(name="ca_bundle", config=("caBundle",), help="Whom to trust."),
        ),
    )

    def __init__(self, *, environ: Mapping[str, str] | None = None, send: Send | None = None, **given: Any) -> None:
        super().__init__(allowed_origins=(), environ=environ or {}, send=send, arguments=given)

    def _configured(self, settings: ResolvedSettings) -> str:
        return str(settings["api_url"])

    def _client(self, config: str) -> FakeClient:
        return FakeClient(self._sender(None))

    def _health(self, config: str, client: FakeClient) -> Health:
        if config == "http://forbidden":
            raise SandboxAuthError("no key", hint="give one")
        return Health(healthy=True, summary=f"{config} answers")

    def _create(self, spec: SandboxSpec) -> SandboxSession:
        raise NotImplementedError("this provider is never asked to create")


def test_settings_are_taken_by_name_and_read_at_the_moment_of_use() -> None:
    environ = {"DEMO_URL": "http://a"}
    told, untold = DemoProvider(environ=environ, api_url="http://b"), DemoProvider(environ=environ)
    environ["DEMO_URL"] = "http://c"

    assert [each._config(SandboxSpec()) for each in (told, untold)] == ["http://b", "http://c"]
    assert repr(told) == "DemoProvider(<1 settings>)"


def test_argument_that_is_no_setting_is_one_too_many() -> None:
    with pytest.raises(TypeError, match=r"DemoProvider\(\) got an unexpected keyword argument 'api_uri'"):
        DemoProvider(api_uri="http://h")


def test_spec_of_a_connection_is_admitted_and_resolved() -> None:
    provider = DemoProvider()
    given = SandboxSpec(provider_id="demo", config={"caBundle": "x"})

    assert provider._admitted(None)[:2] == (SandboxSpec(provider_id="demo"), "http://h")
    assert provider._admitted(given)[0] is given
    for refused in (SandboxSpec(provider_id="other"), SandboxSpec(config={"unknown": 1})):
        with pytest.raises(SandboxAdmissionError):
            provider._admitted(refused)


def test_sandboxes_are_found_by_labels() -> None:
    assert [dict(found.labels) for found in DemoProvider().list_sessions({"a": "b"})] == [{"a": "b"}]


def test_destroying_is_done_when_nothing_is_there_and_in_doubt_otherwise() -> None:
    DemoProvider().destroy("s")
    DemoProvider().destroy("gone")
    with pytest.raises(SandboxCleanupError, match="odd") as caught:
        DemoProvider().destroy("odd")

    assert (caught.value.session_id, caught.value.may_still_exist) == ("odd", True)


def test_health_is_told_and_never_raised() -> None:
    assert DemoProvider().health() == Health(healthy=True, summary="http://h answers")
    refused = DemoProvider(api_url="http://forbidden").health()
    assert refused == Health(healthy=False, summary="no key", advice=("give one",))


def test_connections_are_shared_by_all_calls_and_end_with_the_last_who_sends() -> None:
    with HttpStub(Reply(body=b"{}")) as stub:
        provider = DemoProvider()
        request = HttpRequest(method="GET", origin=BaseUrl.parse(stub.url).origin, target="/", limits=HttpLimits())
        assert provider._client("").send(request, Deadline(5)).status == 200
        client = provider._client("")

        del provider
        gc.collect()
        for _ in range(2):
            assert client.send(request, Deadline(5)).status == 200
        assert stub.connections == 1

        del client
        gc.collect()
        assert stub.closings.acquire(timeout=5)


def test_way_to_send_that_was_given_is_used() -> None:
    def send(request: HttpRequest, deadline: Deadline) -> Any:
        raise AssertionError("nothing is sent here")

    assert DemoProvider(send=send)._client("").send is send
