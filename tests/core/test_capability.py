from __future__ import annotations

import pytest

from ai4j_sandbox.capability import (
    NATIVE,
    Admission,
    Capabilities,
    Capability,
    Decision,
    FieldDecision,
    IsolationLevel,
    ProviderInfo,
    SandboxLocation,
    Support,
    SupportLevel,
    emulated,
    unsupported,
)


def test_what_is_not_listed_is_unsupported_with_a_reason() -> None:
    capabilities = Capabilities({Capability.STDIN: NATIVE})

    assert Capability.STDIN in capabilities
    assert Capability.PAUSE not in capabilities
    assert "stdin" not in capabilities
    assert capabilities[Capability.PAUSE] == unsupported("not offered by this provider")


def test_emulated_counts_as_offered_and_keeps_its_limits() -> None:
    support = emulated("by polling", max_bytes=5)

    assert support == Support(level=SupportLevel.EMULATED, reason="by polling", limits={"max_bytes": 5})
    assert Capability.STREAMING in Capabilities({Capability.STREAMING: support})


def test_session_narrows_without_changing_the_provider() -> None:
    provider = Capabilities({Capability.PORTS: NATIVE, Capability.STDIN: NATIVE})

    session = provider.narrowed({Capability.PORTS: unsupported("the network is off")})

    assert session.offered() == ["stdin"]
    assert provider.offered() == ["stdin", "ports"]
    assert session[Capability.PORTS].reason == "the network is off"


def test_capabilities_cannot_be_changed_from_outside() -> None:
    supports = {Capability.STDIN: NATIVE}
    limits = {"hosts": ["a"]}
    capabilities = Capabilities(supports)
    support = Support(level=SupportLevel.NATIVE, limits=limits)

    supports[Capability.PAUSE] = NATIVE
    limits["hosts"].append("evil")

    assert capabilities.offered() == ["stdin"]
    assert support.limits == {"hosts": ("a",)}


def test_isolation_levels_have_an_order_so_that_hosts_can_set_a_floor() -> None:
    assert sorted(IsolationLevel, reverse=True) == [
        IsolationLevel.VIRTUAL_MACHINE,
        IsolationLevel.USER_KERNEL,
        IsolationLevel.CONTAINER,
        IsolationLevel.NAMESPACE,
        IsolationLevel.SYSCALL_FILTER,
        IsolationLevel.NONE,
    ]


@pytest.mark.parametrize(
    ("decisions", "accepted", "explanation"),
    [
        ((), True, "accepted"),
        ((FieldDecision(field="image", decision=Decision.EMULATED, reason="by copying"),), True, "accepted"),
        (
            (
                FieldDecision(field="labels", decision=Decision.HONOURED),
                FieldDecision(field="image", decision=Decision.REFUSED, reason="there are no images"),
                FieldDecision(field="config.x", decision=Decision.REFUSED),
            ),
            False,
            "image: there are no images; config.x: not supported",
        ),
    ],
)
def test_admission_is_refused_when_one_field_is(
    decisions: tuple[FieldDecision, ...], accepted: bool, explanation: str
) -> None:
    admission = Admission(provider_id="p", decisions=decisions)

    assert (admission.accepted, admission.explain()) == (accepted, explanation)


def test_provider_info_is_plain_data() -> None:
    first = ProviderInfo(provider_id="p", display_name="P", distribution="d", version="1")
    second = ProviderInfo(provider_id="p", display_name="P", distribution="d", version="1")

    assert first == second
    assert first.isolation is IsolationLevel.NONE
    assert first.capabilities.offered() == []


def test_a_provider_that_does_not_say_where_it_runs_counts_as_remote() -> None:
    info = ProviderInfo(provider_id="x", display_name="X", distribution="x", version="1")

    assert info.location is SandboxLocation.REMOTE


def test_a_location_is_taken_by_its_word_and_anything_else_is_refused() -> None:
    def located(location: str) -> SandboxLocation:
        info = ProviderInfo(provider_id="x", display_name="X", distribution="x", version="1", location=location)  # type: ignore[arg-type]
        return info.location

    assert located("this-machine") is SandboxLocation.THIS_MACHINE
    with pytest.raises(ValueError, match="'here' is not a valid SandboxLocation"):
        located("here")
