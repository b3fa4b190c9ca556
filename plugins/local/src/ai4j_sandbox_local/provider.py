"""The local provider: admission, creation and health. Imports nothing that only Linux has before it is needed."""

from __future__ import annotations

import sys
import uuid
import warnings
from typing import Any

from ai4j_sandbox.capability import Admission, Capabilities, Capability, Decision, FieldDecision, unsupported
from ai4j_sandbox.errors import SandboxConfigError
from ai4j_sandbox.model import SandboxSpec
from ai4j_sandbox.spi import Health, SandboxProvider, SandboxSession, SessionDescription

from .config import PROVIDER_ID, SETTINGS, Isolation, LocalConfig, local_config, unhonoured
from .hooks import INFO


class LocalProvider(SandboxProvider):
    """Sandboxes on this machine, embedded in the host's process.

    Args:
        **arguments: Settings by name (`config.SETTINGS`); they win over `SandboxSpec.config`.
    """

    info = INFO
    settings = SETTINGS

    def __init__(self, **arguments: Any) -> None:
        for name in arguments:
            if name not in {setting.name for setting in SETTINGS}:
                raise SandboxConfigError(f"LocalProvider has no setting {name!r}", provider_id=PROVIDER_ID)
        self._arguments = arguments

    def check(self, spec: SandboxSpec | None) -> Admission:
        """Decide from the spec alone; what depends on the machine is found out when the sandbox is created."""
        admission = super().check(spec)
        if not admission.accepted:
            return admission
        try:
            config = self._config(spec)
        except SandboxConfigError as error:
            return _refusing(admission, [("config", error.message)])
        return _refusing(admission, unhonoured(config.isolation, config))

    def _config(self, spec: SandboxSpec | None) -> LocalConfig:
        return local_config(SETTINGS.resolve(spec, arguments=self._arguments))

    def _create(self, spec: SandboxSpec) -> SandboxSession:
        _require_linux()
        from .isolation.tiers import LEVELS, start_sandbox  # only Linux has what they import
        from .session import LocalSession, ReachableSession

        config = self._config(spec)
        _warn_without_isolation(config)
        sandbox = start_sandbox(config)
        try:
            reachable = sandbox.tier is Isolation.NAMESPACE or bool(config.network)
            description = SessionDescription(
                session_id=f"local-{uuid.uuid4().hex[:12]}",
                info=self.info,
                spec=spec,
                capabilities=None if reachable else _without_ports(self.info.capabilities),
                isolation=LEVELS[sandbox.tier],
            )
            return (ReachableSession if reachable else LocalSession)(description, config, sandbox)
        except BaseException:
            sandbox.destroy()
            raise

    def health(self) -> Health:
        """Start a sandbox in every way this machine may allow, and tell which one would be used and why."""
        if not _on_linux():
            return Health(healthy=False, summary=_OTHER_SYSTEM.format(sys.platform), advice=(_ELSEWHERE,))
        try:
            return self._examined()
        except SandboxConfigError as error:
            return Health(healthy=False, summary=error.message, advice=() if error.hint is None else (error.hint,))

    def _examined(self) -> Health:
        from .isolation.tiers import ADVICE, ways  # only Linux has what it imports

        config = self._config(None)
        failures = {str(way): way.failure() for way in ways(config.isolation, config.bubblewrap)}
        usable = next((name for name, failure in failures.items() if failure is None), None)
        details = {"in_force": usable, **{name: failure or "works" for name, failure in failures.items()}}
        if usable is None:
            return Health(healthy=False, summary="no isolation is possible here", advice=(ADVICE,), details=details)
        if config.isolation is Isolation.NONE:
            return Health(healthy=True, summary=_NO_ISOLATION, advice=('use config.isolation "auto"',), details=details)
        return Health(healthy=True, summary=f"isolation: {usable}", details=details)


_OTHER_SYSTEM = "the local sandbox needs Linux; this is {}"
_ELSEWHERE = "use a remote provider (e2b, daytona, cubesandbox), or run the host program in a Linux container or WSL 2"
_NO_ISOLATION = 'config.isolation is "none": commands run unprotected, with everything this user may do'


def _on_linux() -> bool:
    return sys.platform == "linux"


def _require_linux() -> None:
    if not _on_linux():
        raise SandboxConfigError(_OTHER_SYSTEM.format(sys.platform), hint=_ELSEWHERE, provider_id=PROVIDER_ID)


def _warn_without_isolation(config: LocalConfig) -> None:
    if config.isolation is Isolation.NONE:
        warnings.warn(_NO_ISOLATION, RuntimeWarning, stacklevel=4)


def _refusing(admission: Admission, refusals: list[tuple[str, str]]) -> Admission:
    more = tuple(FieldDecision(field=name, decision=Decision.REFUSED, reason=reason) for name, reason in refusals)
    return Admission(provider_id=admission.provider_id, decisions=(*admission.decisions, *more))


def _without_ports(capabilities: Capabilities) -> Capabilities:
    return capabilities.narrowed({Capability.PORTS: unsupported("this tier has no network of its own")})
