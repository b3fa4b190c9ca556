"""A blueprint as data. It declares; it makes nothing and decides nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from ai4j_agent.errors import BlueprintRefusedError
from ai4j_sandbox.errors import SandboxConfigError
from ai4j_sandbox.frozen import empty_mapping, freeze
from ai4j_sandbox.model import SandboxSpec
from ai4j_sandbox.redaction import fold_key, mask_text
from ai4j_sandbox.settings import origin_of

VERSION_1 = "ai4j.agent/v1"
APPROVALS = ("always", "safe", "never", "manual", "auto", "deny")
WORKFLOW_MODES = ("react", "codeact")

_ADDRESS_WORDS = ("url", "uri", "host", "domain", "endpoint", "proxy", "origin", "address")
_UNREADABLE = "an unreadable address"
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+")
_SPEC_KEYS = frozenset(("image", "workspaceId", "labels"))


class _Frozen:
    """Every container in a declaration is frozen on the way in; what looks like a secret is not shown."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for item in fields(self):  # type: ignore[arg-type]  # its subclasses are dataclasses
            object.__setattr__(self, item.name, freeze(getattr(self, item.name)))

    def __repr__(self) -> str:
        shown = (item.name for item in fields(self) if item.repr)  # type: ignore[arg-type]  # as above
        return mask_text(f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class BlueprintModel(_Frozen):
    """Which model; `profile` is the host's business."""

    provider: str | None = None
    profile: str | None = None
    model: str | None = None
    options: Mapping[str, Any] = field(default_factory=empty_mapping, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class BlueprintInstructions(_Frozen):
    """What the model is told."""

    system: str | None = field(default=None, repr=False)
    developer: str | None = field(default=None, repr=False)
    variables: Mapping[str, Any] = field(default_factory=empty_mapping, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class BlueprintPlugin(_Frozen):
    """A plugin the host may offer."""

    id: str | None = None
    enabled: bool | None = None
    config: Mapping[str, Any] = field(default_factory=empty_mapping, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class BlueprintTool(_Frozen):
    """A tool the host may offer, by name, and the approval it should need at least (one of `APPROVALS`)."""

    ref: str | None = None
    approval: str | None = None
    config: Mapping[str, Any] = field(default_factory=empty_mapping, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class BlueprintMemory(_Frozen):
    """What the session should remember."""

    enabled: bool | None = None
    scope: str | None = None
    store: str | None = None
    config: Mapping[str, Any] = field(default_factory=empty_mapping, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class BlueprintCompact(_Frozen):
    """When and how the session should be compacted."""

    enabled: bool | None = None
    context_ratio: float | None = None
    max_turns: int | None = None
    strategy: str | None = None
    preserve: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class BlueprintSession(_Frozen):
    """The session section."""

    memory: BlueprintMemory | None = None
    compact: BlueprintCompact | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class BlueprintSandbox(_Frozen):
    """The sandbox section: a wish, which only a host can grant."""

    enabled: bool | None = None
    provider: str | None = None
    profile: str | None = None
    config: Mapping[str, Any] = field(default_factory=empty_mapping, repr=False)

    def addresses(self) -> dict[str, str]:
        """Return the settings that name an address, however deep they lie: path to origin, or to the bare name."""
        settings = {key: value for key, value in self.config.items() if key not in _SPEC_KEYS}
        return {path: _address(text) for path, key, text in _texts(settings) if _names_address(key, text)}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class BlueprintWorkflow(_Frozen):
    """How the agent works."""

    mode: str | None = None
    max_turns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class UnknownKey(_Frozen):
    """A key nobody knows, and the one that may have been meant.

    Attributes:
        value: What stands there; kept only to find secrets in it.
    """

    path: str
    nearest: str | None = None
    value: Any = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AgentBlueprint(_Frozen):
    """One agent, declared.

    Attributes:
        unknown_keys: What the reader did not know.
        lines: Path to line of the document it was read from.
    """

    version: str | None = None
    id: str | None = None
    name: str | None = None
    model: BlueprintModel | None = None
    instructions: BlueprintInstructions | None = None
    plugins: tuple[BlueprintPlugin, ...] = ()
    tools: tuple[BlueprintTool, ...] = ()
    session: BlueprintSession | None = None
    sandbox: BlueprintSandbox | None = None
    workflow: BlueprintWorkflow | None = None
    extensions: Mapping[str, Any] = field(default_factory=empty_mapping, repr=False)
    unknown_keys: tuple[UnknownKey, ...] = ()
    lines: Mapping[str, int] = field(default_factory=empty_mapping, repr=False, compare=False)

    @property
    def wants_sandbox(self) -> bool:
        """Whether it asks for a sandbox."""
        return self.sandbox is not None and self.sandbox.enabled is True

    def sandbox_spec(self, *, allowed_origins: Iterable[str] = ()) -> SandboxSpec | None:
        """Return the spec of the sandbox it asks for, ``None`` when it asks for none. Nothing is created.

        Of `config`, ``image``, ``workspaceId`` and ``labels`` become the fields of that name; the rest goes to the
        provider, which refuses what it does not know.

        Args:
            allowed_origins: Addresses the document may name (``https://sandbox.example``): whatever it names could be
                sent the host's credential.

        Raises:
            BlueprintRefusedError: It holds a secret, names another address, or holds what no spec can.
        """
        if self.sandbox is None or not self.wants_sandbox:
            return None
        self._require_no_secret()
        self._require_allowed(self.sandbox, frozenset(allowed_origins))
        config = dict(self.sandbox.config)
        try:
            return SandboxSpec(
                provider_id=self.sandbox.provider,
                profile=self.sandbox.profile,
                image=config.pop("image", None),
                workspace_id=config.pop("workspaceId", None),
                labels=config.pop("labels", None) or {},
                config=config,
            )
        except SandboxConfigError as error:
            raise BlueprintRefusedError(
                "blueprint.sandbox.config.invalid", f"$.sandbox: {error.message}", line=self.lines.get("$.sandbox")
            ) from error

    def _require_no_secret(self) -> None:
        from .validation import secret_issues

        issues = secret_issues(self)
        if issues:
            raise BlueprintRefusedError(
                issues[0].code, f"{issues[0].path}: {issues[0].message}", line=issues[0].line, hint=WHERE_SECRETS_BELONG
            )

    def _require_allowed(self, sandbox: BlueprintSandbox, allowed: frozenset[str]) -> None:
        for key, address in sandbox.addresses().items():
            if address not in allowed or address == _UNREADABLE:
                path = f"$.sandbox.config.{key}"
                raise BlueprintRefusedError(
                    "blueprint.sandbox.address.refused",
                    f"{path} names {address}, which could then be sent the host's credential",
                    hint="write scheme, host and port, without a user"
                    if address == _UNREADABLE
                    else f"pass allowed_origins=[{address!r}] if you trust that address",
                    line=self.lines.get(path),
                )


WHERE_SECRETS_BELONG = "keep secrets in the environment of the host"


def _texts(value: Any, path: str = "", key: str = "") -> Iterator[tuple[str, str, str]]:
    """Every text in nested settings: its path, the key it stands under, and itself. A key may be an address too."""
    if isinstance(value, str):
        yield path, key, value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            below = f"{path}.{name}" if path else str(name)
            if "://" in str(name):
                yield below, key, str(name)
            yield from _texts(item, below, str(name))
    elif isinstance(value, Sequence):
        for index, item in enumerate(value):
            yield from _texts(item, f"{path}[{index}]", key)


def _names_address(key: str, value: str) -> bool:
    folded = fold_key(key)
    return "://" in value or any(word in folded for word in _ADDRESS_WORDS)


def _address(value: str) -> str:
    text = value.strip()
    if "://" not in text and "@" in text:  # before the "@" may be a password
        return _UNREADABLE
    if "://" in text and not _URL.fullmatch(text):
        return _UNREADABLE
    try:
        return origin_of(text.lower()) if "://" in text else text.lower()
    except ValueError:
        return _UNREADABLE
