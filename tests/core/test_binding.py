"""The session binding: nine summary fields, sanitised however it was made."""

from __future__ import annotations

import dataclasses

import pytest

from ai4j_sandbox import AgentSessionSandboxBinding, SandboxStatus
from support.secrets import CANARY, assert_no_secret


def test_binding_has_exactly_the_summary_fields_of_the_seed() -> None:
    assert [field.name for field in dataclasses.fields(AgentSessionSandboxBinding)] == [
        "provider_id",
        "sandbox_session_id",
        "status",
        "profile",
        "image",
        "workspace_id",
        "labels",
        "bound_at",
        "updated_at",
    ]


def test_sensitive_labels_are_dropped_and_the_others_kept_stripped() -> None:
    binding = AgentSessionSandboxBinding(
        labels={" task ": "demo", "apiToken": "t", "secret_name": "s", "ｔｏｋｅｎ": "t"}
    )

    assert dict(binding.labels) == {"task": "demo"}


@pytest.mark.parametrize(
    "fields",
    [
        {"image": f"https://u:{CANARY}@host/img"},
        {"workspace_id": f"https://host/w?token={CANARY}"},
        {"profile": f"Bearer {CANARY}"},
        {"labels": {"dsn": f"postgres://u:{CANARY}@h/db"}},
    ],
)
def test_secrets_that_give_themselves_away_are_masked_in_every_text(fields: dict[str, object]) -> None:
    binding = AgentSessionSandboxBinding(**fields)  # type: ignore[arg-type]  # one field at a time

    assert_no_secret(repr(binding), str(binding.to_dict()))


def test_times_default_to_now_and_to_the_bound_time() -> None:
    binding = AgentSessionSandboxBinding(bound_at=-1, updated_at=0)

    assert binding.bound_at > 1_700_000_000_000
    assert binding.updated_at == binding.bound_at


def test_with_status_keeps_the_bound_time_and_moves_the_update() -> None:
    binding = AgentSessionSandboxBinding(provider_id="p", status=SandboxStatus.RUNNING, bound_at=5)

    closed = binding.with_status(SandboxStatus.CLOSED, clock=lambda: 9)

    assert closed == AgentSessionSandboxBinding(provider_id="p", status=SandboxStatus.CLOSED, bound_at=5, updated_at=9)


def test_blank_texts_are_absent() -> None:
    assert AgentSessionSandboxBinding(provider_id="  ", bound_at=1) == AgentSessionSandboxBinding(bound_at=1)


def test_dict_form_uses_the_seeds_names_and_reads_back() -> None:
    binding = AgentSessionSandboxBinding(
        provider_id="p", sandbox_session_id="s", status=SandboxStatus.RUNNING, labels={"a": "b"}, bound_at=5
    )

    assert binding.to_dict() == {
        "providerId": "p",
        "sandboxSessionId": "s",
        "status": "RUNNING",
        "profile": None,
        "image": None,
        "workspaceId": None,
        "labels": {"a": "b"},
        "boundAt": 5,
        "updatedAt": 5,
    }
    assert AgentSessionSandboxBinding.from_dict(binding.to_dict()) == binding


def test_labels_cannot_be_changed_from_outside() -> None:
    labels = {"a": "b"}
    binding = AgentSessionSandboxBinding(labels=labels)

    labels["apiKey"] = CANARY

    assert dict(binding.labels) == {"a": "b"}
    with pytest.raises(TypeError):
        binding.labels["x"] = "y"  # type: ignore[index]  # that is the point
