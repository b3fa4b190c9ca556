"""What a session and a provider do around the provider author's own code. The contract suite has the rest."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import pytest

from ai4j_sandbox.capability import NATIVE, Capabilities, Capability, Decision, FieldDecision, ProviderInfo
from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.errors import (
    Outcome,
    SandboxAdmissionError,
    SandboxAuthError,
    SandboxCleanupError,
    SandboxConfigError,
    SandboxConflictError,
    SandboxConnectionError,
    SandboxException,
    SandboxNotFoundError,
    SandboxSessionClosedError,
    SandboxSessionLostError,
    UnsupportedCapabilityError,
)
from ai4j_sandbox.model import (
    SandboxCommand,
    SandboxEvent,
    SandboxEventType,
    SandboxSpec,
    SandboxStatus,
    SandboxSummary,
    TerminalSize,
)
from ai4j_sandbox.process import ProcessChannel, SandboxProcess
from ai4j_sandbox.spi import (
    PortUrl,
    SandboxProvider,
    SandboxSession,
    SessionDescription,
    SupportsPause,
    SupportsSnapshot,
)
from support.scripted_channel import FakeClock, ScriptedChannel, ended
from support.secrets import CANARY, assert_no_secret, everything_said

DIES_OF_TERM = {"SIGTERM": [(0.01, ended(143, signal="SIGTERM"))]}
INFO = ProviderInfo(
    provider_id="small",
    display_name="Small",
    distribution="d",
    version="1",
    capabilities=Capabilities({Capability.STDIN: NATIVE, Capability.TIMEOUT: NATIVE}),
)


class SmallSession(SandboxSession):
    """The least a provider author can write; what it does is given by the test."""

    def __init__(
        self,
        *,
        spec: SandboxSpec | None = None,
        secrets: tuple[str, ...] = (),
        open_channel: Callable[[], ProcessChannel] | None = None,
        destroy: Callable[[], None] = lambda: None,
        outlives_close: bool = False,
    ) -> None:
        super().__init__(
            SessionDescription(
                session_id="s-1",
                info=INFO,
                spec=spec or SandboxSpec(),
                secrets=secrets,
                outlives_close=outlives_close,
            )
        )
        self._channel = open_channel or (lambda: ScriptedChannel(FakeClock(), [(0, ended())]))
        self._end = destroy
        self.destroyed = 0

    def _open_channel(self, command: SandboxCommand, deadline: Deadline) -> ProcessChannel:
        return self._channel()

    def _destroy(self) -> None:
        self.destroyed += 1
        self._end()


class SmallProvider(SandboxProvider):
    info = INFO

    def _create(self, spec: SandboxSpec) -> SandboxSession:
        return SmallSession(spec=spec)


def raising(*errors: BaseException | None) -> Callable[[], None]:
    """Return a function that raises one error after the other; ``None`` is a success."""
    left = iter(errors)

    def fail() -> None:
        error = next(left)
        if error is not None:
            raise error

    return fail


# --- creating -----------------------------------------------------------------------------------------------------


def test_no_spec_means_the_providers_defaults() -> None:
    session = SmallProvider().create_session()

    assert (session.spec, session.status, session.owned) == (
        SandboxSpec(provider_id="small"),
        SandboxStatus.RUNNING,
        True,
    )


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (SandboxSpec(provider_id="other"), "unsupported sandbox provider 'other' for Small"),
        (SandboxSpec(image="python"), "small refuses the spec: image"),
        (SandboxSpec(workspace_id="w"), "small refuses the spec: workspace_id"),
        (SandboxSpec(config={"x": 1}), r"small refuses the spec: config\.x"),
    ],
)
def test_what_would_be_ignored_is_refused(spec: SandboxSpec, words: str) -> None:
    provider = SmallProvider()

    assert not provider.supports(spec)
    with pytest.raises(SandboxAdmissionError, match=words) as caught:
        provider.create_session(spec)
    assert (caught.value.provider_id, caught.value.operation) == ("small", "create")


@pytest.mark.parametrize(
    "spec", [None, SandboxSpec(), SandboxSpec(provider_id="SMALL"), SandboxSpec(profile="p", labels={"a": "b"})]
)
def test_what_is_honoured_by_everybody_is_accepted(spec: SandboxSpec | None) -> None:
    assert SmallProvider().supports(spec)


def test_decision_is_made_for_each_field() -> None:
    admission = SmallProvider().check(SandboxSpec(profile="p", image="i"))

    assert [(item.field, item.decision) for item in admission.decisions] == [
        ("profile", Decision.HONOURED),
        ("image", Decision.REFUSED),
    ]
    assert isinstance(admission.refusals[0], FieldDecision)


def test_session_keeps_no_config_and_no_sensitive_label() -> None:
    spec = SandboxSpec(config={"apiKey": CANARY}, labels={"apiToken": CANARY, "task": "t"}, profile="p")
    session = SmallSession(spec=spec, secrets=(CANARY,))

    assert session.spec == SandboxSpec(labels={"task": "t"}, profile="p")
    assert_no_secret(repr(session), repr(session._description))


# --- starting -----------------------------------------------------------------------------------------------------


def test_failure_to_start_is_located_scrubbed_and_told() -> None:
    told: list[SandboxEvent] = []
    session = SmallSession(
        secrets=(CANARY,),
        open_channel=raising(SandboxConnectionError(f"refused {CANARY}", outcome=Outcome.NOT_STARTED)),  # type: ignore[arg-type] # it never returns
    )
    session.subscribe(told.append)

    with pytest.raises(SandboxConnectionError, match=r"refused \[redacted\]") as caught:
        session.execute(SandboxCommand(command="x", command_id="c"))

    error = caught.value
    assert (error.provider_id, error.session_id, error.command_id, error.outcome) == (
        "small",
        "s-1",
        "c",
        Outcome.NOT_STARTED,
    )
    assert [(event.type, event.command_id, event.message) for event in told] == [
        (SandboxEventType.ERROR, "c", "refused [redacted]")
    ]
    assert_no_secret(everything_said(error), repr(told))


def test_id_is_free_again_after_a_failed_start() -> None:
    session = SmallSession(open_channel=raising(SandboxConnectionError("no"), SandboxConnectionError("still no")))  # type: ignore[arg-type] # it never returns
    command = SandboxCommand(command="x", command_id="c")

    for words in ("no", "still no"):
        with pytest.raises(SandboxConnectionError, match=words):
            session.start(command)


def test_id_is_taken_from_the_moment_the_command_is_sent() -> None:
    sending, go_on = threading.Event(), threading.Event()

    def open_slowly() -> ProcessChannel:
        sending.set()
        assert go_on.wait(5)
        return ScriptedChannel(FakeClock(), [(0, ended())])

    session = SmallSession(open_channel=open_slowly)
    first = threading.Thread(target=lambda: session.execute(SandboxCommand(command="x", command_id="c")))
    first.start()
    assert sending.wait(5)

    with pytest.raises(SandboxConfigError, match="'c' is already running"):
        session.start(SandboxCommand(command="x", command_id="c"))

    go_on.set()
    first.join(5)
    assert session.execute(SandboxCommand(command="x", command_id="c")).succeeded


def test_command_that_was_being_sent_when_the_session_closed_is_stopped() -> None:
    channels: list[ScriptedChannel] = []

    def close_meanwhile() -> ProcessChannel:
        session.close()
        channels.append(ScriptedChannel(FakeClock(), on_signal={"SIGTERM": [(0, ended(143))]}))
        return channels[0]

    session = SmallSession(open_channel=close_meanwhile)

    result = session.execute(SandboxCommand(command="x"))

    assert result.canceled
    assert [name for _, name in channels[0].signals] == ["SIGTERM"]


def test_what_the_session_cannot_do_is_refused_by_name_before_anything_is_sent() -> None:
    def never() -> ProcessChannel:
        raise AssertionError("sent")

    session = SmallSession(open_channel=never)

    with pytest.raises(
        UnsupportedCapabilityError, match="'small' does not support terminal in this session; it can do: stdin, timeout"
    ):
        session.start(SandboxCommand(command="x", terminal=TerminalSize()))


def test_optional_abilities_are_missing_in_plain_words() -> None:
    session = SmallSession()

    assert not isinstance(session, SupportsPause)
    assert not hasattr(session, "pause")
    with pytest.raises(UnsupportedCapabilityError, match=r"'small' does not support pause \(pause\) in"):
        session.pause()
    with pytest.raises(UnsupportedCapabilityError, match="'small' does not support pause in"):
        session.require(SupportsPause)  # type: ignore[type-abstract] # the protocol itself is meant
    with pytest.raises(AttributeError, match="has no attribute 'puase'"):
        session.puase()


# --- closing ------------------------------------------------------------------------------------------------------


def test_close_that_fails_says_so_and_the_next_one_tries_again() -> None:
    session = SmallSession(
        secrets=(CANARY,),
        destroy=raising(
            SandboxAuthError(f"401 {CANARY}", http_status=401, request_id="r"), SandboxConnectionError("x"), None
        ),
    )

    with pytest.raises(SandboxCleanupError, match=r"could not destroy sandbox s-1: 401 \[redacted\]") as caught:
        session.close()
    first = session.status
    with pytest.raises(SandboxSessionClosedError, match="closed"):
        session.execute(SandboxCommand(command="x"))
    with pytest.raises(SandboxCleanupError):
        session.close()
    session.close()
    session.close()

    assert (first, session.status, session.destroyed) == (SandboxStatus.FAILED, SandboxStatus.CLOSED, 3)
    error = caught.value
    assert (error.may_still_exist, error.http_status, error.request_id, error.provider_id) == (True, 401, "r", "small")
    assert_no_secret(str(error), repr(vars(error)))


@pytest.mark.parametrize("gone", [SandboxNotFoundError("404"), SandboxSessionLostError("410")])
def test_closing_what_is_gone_already_is_success(gone: SandboxException) -> None:
    session = SmallSession(destroy=raising(gone))

    session.close()

    assert session.status is SandboxStatus.CLOSED


def test_close_from_ten_threads_destroys_once() -> None:
    """Case H06."""
    barrier = threading.Barrier(10)
    session = SmallSession()
    errors: list[BaseException] = []

    def close() -> None:
        barrier.wait(5)
        try:
            session.close()
        except SandboxException as error:
            errors.append(error)

    threads = [threading.Thread(target=close) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)

    assert (session.destroyed, errors, session.status) == (1, [], SandboxStatus.CLOSED)


def test_session_refuses_while_it_is_being_closed_but_is_not_yet_called_closed() -> None:
    seen: list[object] = []

    def look() -> None:
        seen.append(session.status)
        with pytest.raises(SandboxSessionClosedError):
            session.start(SandboxCommand(command="x"))

    session = SmallSession(destroy=look)

    session.close()

    assert (seen, session.status) == ([SandboxStatus.RUNNING], SandboxStatus.CLOSED)


def test_interrupted_close_can_be_repeated() -> None:
    session = SmallSession(destroy=raising(KeyboardInterrupt(), None))

    with pytest.raises(KeyboardInterrupt):
        session.close()
    interrupted = session.status
    session.close()

    assert (interrupted, session.status) == (SandboxStatus.FAILED, SandboxStatus.CLOSED)


def test_session_events_have_a_sequence_of_their_own() -> None:
    told: list[SandboxEvent] = []
    session = SmallSession(destroy=raising(SandboxConnectionError("x"), None))
    session.subscribe(told.append)

    with pytest.raises(SandboxCleanupError):
        session.close()
    session.close()

    assert [(event.type, event.sequence) for event in told] == [
        (SandboxEventType.ERROR, 2),
        (SandboxEventType.SESSION_CLOSED, 3),
    ]


def test_close_ends_the_commands_of_a_sandbox_that_lives_on() -> None:
    channel = ScriptedChannel(FakeClock(), on_signal={"SIGTERM": [(0, ended(143))]})
    session = SmallSession(open_channel=lambda: channel, outlives_close=True)
    process = session.start(SandboxCommand(command="sleep 100"))

    session.close()

    assert [signal for _, signal in channel.signals] == ["SIGTERM"]
    assert process.wait().canceled


def test_commands_of_our_own_making_are_not_observed() -> None:
    session = SmallSession()
    seen: list[SandboxEvent] = []
    session.subscribe(seen.append)

    session.files.make_dir("/x")

    assert seen == []


def test_require_gives_the_session_as_the_ability_or_says_what_it_can() -> None:
    with pytest.raises(UnsupportedCapabilityError, match=r"does not support pause .* it can do: stdin, timeout"):
        SmallSession().require(SupportsPause)


def test_session_whose_sandbox_is_gone_says_so_and_can_still_be_closed() -> None:
    lost = SandboxSessionLostError("gone")
    session = SmallSession(open_channel=lambda: ScriptedChannel(FakeClock(), [(0, lost)]))

    with pytest.raises(SandboxSessionLostError):
        session.execute(SandboxCommand(command="true"))
    gone = session.status
    session.close()

    assert (gone, session.status) == (SandboxStatus.FAILED, SandboxStatus.CLOSED)


def test_secret_that_becomes_known_later_disappears_from_the_labels() -> None:
    session = SmallSession(spec=SandboxSpec(labels={"note": f"use {CANARY}"}))

    session.protect(CANARY)

    assert dict(session.spec.labels) == {"note": "use [redacted]"}


def test_no_secret_is_lost_when_threads_tell_theirs_at_the_same_time() -> None:
    secrets = [f"{number}{CANARY}" * 20 for number in range(8)]
    session = SmallSession(spec=SandboxSpec(labels={f"note{number}": text for number, text in enumerate(secrets)}))
    ready = threading.Barrier(len(secrets))

    def tell(secret: str) -> None:
        ready.wait()
        session.protect(secret)

    threads = [threading.Thread(target=tell, args=(secret,)) for secret in secrets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert set(session.spec.labels.values()) == {"[redacted]"}


# --- arguments ----------------------------------------------------------------------------------------------------


class AbleSession(SmallSession):
    """One that has the optional methods, and looks at no argument itself."""

    def attach(self, command_id: str) -> SandboxProcess:
        return self._follow(SandboxCommand(command="true", command_id=command_id), lambda *_: self._channel())

    def port_url(self, port: int) -> PortUrl:
        return PortUrl(url=f"http://host:{port + 0}")

    def extend(self, seconds: int) -> None:
        assert seconds > 0

    def snapshot(self, name: str | None = None) -> str:
        return (name or "unnamed").upper()


class MoreAbleSession(AbleSession):
    """A subclass of a subclass: the check still comes first, and once is enough."""

    def port_url(self, port: int) -> PortUrl:
        return super().port_url(port + 1)


class AbleProvider(SmallProvider):
    def connect(self, session_id: str, spec: SandboxSpec | None = None) -> SandboxSession:
        return SmallSession()

    def destroy(self, session_id: str) -> None:
        assert session_id.strip()

    def list_sessions(self, labels: Mapping[str, str] | None = None) -> list[SandboxSummary]:
        return []


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: AbleSession().extend("5"), "seconds must be a whole number of at least 1, got '5'"),
        (lambda: AbleSession().extend(seconds=0), "seconds must be a whole number of at least 1, got 0"),
        (lambda: AbleSession().port_url("80"), "port must be a whole number from 1 to 65535, got '80'"),
        (lambda: MoreAbleSession().port_url(65536), "port must be a whole number from 1 to 65535, got 65536"),
        (lambda: MoreAbleSession().extend(True), "seconds must be a whole number of at least 1, got True"),
        (lambda: AbleSession().attach(None), "command_id must be text, got NoneType"),
        (lambda: AbleSession().snapshot(5), "name must be text, got int"),
        (lambda: AbleProvider().connect(None), "session_id must be text, got NoneType"),
        (lambda: AbleProvider().connect("s", {"image": "x"}), "spec must be a SandboxSpec, got mapping"),
        (lambda: AbleProvider().destroy(""), "session_id must not be empty"),
        (lambda: AbleProvider().list_sessions("owner=me"), "labels must be a mapping, got str"),
        (lambda: AbleProvider().create_session({"image": "x"}), "spec must be a SandboxSpec, got mapping"),
    ],
)
def test_argument_of_the_wrong_type_never_reaches_the_provider_s_code(call: Callable[[], object], said: str) -> None:
    with pytest.raises(SandboxConfigError) as caught:
        call()

    assert (str(caught.value), caught.value.provider_id) == (said, "small")


def test_checked_methods_stay_what_they_are() -> None:
    session = MoreAbleSession()

    assert (session.port_url(80).url, session.snapshot(), session.snapshot(name="n")) == (
        "http://host:81",
        "UNNAMED",
        "N",
    )
    assert isinstance(session, SupportsSnapshot)
    assert not isinstance(session, SupportsPause)
    assert AbleProvider().connect("s", None).session_id == "s-1"


# --- what serves another call ---------------------------------------------------------------------------------------


def test_helper_is_told_to_nobody_and_runs_like_any_command() -> None:
    session = SmallSession()
    seen: list[SandboxEvent] = []
    session.subscribe(seen.append)

    result = session.start_helper(SandboxCommand(command="stat file", timeout_millis=1000)).wait()

    assert (result.exit_code, seen) == (0, [])


def test_cancelling_a_command_cancels_its_helper() -> None:
    clock = FakeClock()
    channels = [ScriptedChannel(clock, [(3600, ended())], on_signal=DIES_OF_TERM) for _ in range(2)]
    session = SmallSession(open_channel=iter(channels).__next__)
    session.start(SandboxCommand(command="build", command_id="build"))
    helper = session.start_helper(SandboxCommand(command="find"), helped_id="build")

    session.cancel("build")

    assert helper.wait().canceled


def test_command_that_is_followed_is_not_followed_a_second_time() -> None:
    session = AbleSession(open_channel=lambda: ScriptedChannel(FakeClock(), [(0, ended())]))
    process = session.attach("job")

    with pytest.raises(SandboxConflictError, match="'job' is followed already") as caught:
        session.attach("job")
    assert (caught.value.command_id, caught.value.retryable) == ("job", False)
    process.wait()
    assert session.attach("job").wait().exit_code == 0
