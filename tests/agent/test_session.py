from __future__ import annotations

import logging
import threading
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from ai4j_agent import (
    AgentConfigError,
    AgentEvent,
    AgentEventType,
    AgentExecutionEnvironment,
    AgentSession,
    AgentSessionSnapshot,
    EventLogTamperedError,
    MemorySessionStore,
    Message,
    Role,
    SandboxAttachment,
    SandboxDetachedError,
    SandboxPlan,
    ToolCall,
)
from ai4j_sandbox import (
    AgentSessionSandboxBinding,
    ProviderRegistration,
    SandboxCleanupError,
    SandboxLocation,
    SandboxNotFoundError,
    SandboxRegistry,
    SandboxSpec,
    SandboxStatus,
    UnsupportedCapabilityError,
)
from ai4j_sandbox.spi import SandboxProvider
from ai4j_sandbox.testing import FakeProvider
from ai4j_sandbox.testing.fake import FAKE_INFO
from support.scripted_model import call
from support.secrets import CANARY, assert_no_secret

RUNNING = SandboxStatus.RUNNING
SPEC = SandboxSpec(
    provider_id="fake",
    profile="default",
    image="py311",
    workspace_id="task-1",
    labels={"task": "t1", "apiToken": "x", "secret_name": "y"},
)


def kinds(session: AgentSession) -> list[str]:
    return [str(entry.event.type) for entry in session.event_log.entries]


def provider_at(location: SandboxLocation, provider_id: str = "docker") -> FakeProvider:
    return FakeProvider(info=replace(FAKE_INFO, provider_id=provider_id, location=location))


# --- binding ----------------------------------------------------------------------------------------------------------


def test_binding_keeps_the_summary_without_sensitive_labels() -> None:
    sandbox = FakeProvider().create_session(SPEC)

    session = AgentSession().bind_sandbox(sandbox)

    binding = session.sandbox_binding
    assert binding is not None
    assert (binding.provider_id, binding.sandbox_session_id, binding.status) == (
        "fake",
        sandbox.session_id,
        SandboxStatus.RUNNING,
    )
    assert (binding.profile, binding.image, binding.workspace_id) == ("default", "py311", "task-1")
    assert dict(binding.labels) == {"task": "t1"}
    assert session.snapshot().sandbox_binding == binding
    assert kinds(session) == ["SANDBOX_BOUND"]
    assert (
        session.event_log.entries[0].event.payload
        == AgentSessionSandboxBinding.from_dict(session.event_log.entries[0].event.payload).to_dict()
    )


def test_status_and_events_survive_a_store() -> None:
    store = MemorySessionStore()
    session = AgentSession(session_id="s-1", store=store).bind_sandbox(FakeProvider().create_session(SPEC))

    session.update_sandbox_status(SandboxStatus.CLOSED).save()

    snapshot = store.load("s-1")
    again = AgentSession().restore(snapshot)
    assert again.sandbox_binding == session.sandbox_binding
    assert again.sandbox_binding.status is SandboxStatus.CLOSED  # type: ignore[union-attr]  # asserted above
    assert kinds(again) == ["SANDBOX_BOUND", "SANDBOX_UPDATED"]


def test_a_returned_binding_cannot_be_changed() -> None:
    binding = AgentSession().bind_sandbox(FakeProvider().create_session(SPEC)).sandbox_binding
    assert binding is not None

    with pytest.raises(TypeError):
        binding.labels["x"] = "y"  # type: ignore[index]  # what is tested


def test_a_binding_made_by_hand_binds_sanitised_and_is_not_live() -> None:
    binding = AgentSessionSandboxBinding(provider_id="p", labels={"password": "x", "owner": "me"})

    session = AgentSession().bind_sandbox(binding)

    assert session.sandbox_binding is not None
    assert dict(session.sandbox_binding.labels) == {"owner": "me"}
    assert session.sandbox_attachment is SandboxAttachment.DETACHED


def test_clearing_without_a_binding_says_nothing_and_clearing_twice_says_it_once() -> None:
    session = AgentSession().clear_sandbox()
    assert kinds(session) == []

    session.bind_sandbox(FakeProvider().create_session()).clear_sandbox().clear_sandbox()

    assert kinds(session) == ["SANDBOX_BOUND", "SANDBOX_CLEARED"]
    assert session.sandbox_binding is None


def test_a_status_without_a_binding_says_nothing() -> None:
    assert kinds(AgentSession().update_sandbox_status(SandboxStatus.CLOSED)) == []


def test_binding_nothing_is_refused_and_says_what_to_do() -> None:
    with pytest.raises(AgentConfigError, match="clear_sandbox"):
        AgentSession().bind_sandbox(None)  # type: ignore[arg-type]  # what is tested


def test_binding_another_sandbox_clears_the_first() -> None:
    provider = FakeProvider()
    session = AgentSession().bind_sandbox(provider.create_session())

    session.bind_sandbox(provider.create_session())

    assert kinds(session) == ["SANDBOX_BOUND", "SANDBOX_CLEARED", "SANDBOX_BOUND"]


def test_binding_the_same_sandbox_again_is_an_update() -> None:
    sandbox = FakeProvider().create_session()
    session = AgentSession().bind_sandbox(sandbox)

    session.bind_sandbox(sandbox)

    assert kinds(session) == ["SANDBOX_BOUND", "SANDBOX_UPDATED"]


def test_a_sandbox_the_host_bound_stays_the_hosts_to_close() -> None:
    sandbox = FakeProvider().create_session()

    with AgentSession() as session:
        session.bind_sandbox(sandbox)

    assert sandbox.status is SandboxStatus.RUNNING


# --- on demand --------------------------------------------------------------------------------------------------------


def planned(provider: FakeProvider, **options: Any) -> AgentSession:
    return AgentSession(sandbox_source=SandboxPlan(provider=provider), **options)


def test_a_sandbox_is_made_when_first_needed_and_only_once() -> None:
    provider = FakeProvider()
    session = planned(provider)
    assert provider.sandboxes == {}

    first, second = session.open_sandbox(), session.open_sandbox()

    assert first is second
    assert len(provider.sandboxes) == 1
    assert session.sandbox_attachment is SandboxAttachment.LIVE


def test_many_threads_that_need_a_sandbox_share_one() -> None:
    provider = FakeProvider()
    session = planned(provider)
    threads = [threading.Thread(target=session.open_sandbox) for _ in range(8)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(provider.sandboxes) == 1


def test_a_sandbox_the_session_made_is_destroyed_at_the_end_also_on_errors() -> None:
    provider = FakeProvider()

    def work(session: AgentSession) -> None:
        with session:
            session.open_sandbox()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work(session := planned(provider))

    assert [sandbox.alive for sandbox in provider.sandboxes.values()] == [False]
    assert session.sandbox_binding is not None
    assert session.sandbox_binding.status is SandboxStatus.CLOSED


def test_each_session_has_a_sandbox_of_its_own() -> None:
    provider = FakeProvider()
    plan = SandboxPlan(provider=provider)

    AgentSession(sandbox_source=plan).open_sandbox()
    AgentSession(sandbox_source=plan).open_sandbox()

    assert len(provider.sandboxes) == 2


def test_without_a_source_there_is_nothing_to_open() -> None:
    with pytest.raises(AgentConfigError, match="no sandbox"):
        AgentSession().open_sandbox()


def test_a_sandbox_that_cannot_be_destroyed_is_noted_and_tried_again() -> None:
    provider = FakeProvider()
    session = planned(provider)
    sandbox = session.open_sandbox()
    failures = [SandboxCleanupError("the service is down")]

    def destroy() -> None:
        if failures:
            raise failures.pop()

    sandbox._destroy = destroy  # type: ignore[method-assign]  # a service that fails once

    with pytest.raises(SandboxCleanupError):
        session.close()
    status = session.sandbox_binding and session.sandbox_binding.status
    session.close()

    assert (status, session.sandbox_binding and session.sandbox_binding.status) == (
        SandboxStatus.FAILED,
        SandboxStatus.CLOSED,
    )


# --- detached ---------------------------------------------------------------------------------------------------------


def resumed(provider: FakeProvider, **options: Any) -> AgentSession:
    """Return a session as another process restores it: its sandbox lives, its handle does not."""
    session = planned(provider)
    session.open_sandbox()
    return AgentSession(**options).restore(session.snapshot())


def test_a_restored_session_is_detached_and_executes_nothing() -> None:
    session = resumed(FakeProvider())

    assert session.sandbox_attachment is SandboxAttachment.DETACHED
    for refused in (session.open_sandbox, session.require_attached, lambda: session.execution_environment):
        with pytest.raises(SandboxDetachedError, match="reattach"):
            refused()


def test_a_restored_session_with_a_source_makes_no_new_sandbox_by_itself() -> None:
    provider = FakeProvider()
    session = resumed(provider, sandbox_source=SandboxPlan(provider=provider))

    with pytest.raises(SandboxDetachedError):
        session.open_sandbox()

    assert len(provider.sandboxes) == 1


def test_reattaching_through_a_registry_makes_it_live_again() -> None:
    provider = FakeProvider()
    session = resumed(provider)
    registry = SandboxRegistry(path=[])
    registry.register(provider)

    session.reattach(registry)

    assert session.sandbox_attachment is SandboxAttachment.LIVE
    assert session.open_sandbox().session_id in provider.sandboxes
    assert kinds(session) == ["SANDBOX_BOUND", "SANDBOX_UPDATED"]


def test_a_reattached_sandbox_that_the_session_made_is_destroyed_at_its_end() -> None:
    provider = FakeProvider()

    with resumed(provider) as session:
        session.reattach(provider)

    assert [sandbox.alive for sandbox in provider.sandboxes.values()] == [False]


def test_clearing_a_detached_session_leaves_the_sandbox_alive_unless_it_was_reattached() -> None:
    left, destroyed = FakeProvider(), FakeProvider()

    resumed(left).clear_sandbox()
    session = resumed(destroyed).reattach(destroyed).clear_sandbox()

    assert [sandbox.alive for sandbox in (*left.sandboxes.values(), *destroyed.sandboxes.values())] == [True, False]
    assert session.sandbox_attachment is SandboxAttachment.NONE


def test_a_reattached_sandbox_that_was_the_hosts_is_left_alone() -> None:
    provider = FakeProvider()
    bound = AgentSession().bind_sandbox(provider.create_session())

    with AgentSession().restore(bound.snapshot()) as session:
        session.reattach(provider)

    assert [sandbox.alive for sandbox in provider.sandboxes.values()] == [True]


def test_a_sandbox_that_is_gone_stays_detached() -> None:
    provider = FakeProvider()
    session = resumed(provider)
    provider.destroy(next(iter(provider.sandboxes)))

    with pytest.raises(SandboxNotFoundError):
        session.reattach(provider)

    assert session.sandbox_attachment is SandboxAttachment.DETACHED


def test_a_sandbox_is_not_looked_for_at_another_provider() -> None:
    session = resumed(FakeProvider())

    with pytest.raises(AgentConfigError, match="one of provider 'fake', not of 'docker'"):
        session.reattach(provider_at(SandboxLocation.THIS_MACHINE))

    assert session.sandbox_attachment is SandboxAttachment.DETACHED


def test_a_provider_that_cannot_connect_says_so() -> None:
    class NoConnect(SandboxProvider):
        info = FAKE_INFO

        def check(self, spec: SandboxSpec | None) -> Any:
            raise NotImplementedError

        def _create(self, spec: SandboxSpec) -> Any:
            raise NotImplementedError

    with pytest.raises(UnsupportedCapabilityError, match="cannot attach"):
        resumed(FakeProvider()).reattach(NoConnect())


def test_clearing_makes_a_detached_session_usable_without_a_sandbox() -> None:
    session = resumed(FakeProvider()).clear_sandbox()

    assert (session.sandbox_attachment, session.execution_environment) == (
        SandboxAttachment.NONE,
        AgentExecutionEnvironment.LOCAL,
    )


def test_a_live_handle_that_was_closed_is_not_live() -> None:
    sandbox = FakeProvider().create_session()
    session = AgentSession().bind_sandbox(sandbox)

    sandbox.close()

    assert session.sandbox_attachment is SandboxAttachment.DETACHED


# --- environment ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("provider", "environment"),
    [
        (provider_at(SandboxLocation.THIS_MACHINE), AgentExecutionEnvironment.SANDBOX),
        (provider_at(SandboxLocation.REMOTE), AgentExecutionEnvironment.REMOTE_SANDBOX),
        (provider_at(SandboxLocation.REMOTE, "local"), AgentExecutionEnvironment.REMOTE_SANDBOX),  # the id says nothing
        (FakeProvider(), AgentExecutionEnvironment.REMOTE_SANDBOX),  # declares nothing
    ],
)
def test_the_environment_follows_the_sandbox_before_and_after_it_is_made(
    provider: FakeProvider, environment: AgentExecutionEnvironment
) -> None:
    session = planned(provider)

    before = session.execution_environment
    session.open_sandbox()

    assert (before, session.execution_environment) == (environment, environment)


def test_the_environment_of_a_provider_named_by_id_is_known_before_it_is_imported() -> None:
    def unused() -> FakeProvider:
        raise AssertionError("nobody wanted it yet")

    registry = SandboxRegistry(path=())
    registry.register(ProviderRegistration(info=provider_at(SandboxLocation.THIS_MACHINE).info, factory=unused))
    session = AgentSession(sandbox_source=SandboxPlan(provider="Docker", registry=registry))

    assert session.execution_environment is AgentExecutionEnvironment.SANDBOX


def test_where_a_restored_sandbox_runs_is_not_known_before_it_is_attached_again() -> None:
    provider = provider_at(SandboxLocation.THIS_MACHINE)
    first = planned(provider)
    first.open_sandbox()
    session = AgentSession(sandbox_source=SandboxPlan(provider=FakeProvider())).restore(first.snapshot())

    with pytest.raises(SandboxDetachedError):
        _ = session.execution_environment

    session.reattach(provider)
    assert session.execution_environment is AgentExecutionEnvironment.SANDBOX


def test_the_environment_without_a_sandbox_is_local() -> None:
    assert AgentSession().execution_environment is AgentExecutionEnvironment.LOCAL


# --- snapshots and events ---------------------------------------------------------------------------------------------


def test_restoring_nothing_changes_nothing() -> None:
    session = AgentSession(session_id="s").put_attribute("a", 1)

    assert session.restore(None).metadata.attributes == {"a": 1}


def test_a_snapshot_without_a_binding_clears_it_and_no_event_tells_of_it() -> None:
    session = AgentSession().bind_sandbox(FakeProvider().create_session())

    session.restore(AgentSession(session_id="other").snapshot())

    assert (session.session_id, session.sandbox_binding, kinds(session)) == ("other", None, [])


def test_a_restored_session_keeps_its_own_run_id() -> None:
    session = AgentSession(run_id="mine")

    assert session.restore(AgentSession(run_id="theirs").snapshot()).run_id == "mine"


def test_a_changed_event_log_is_refused_and_the_session_is_as_before() -> None:
    session = AgentSession(session_id="before")
    other = AgentSession().bind_sandbox(FakeProvider().create_session()).update_sandbox_status(SandboxStatus.FAILED)
    cut = replace(other.snapshot(), events=other.snapshot().events[:1])

    with pytest.raises(EventLogTamperedError, match="events 2 to 2 were cut off"):
        session.restore(cut)

    assert (session.session_id, session.event_log.entries) == ("before", ())


@pytest.mark.parametrize(
    "binding", [None, {"providerId": "fake", "sandboxSessionId": "somebody-elses"}, {"providerId": "local"}]
)
def test_a_sandbox_taken_out_of_the_store_or_exchanged_is_refused_and_nothing_runs_on_the_host(binding: Any) -> None:
    document = AgentSession().bind_sandbox(FakeProvider().create_session(SPEC)).snapshot().to_dict()
    document["sandboxBinding"] = binding

    with pytest.raises(EventLogTamperedError, match=r"event 1 \(SANDBOX_BOUND\) tells of another sandbox"):
        AgentSession().restore(AgentSessionSnapshot.from_dict(document))


@pytest.mark.parametrize("sandbox_id", ["token=abc", "a\x1bb", "ghp_" + "a1B2" * 9, "https://u:pw@host", "é"])
def test_a_sandbox_whose_id_is_masked_in_the_log_is_still_the_same(sandbox_id: str) -> None:
    bound = AgentSession().bind_sandbox(AgentSessionSandboxBinding(provider_id="x", sandbox_session_id=sandbox_id))

    restored = AgentSession().restore(AgentSessionSnapshot.from_json(bound.snapshot().to_json()))

    assert restored.sandbox_attachment is SandboxAttachment.DETACHED


def test_a_sandbox_put_into_the_store_after_it_was_cleared_is_refused() -> None:
    session = AgentSession().bind_sandbox(FakeProvider().create_session(SPEC))
    binding = session.snapshot().sandbox_binding
    cleared = session.clear_sandbox().snapshot()

    assert AgentSession().restore(cleared).sandbox_attachment is SandboxAttachment.NONE
    with pytest.raises(EventLogTamperedError, match="SANDBOX_CLEARED"):
        AgentSession().restore(replace(cleared, sandbox_binding=binding))


def test_a_changed_event_log_can_be_looked_at_on_request() -> None:
    other = AgentSession().bind_sandbox(FakeProvider().create_session())

    session = AgentSession().restore(replace(other.snapshot(), events=()), verify=False)

    assert not session.event_log.verify().valid


def test_a_message_survives_with_secrets_masked_and_arguments_still_json() -> None:
    session = AgentSession().protect("hunter2-hunter2")
    asked = call("bash", command='curl -H "token: hunter2-hunter2"', apiKey="abc")
    session.remember(Message(role=Role.USER, text="my password is hunter2-hunter2", tool_calls=(asked,)))

    stored = session.snapshot().messages[0]

    assert "hunter2" not in stored.text + stored.tool_calls[0].arguments
    assert "abc" not in stored.tool_calls[0].arguments
    assert stored.tool_calls[0].arguments.startswith("{")
    assert session.messages[0].text.endswith("hunter2-hunter2")


def test_a_listener_sees_masked_events_and_its_failure_hurts_nobody(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[AgentEvent] = []

    def broken(event: AgentEvent) -> None:
        raise RuntimeError("hunter2-hunter2")

    session = AgentSession().protect("hunter2-hunter2")
    session.subscribe(broken)
    session.subscribe(seen.append)

    with caplog.at_level(logging.WARNING):
        session.publish(AgentEventType.ERROR, "failed with hunter2-hunter2")

    assert [event.message for event in seen] == ["failed with [redacted]"]
    assert "hunter2" not in caplog.text


def test_status_updates_from_many_threads_are_all_in_the_log_in_order() -> None:
    session = AgentSession().bind_sandbox(FakeProvider().create_session())

    def update() -> None:
        for _ in range(50):
            session.update_sandbox_status(SandboxStatus.RUNNING)

    threads = [threading.Thread(target=update) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [entry.sequence for entry in session.event_log.entries] == list(range(1, 202))
    assert session.event_log.verify().valid


def test_a_slow_save_never_replaces_a_later_state() -> None:
    class SlowAtFirst(MemorySessionStore):
        def __init__(self) -> None:
            super().__init__()
            self.entered, self.go_on = threading.Event(), threading.Event()

        def save(self, snapshot: AgentSessionSnapshot) -> None:
            if not self.entered.is_set():
                self.entered.set()
                self.go_on.wait(60)
            super().save(snapshot)

    store = SlowAtFirst()
    session = AgentSession(session_id="s", store=store)
    first, second = threading.Thread(target=session.save), threading.Thread(target=session.save)
    first.start()
    store.entered.wait(60)
    session.remember(Message.user("later"))
    second.start()
    second.join(0.1)
    store.go_on.set()
    first.join()
    second.join()

    stored = store.load("s")
    assert stored is not None
    assert [message.text for message in stored.messages] == ["later"]


def test_a_blank_attribute_is_refused() -> None:
    with pytest.raises(AgentConfigError, match="attribute"):
        AgentSession().put_attribute(" ", 1)


def test_a_known_secret_is_masked_wherever_a_snapshot_could_hold_it() -> None:
    binding = AgentSessionSandboxBinding(provider_id="p", image=f"img-{CANARY}", labels={"note": CANARY})
    session = AgentSession().protect(CANARY).bind_sandbox(binding)
    session.put_attribute("note", {"deep": [CANARY], CANARY: 1})
    session.restore(replace(session.snapshot(), summary=f"we used {CANARY}"))

    assert_no_secret(session.snapshot().to_json())


def test_a_sandbox_is_not_made_for_a_session_that_was_closed() -> None:
    provider = FakeProvider()
    session = planned(provider)

    session.close()

    with pytest.raises(AgentConfigError, match="was closed"):
        session.open_sandbox()
    assert provider.sandboxes == {}


def test_everything_is_ended_at_the_close_whatever_one_of_it_raises() -> None:
    provider = FakeProvider()
    session = planned(provider)
    session.open_sandbox()
    ended: list[str] = []

    def broken() -> None:
        raise ValueError("no")

    for callback in (lambda: ended.append("first"), broken, lambda: ended.append("last")):
        session.on_close(callback)

    with pytest.raises(ValueError, match="no"):
        session.close()
    session.close()

    assert ended == ["first", "last"]
    assert [sandbox.alive for sandbox in provider.sandboxes.values()] == [False]


def test_what_is_ended_at_the_close_may_close_the_session_and_gets_no_new_sandbox() -> None:
    provider = FakeProvider()
    session = planned(provider)
    said: list[str] = []

    def again() -> None:
        session.close()
        try:
            session.open_sandbox()
        except AgentConfigError as error:
            said.append(str(error))

    session.on_close(again)
    closing = threading.Thread(target=session.close, daemon=True)
    closing.start()
    closing.join(10)

    assert not closing.is_alive()
    assert said == [f"session {session.session_id} was closed (restore its snapshot in a new session to go on)"]
    assert provider.sandboxes == {}


def test_a_log_of_another_session_is_refused() -> None:
    one, other = AgentSession(session_id="one"), AgentSession(session_id="other")
    for session in (one, other):
        session.publish(AgentEventType.STEP_START, "begun")
    exchanged = replace(one.snapshot(), events=other.snapshot().events, event_log_head=other.snapshot().event_log_head)

    with pytest.raises(EventLogTamperedError, match=r"event 1 \(STEP_START\) belongs to session other"):
        AgentSession().restore(exchanged)


def test_closing_waits_for_a_sandbox_that_is_being_made_and_destroys_it() -> None:
    making, release = threading.Event(), threading.Event()

    class SlowProvider(FakeProvider):
        def _create(self, spec: SandboxSpec) -> Any:
            making.set()
            assert release.wait(10)
            return super()._create(spec)

    provider = SlowProvider()
    session = planned(provider)
    opener, closer = threading.Thread(target=session.open_sandbox), threading.Thread(target=session.close)
    opener.start()
    assert making.wait(10)
    closer.start()
    release.set()
    opener.join(10)
    closer.join(10)

    assert [sandbox.alive for sandbox in provider.sandboxes.values()] == [False]


def test_a_sandbox_that_is_bound_while_the_one_before_is_being_destroyed_stays_bound() -> None:
    session = planned(FakeProvider())
    first, second = session.open_sandbox(), FakeProvider().create_session()
    ending, release = threading.Event(), threading.Event()

    def destroy() -> None:
        ending.set()
        assert release.wait(10)

    first._destroy = destroy  # type: ignore[method-assign]  # a service that takes its time
    clearing = threading.Thread(target=session.clear_sandbox)
    binding = threading.Thread(target=session.bind_sandbox, args=(second,))
    clearing.start()
    assert ending.wait(10)
    binding.start()
    binding.join(0.2)  # where it does not wait for the other, it is done by now
    release.set()
    clearing.join(10)
    binding.join(10)

    assert session.live_sandbox is second
    assert kinds(session) == ["SANDBOX_BOUND", "SANDBOX_UPDATED", "SANDBOX_CLEARED", "SANDBOX_BOUND"]


def test_however_a_session_is_changed_from_many_threads_no_sandbox_of_its_own_is_left() -> None:
    own, hosts = FakeProvider(), FakeProvider()
    session = planned(own)
    changes: list[Any] = [session.open_sandbox, session.clear_sandbox, session.snapshot]
    changes += [lambda: session.bind_sandbox(hosts.create_session()), lambda: session.update_sandbox_status(RUNNING)]

    def change(first: int) -> None:
        for step in range(25):
            with suppress(SandboxDetachedError):
                changes[(first + step * 3) % len(changes)]()

    threads = [threading.Thread(target=change, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    session.close()

    assert [sandbox for sandbox in own.sandboxes.values() if sandbox.alive] == []
    assert [sandbox for sandbox in hosts.sandboxes.values() if not sandbox.alive] == []
    told = [kind for kind in kinds(session) if kind != "SANDBOX_UPDATED"]
    assert told == ["SANDBOX_BOUND", "SANDBOX_CLEARED"] * (len(told) // 2) + ["SANDBOX_BOUND"] * (len(told) % 2)
    assert session.event_log.verify().valid


def test_a_sandbox_the_session_made_stays_its_own_when_it_is_bound_once_more() -> None:
    provider = FakeProvider()

    with planned(provider) as session:
        session.bind_sandbox(session.open_sandbox())

    assert [sandbox.alive for sandbox in provider.sandboxes.values()] == [False]


def test_the_summary_of_the_sandbox_at_hand_does_not_take_it_away() -> None:
    provider = FakeProvider()

    with planned(provider) as session:
        sandbox = session.open_sandbox()
        assert session.sandbox_binding is not None
        session.bind_sandbox(session.sandbox_binding)
        assert session.open_sandbox() is sandbox

    assert [made.alive for made in provider.sandboxes.values()] == [False]


@pytest.mark.parametrize("status", ["bogus", 3, None, object()])
def test_what_is_no_status_is_refused_and_not_noted(status: Any) -> None:
    with planned(FakeProvider()) as session:
        session.open_sandbox()
        before = len(session.event_log.entries)

        with pytest.raises(AgentConfigError, match="status must be a SandboxStatus"):
            session.update_sandbox_status(status)

        assert len(session.event_log.entries) == before


def test_another_handle_to_the_sandbox_is_the_hosts() -> None:
    provider = FakeProvider()
    with resumed(provider) as session:
        handle = provider.connect(next(iter(provider.sandboxes)))
        session.bind_sandbox(handle)

    assert (handle.status, session.snapshot().owns_sandbox) == (SandboxStatus.RUNNING, False)


def test_a_cleared_session_owns_nothing() -> None:
    assert not resumed(FakeProvider()).clear_sandbox().snapshot().owns_sandbox


def test_a_refused_restore_leaves_the_sandbox_alone() -> None:
    provider = FakeProvider()
    session = planned(provider)
    session.open_sandbox()
    snapshot = session.snapshot()

    with pytest.raises(EventLogTamperedError):
        session.restore(replace(snapshot, events=()))

    assert session.sandbox_attachment is SandboxAttachment.LIVE


def test_an_attribute_that_is_no_json_data_is_refused() -> None:
    with pytest.raises(AgentConfigError, match="JSON data"):
        AgentSession().put_attribute("a", {"b": object()})


def test_what_is_nested_without_end_is_refused_as_an_attribute_and_kept_as_text_in_a_call() -> None:
    endless: list[Any] = []
    for _ in range(100_000):
        endless = [endless]
    deep = ToolCall(name="t", arguments="[" * 100_000)
    session = AgentSession()
    session.remember(Message(role=Role.ASSISTANT, tool_calls=(deep,)))

    with pytest.raises(AgentConfigError, match="JSON data is needed"):
        session.put_attribute("deep", endless)
    assert session.snapshot().messages[0].tool_calls == (deep,)


def test_a_secret_as_the_name_of_a_tool_is_masked_in_what_is_stored() -> None:
    session = AgentSession().protect(CANARY)
    session.remember(Message(role=Role.ASSISTANT, tool_calls=(call(CANARY),)))

    assert_no_secret(session.snapshot().to_json())


@pytest.mark.parametrize(
    "arguments",
    [
        f'{{"password": "{CANARY}',  # cut by the model's length limit
        f'{{"password": "{CANARY}", "password": "x"}}',
        f'{{"a": {{"token": "{CANARY}"}}, "a": 1}}',
    ],
)
def test_a_secret_in_arguments_that_are_not_quite_json_is_masked_by_its_name(arguments: str) -> None:
    session = AgentSession()
    session.remember(Message(role=Role.ASSISTANT, tool_calls=(ToolCall(name="login", arguments=arguments),)))

    assert_no_secret(session.snapshot().to_json())


def test_a_known_secret_as_the_id_of_a_call_is_masked_and_call_and_output_stay_a_pair() -> None:
    session = AgentSession().protect(CANARY)
    session.remember(Message(role=Role.ASSISTANT, tool_calls=(ToolCall(name="x", call_id=CANARY),)))
    session.remember(Message.tool_output(CANARY, "done"))

    snapshot = session.snapshot()

    assert_no_secret(snapshot.to_json())
    assert AgentSession().restore(snapshot).unanswered_calls() == ()


def test_tool_arguments_that_are_no_json_are_masked_as_text() -> None:
    session = AgentSession().protect(CANARY)
    asked = ToolCall(name="bash", arguments=f'{{"command": "{CANARY}')
    session.remember(Message(role=Role.ASSISTANT, tool_calls=(asked,)))

    assert_no_secret(session.snapshot().to_json())
