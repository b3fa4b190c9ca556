"""The emulator as a whole: starting, stopping, lifetimes, faults on the wire, and the records of what clients did."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable

import pytest

from ai4j_sandbox import SandboxCommand, SandboxSpec, default_registry
from ai4j_sandbox.errors import ProviderNotFoundError, SandboxConfigError, SandboxConnectionError
from ai4j_sandbox.testing import FakeProvider
from ai4j_sandbox_emulator import Answer, Cut, Drip, Emulator, Fault, Frames, Hang, Reset, Stall
from support.emulator_client import Box, EmulatorClient, Frame
from support.waiting import eventually

START = "/process.Process/Start"


class HandClock:
    """A clock that tests turn."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


# --- starting and stopping --------------------------------------------------------------------------------------------


def test_nothing_is_left_after_a_stop() -> None:
    before = set(threading.enumerate())
    emulator = Emulator().start()
    client = EmulatorClient(emulator.url())
    box = client.create(timeout=60)
    stream = box.start("/bin/sleep", "60")
    stream.pid()
    (sandbox,) = emulator.sandboxes()

    emulator.stop()
    emulator.stop()

    stream.close()
    assert str(sandbox.session.status) == "CLOSED"
    assert eventually(lambda: set(threading.enumerate()) <= before)
    with pytest.raises(ConnectionRefusedError):
        client.call("GET", "/health")


@pytest.mark.parametrize("face", ["e2b", "cubesandbox"])
def test_workspace_of_the_spec_is_home_whatever_the_face_usually_has(face: str) -> None:
    with Emulator(faces=(face,), spec=SandboxSpec(provider_id="local", workspace_id="/work")) as emulator:
        EmulatorClient(emulator.url()).call("POST", "/sandboxes", {"templateID": "t"})
        (sandbox,) = emulator.sandboxes()
        told = sandbox.session.execute(SandboxCommand(command="pwd")).stdout

    assert (sandbox.home, told) == ("/work", "/work\n")


def test_it_can_be_started_again() -> None:
    emulator = Emulator(provider=FakeProvider())
    for _ in range(2):
        with emulator:
            assert EmulatorClient(emulator.url()).call("GET", "/health").status == 204


def test_the_environment_points_clients_at_it(emulator: Emulator) -> None:
    assert emulator.environment == {
        "E2B_API_KEY": "e2b_" + "0" * 40,
        "E2B_API_URL": emulator.url(),
        "E2B_SANDBOX_URL": emulator.url("e2b"),
    }


def test_only_this_machine_is_served(emulator: Emulator) -> None:
    assert emulator.url().startswith("http://127.0.0.1:")


@pytest.mark.parametrize("faces", [("nothing",), ()])
def test_a_face_that_does_not_exist_is_refused(faces: tuple[str, ...]) -> None:
    with pytest.raises(SandboxConfigError, match="faces must be among e2b"):
        Emulator(faces)


def test_a_provider_that_does_not_exist_is_told_at_the_start() -> None:
    with pytest.raises(ProviderNotFoundError, match="nosuch"):
        Emulator(provider="nosuch").start()


def test_a_port_that_is_taken_is_told_at_the_start(emulator: Emulator) -> None:
    port = int(emulator.url().rpartition(":")[2])

    with pytest.raises(OSError, match="address already in use"):
        Emulator(provider=FakeProvider(), port=port).start()


def test_a_provider_that_cannot_make_a_sandbox_is_an_error_of_the_service() -> None:
    class Broken(FakeProvider):
        def _create(self, spec: SandboxSpec) -> object:  # type: ignore[override]
            raise SandboxConnectionError("the engine is off")

    with Emulator(provider=Broken()) as emulator:
        answer = EmulatorClient(emulator.url()).call("POST", "/sandboxes", {"templateID": "base"})

    assert (answer.status, answer.json["message"]) == (500, "the engine is off")


# --- lifetimes --------------------------------------------------------------------------------------------------------


def test_a_sandbox_lives_by_the_clock_and_not_by_what_it_does() -> None:
    clock = HandClock()
    with Emulator(provider=FakeProvider(), clock=clock) as emulator:
        box = EmulatorClient(emulator.url()).create(timeout=100)
        clock.now += 99
        alive = box.call("GET", "/health").status
        clock.now += 2

        assert eventually(lambda: box.call("GET", "/health").status == 502)
        assert (alive, box.control("GET").status, emulator.sandboxes()) == (204, 404, [])


def test_a_sandbox_that_pauses_at_its_end_waits_without_limit() -> None:
    clock = HandClock()
    with Emulator(provider=FakeProvider(), clock=clock) as emulator:
        box = EmulatorClient(emulator.url()).create(timeout=100, autoPause=True)
        clock.now += 101
        assert eventually(lambda: box.control("GET").json["state"] == "paused")
        clock.now += 10**7

        connected = box.control("POST", "/connect", {"timeout": 50})
        assert (connected.status, box.control("GET").json["state"]) == (201, "running")


def test_refreshes_and_connects_prolong_and_never_shorten() -> None:
    clock = HandClock()
    with Emulator(provider=FakeProvider(), clock=clock) as emulator:
        box = EmulatorClient(emulator.url()).create(timeout=100)
        (sandbox,) = emulator.sandboxes()

        ends = []
        for suffix, body in (
            ("/refreshes", {"duration": 1}),
            ("/connect", {"timeout": 1}),
            ("/refreshes", {"duration": 200}),
            ("/connect", {"timeout": 300}),
            ("/timeout", {"timeout": 5}),
        ):
            box.control("POST", suffix, body)
            ends.append((sandbox.lifetime.ends_at or 0) - clock.now)

        assert ends == [100, 100, 200, 300, 5]


# --- faults on the wire -----------------------------------------------------------------------------------------------


def sent(box: Box) -> bytes:
    """The body of a no-op command, as it is without a fault."""
    stream = box.start("/bin/echo", "hi")
    body = stream.response.read()
    stream.close()
    return body


def test_a_stream_is_cut_in_order_at_every_byte(emulator: Emulator, shared_box: Box) -> None:
    whole = sent(shared_box)
    for after in range(len(whole) - 1):
        emulator.faults.add(Fault(effect=Cut(after=after), path=START))
        stream = shared_box.start("/bin/echo", "hi")

        with pytest.raises(http.client.IncompleteRead) as caught:
            stream.response.read()
        stream.close()

        assert len(caught.value.partial) == after


def test_a_stream_is_reset_after_what_was_promised_has_arrived(emulator: Emulator, shared_box: Box) -> None:
    emulator.faults.add(Fault(effect=Cut(after=40, how="rst"), path=START))
    stream = shared_box.start("/bin/echo", "hi")

    received = stream.response.read(40)
    with pytest.raises(ConnectionResetError):
        stream.response.read(1)
    stream.close()

    assert len(received) == 40


def test_a_download_can_be_cut_too(emulator: Emulator, shared_box: Box) -> None:
    shared_box.call("POST", "/files?path=cut.bin", b"x" * 1000, Content_Type="application/octet-stream")
    emulator.faults.add(Fault(effect=Cut(after=10), method="GET", path="/files"))

    with pytest.raises(http.client.IncompleteRead) as caught:
        shared_box.call("GET", "/files?path=cut.bin")

    assert caught.value.partial == b"x" * 10


def test_a_dripping_stream_is_the_same_stream(emulator: Emulator, shared_box: Box) -> None:
    emulator.faults.add(Fault(effect=Drip(size=3, seconds=0), path=START))

    assert shared_box.run("/bin/echo", "hi").stdout == b"hi\n"


def test_a_stalled_stream_goes_on(emulator: Emulator, shared_box: Box) -> None:
    emulator.faults.add(Fault(effect=Stall(after=20, seconds=0.1), path=START))

    assert shared_box.run("/bin/echo", "hi").stdout == b"hi\n"


def test_frames_are_dropped_duplicated_and_late(emulator: Emulator, shared_box: Box) -> None:
    def kinds() -> list[str]:
        return [_kind(frame) for frame in shared_box.start("/bin/echo", "hi")]

    told = {}
    for what in ("drop", "duplicate", "late"):
        emulator.faults.add(Fault(effect=Frames(index=1, what=what), path=START))
        told[what] = kinds()

    assert told == {
        "drop": ["start", "end", "last"],
        "duplicate": ["start", "data", "data", "end", "last"],
        "late": ["start", "data", "end", "last", "data"],
    }


def _kind(frame: Frame) -> str:
    return "last" if frame.flags & 2 else next(iter(frame.document["event"]))


@pytest.mark.parametrize(
    ("effect", "status", "body", "retry_after"),
    [
        (Answer(status=429, body="{}", headers={"Retry-After": "7"}), 429, b"{}", "7"),
        (Answer(status=503, headers={"Retry-After": "1"}), 503, b"", "1"),
        (Answer(status=200, body="<html>", content_type="text/html"), 200, b"<html>", None),
    ],
)
def test_an_answer_is_put_in_the_place_of_the_real_one(
    emulator: Emulator, client: EmulatorClient, effect: Answer, status: int, body: bytes, retry_after: str | None
) -> None:
    emulator.faults.add(Fault(effect=effect, path="/v2/sandboxes"))

    answer = client.call("GET", "/v2/sandboxes")
    next_one = client.call("GET", "/v2/sandboxes")

    assert (answer.status, answer.body, answer.headers["Retry-After"]) == (status, body, retry_after)
    assert (answer.headers["Content-Type"], next_one.status) == (effect.content_type, 200)


@pytest.mark.parametrize(("handled", "alive"), [(False, 200), (True, 404)])
def test_a_reset_loses_the_answer_and_perhaps_the_request(
    emulator: Emulator, box: Box, handled: bool, alive: int
) -> None:
    emulator.faults.add(Fault(effect=Reset(handled=handled), method="DELETE"))

    with pytest.raises((ConnectionResetError, http.client.RemoteDisconnected)):
        box.control("DELETE")

    assert box.control("GET").status == alive


def test_a_request_that_hangs_is_handled_later(emulator: Emulator, client: EmulatorClient) -> None:
    emulator.faults.add(Fault(effect=Hang(seconds=0.1), path="/health"))

    assert client.call("GET", "/health").status == 204


def test_a_client_that_gives_up_on_a_hanging_request_frees_the_emulator(client: EmulatorClient) -> None:
    with Emulator(provider=FakeProvider()) as other:
        other.faults.add(Fault(effect=Hang(), path="/health"))
        connection = EmulatorClient(other.url()).connect()
        connection.request("GET", "/health")
        connection.close()
        other.stop()

        assert other.sandboxes() == []


# --- records and the other process ------------------------------------------------------------------------------------


def test_requests_are_recorded_with_their_headers_and_without_them_in_repr(
    emulator: Emulator, client: EmulatorClient
) -> None:
    emulator.requests.clear()

    client.call("GET", "/v2/sandboxes?limit=5")

    (request,) = [item for item in emulator.requests.all() if item.query == "limit=5"]
    assert (request.face, request.method, request.path) == ("e2b", "GET", "/v2/sandboxes")
    assert request.headers["x-api-key"] == "e2b_" + "0" * 40
    assert "e2b_0" not in repr(request)


def test_another_process_sets_faults_and_reads_records(client: EmulatorClient) -> None:
    with Emulator(provider=FakeProvider()) as other:
        remote = EmulatorClient(other.url())
        number = remote.call("POST", "/_emulator/faults", {"effect": "answer", "status": 418, "path": "/sandb*"}).json
        listed = remote.call("GET", "/_emulator/faults").json
        struck = remote.call("GET", "/sandboxes").status
        recorded = [item["path"] for item in remote.call("GET", "/_emulator/requests").json]
        cleared = [remote.call("DELETE", f"/_emulator/{what}").status for what in ("faults", "requests")]

        assert (number, listed[0]["effect"], struck, recorded) == ({"number": 1}, "answer", 418, ["/sandboxes"])
        assert (cleared, other.requests.all()) == ([204, 204], [])


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("DELETE", "/_emulator/faults/99", 404), ("GET", "/_emulator/nothing", 404), ("POST", "/_emulator/faults", 400)],
)
def test_what_the_other_process_cannot_do_is_told(client: EmulatorClient, method: str, path: str, status: int) -> None:
    assert client.call(method, path, {} if method == "POST" else None).status == status


def test_the_fixture_for_users_tests_is_a_running_emulator(request: pytest.FixtureRequest) -> None:
    from ai4j_sandbox_emulator import testing

    make: Callable[[], object] = testing.emulator.__wrapped__  # type: ignore[attr-defined]
    running = next(iter(make()))  # type: ignore[call-overload]

    assert isinstance(running, Emulator)


@pytest.mark.parametrize(
    ("home", "homes"),
    [(None, {"e2b": "/home/user", "cubesandbox": "/workspace"}), ("/h", {"e2b": "/h", "cubesandbox": "/h"})],
)
def test_commands_begin_where_users_of_the_face_expect(home: str | None, homes: dict[str, str]) -> None:
    with Emulator(("e2b", "cubesandbox"), home=home) as emulator:
        for face in homes:
            provider = default_registry().provider(face, environ=emulator.environment)
            with provider.create_session() as session:
                assert session.execute(SandboxCommand(command="pwd")).stdout == f"{homes[face]}\n"
