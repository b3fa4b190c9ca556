"""Provider ids to providers: what is installed, what is broken and why, and one provider by name.

Three depths, each taken only when asked for: `ids` reads metadata, `infos` imports the hook modules (a dozen lines
each), `provider` imports one provider. Ids are compared without regard to case.

The installed plugins are looked up once. An id that is not found makes the registry look again, so that following the
advice of its error (``pip install …``) works without a restart.
"""

from __future__ import annotations

import difflib
import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .capability import IsolationLevel, ProviderInfo
from .discovery import PROVIDERS_GROUP, PluginEntry, PluginProblem, discover, forget_directories
from .errors import (
    Outcome,
    ProviderConflictError,
    ProviderLoadError,
    ProviderNotFoundError,
    SandboxAdmissionError,
    SandboxConfigError,
    SandboxException,
    SandboxProviderError,
)
from .frozen import EMPTY
from .hookspecs import ProviderRegistration
from .model import SandboxSpec
from .plugin import DISABLED_VARIABLE, contributed_provider, disabled_plugins, is_disabled, problem_of
from .redaction import Scrubber
from .spi import SandboxProvider, SandboxSession

DEFAULT_PROVIDER_ID = "local"
"""The provider used when neither host nor spec names one."""

OFFICIAL_PROVIDER_IDS = ("cubesandbox", "daytona", "e2b", "local")
"""Ids whose distribution is called ``ai4j-sandbox-<id>``."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Catalog:
    """What metadata says: folded id to the entries that claim it."""

    claims: Mapping[str, tuple[PluginEntry, ...]]
    disabled: Mapping[str, PluginEntry]
    problems: tuple[PluginProblem, ...]


def _read_catalog(path: Sequence[str] | None) -> _Catalog:
    found = discover(PROVIDERS_GROUP, path)
    switched_off = disabled_plugins()
    claims: dict[str, tuple[PluginEntry, ...]] = {}
    disabled: dict[str, PluginEntry] = {}
    for entry in found.entries:
        key = entry.name.casefold()
        if is_disabled(entry, switched_off):
            disabled[key] = entry
        else:
            claims[key] = (*claims.get(key, ()), entry)
    return _Catalog(claims=claims, disabled=disabled, problems=found.problems)


class SandboxRegistry:
    """The providers a host can use: the installed ones and those it registered itself.

    Making one is free: nothing is looked up before the first question. Safe to use from several threads.

    Args:
        path: Directories whose installed distributions count, instead of `sys.path`.
        strict: Raise where a broken plugin would otherwise only be listed in `problems`.
    """

    def __init__(self, *, path: Sequence[str] | None = None, strict: bool = False) -> None:
        self._path = path
        self._strict = strict
        self._lock = threading.Lock()
        self._catalog_read: _Catalog | None = None
        self._registered: dict[str, ProviderRegistration] = {}
        self._loaded: dict[PluginEntry, ProviderRegistration] = {}
        self._logged: set[PluginProblem] = set()

    # --- what there is ------------------------------------------------------------------------------------------

    def ids(self) -> tuple[str, ...]:
        """Return the ids that are claimed, sorted. Nothing is imported; whether each works `problems` tells.

        Raises:
            ProviderLoadError: In strict mode: an entry point is malformed.
        """
        catalog = self._catalog()
        self._tell(catalog.problems)
        installed = {key: claims[0].name for key, claims in catalog.claims.items()}
        registered = {key: registration.info.provider_id for key, registration in self._registered.items()}
        return tuple(sorted({**installed, **registered}.values()))

    def infos(self) -> tuple[ProviderInfo, ...]:
        """Return what is known of every provider that works, sorted by id. Imports hook modules, no provider.

        Raises:
            SandboxProviderError: In strict mode: a plugin is broken.
        """
        infos, problems = self._survey()
        self._tell(problems)
        return infos

    def info(self, provider_id: str) -> ProviderInfo:
        """Return what is known of one provider without importing it.

        Raises:
            ProviderNotFoundError, ProviderConflictError, ProviderIncompatibleError, ProviderLoadError: As `provider`.
        """
        return self._registration(provider_id).info

    def problems(self) -> tuple[PluginProblem, ...]:
        """Return everything that is wrong with installed plugins, each with its distribution and the reason."""
        _, problems = self._survey()
        return problems

    # --- use ----------------------------------------------------------------------------------------------------

    def provider(self, provider_id: str, /, **arguments: Any) -> SandboxProvider:
        """Import one provider and return a new instance. No other plugin is imported.

        Args:
            provider_id: Its id, in any case.
            **arguments: Handed to the provider's constructor.

        Raises:
            ProviderNotFoundError: Nothing installed has this id; says what is, what is broken, and what to install.
            ProviderConflictError: Several distributions claim the id; names them.
            ProviderIncompatibleError: The plugin was made for another version of the SPI.
            ProviderLoadError: The plugin does not work.
            SandboxConfigError: An argument is wrong.
        """
        return _provider_of(self._registration(provider_id), arguments)

    def create_session(
        self,
        spec: SandboxSpec | None = None,
        *,
        provider_id: str | None = None,
        isolation_floor: IsolationLevel | None = None,
    ) -> SandboxSession:
        """Create a sandbox with the provider that the host or the spec names, else with `DEFAULT_PROVIDER_ID`.

        Args:
            spec: What is wanted; ``None`` means the provider's defaults.
            provider_id: The provider to use; must not contradict `spec.provider_id`.
            isolation_floor: The weakest isolation the host accepts. Refused before anything is created where the
                provider cannot reach it; a session that turns out weaker is closed and refused.

        Raises:
            SandboxAdmissionError: The isolation is below the floor, or the provider refuses the spec.
            SandboxException: As `provider` and `SandboxProvider.create_session`.
        """
        registration = self._registration(_chosen_id(spec, provider_id))
        _require_isolation(registration.info.isolation, isolation_floor, registration.info.provider_id)
        session = _provider_of(registration).create_session(spec)
        _require_isolation_of(session, isolation_floor)
        return session

    def register(self, provider: SandboxProvider | ProviderRegistration, *, replace: bool = False) -> None:
        """Make a provider of this process available, without installing anything.

        Args:
            provider: An instance, which is then shared by all callers, or a registration that makes new ones.
            replace: Take an id that is claimed already.

        Raises:
            ProviderConflictError: The id is claimed and `replace` is not set.
        """
        registration = provider if isinstance(provider, ProviderRegistration) else _sharing(provider)
        provider_id = registration.info.provider_id
        key = provider_id.casefold()
        claims = self._catalog().claims.get(key, ())
        with self._lock:
            if not replace and (claims or key in self._registered):
                owners = [str(entry) for entry in claims] or ["an earlier register()"]
                raise ProviderConflictError(
                    f"provider id {provider_id!r} is taken by {' and '.join(owners)}",
                    hint="pass replace=True to use this one instead",
                    provider_id=provider_id,
                    outcome=Outcome.NOT_STARTED,
                )
            self._registered[key] = registration

    def refresh(self) -> None:
        """Look again at what is installed, at the next question. What was imported stays imported."""
        forget_directories()
        with self._lock:
            self._catalog_read = None

    # --- finding out --------------------------------------------------------------------------------------------

    def _catalog(self) -> _Catalog:
        with self._lock:
            if self._catalog_read is None:
                self._catalog_read = _read_catalog(self._path)
            return self._catalog_read

    def _registration(self, provider_id: str) -> ProviderRegistration:
        key = provider_id.casefold()
        if key in self._registered:
            return self._registered[key]
        claims = self._catalog().claims.get(key)
        if claims is None:
            self.refresh()
            claims = self._catalog().claims.get(key)
        if claims is None:
            raise self._not_found(provider_id)
        return self._load(claims)

    def _load(self, claims: Sequence[PluginEntry]) -> ProviderRegistration:
        if len(claims) > 1:
            raise _conflict(claims)
        entry = claims[0]
        if entry not in self._loaded:
            self._loaded[entry] = contributed_provider(entry)
        return self._loaded[entry]

    def _survey(self) -> tuple[tuple[ProviderInfo, ...], tuple[PluginProblem, ...]]:
        """Load every hook module; return the infos that came of it and what went wrong."""
        catalog = self._catalog()
        infos = {key: registration.info for key, registration in self._registered.items()}
        problems = list(catalog.problems)
        for key, claims in catalog.claims.items():
            if key in infos:
                continue
            try:
                infos[key] = self._load(claims).info
            except SandboxProviderError as error:
                problems.append(problem_of(claims[0], error))
        return tuple(infos[key] for key in sorted(infos)), tuple(problems)

    def _tell(self, problems: Iterable[PluginProblem]) -> None:
        """Log each problem once; in strict mode raise the first that keeps a plugin from working."""
        for problem in problems:
            if self._strict and problem.name is not None:
                raise ProviderLoadError(problem.reason, hint=problem.hint, outcome=Outcome.NOT_STARTED)
            if problem not in self._logged:
                self._logged.add(problem)
                _log.warning("%s", problem)

    def _not_found(self, provider_id: str) -> ProviderNotFoundError:
        infos, problems = self._survey()
        disabled = self._catalog().disabled.get(provider_id.casefold())
        return ProviderNotFoundError(
            _not_found_message(provider_id, [info.provider_id for info in infos], problems, disabled),
            hint=_not_found_hint(provider_id, disabled),
            provider_id=provider_id,
            operation="load",
            outcome=Outcome.NOT_STARTED,
        )


_DEFAULT = SandboxRegistry()


def default_registry() -> SandboxRegistry:
    """Return the registry of this process. It looks at what is installed when it is first asked something."""
    return _DEFAULT


# --- one provider -----------------------------------------------------------------------------------------------


def _conflict(claims: Sequence[PluginEntry]) -> ProviderConflictError:
    claimants = sorted(f"{entry.distribution} {entry.version} ({entry.value})" for entry in claims)
    return ProviderConflictError(
        f"provider id {claims[0].name!r} is claimed by {' and '.join(claimants)}; none of them is used",
        hint=f"uninstall one, or set {DISABLED_VARIABLE} to the name of the distribution that shall not count",
        provider_id=claims[0].name,
        operation="load",
        outcome=Outcome.NOT_STARTED,
    )


def _sharing(provider: SandboxProvider) -> ProviderRegistration:
    def factory() -> SandboxProvider:
        return provider

    return ProviderRegistration(info=provider.info, factory=factory)


def _provider_of(registration: ProviderRegistration, arguments: Mapping[str, Any] = EMPTY) -> SandboxProvider:
    provider = _made(registration, arguments)
    _require_provider(provider, registration.info)
    return provider


def _made(registration: ProviderRegistration, arguments: Mapping[str, Any]) -> SandboxProvider:
    info = registration.info
    try:
        return registration.factory(**arguments)
    except SandboxException:
        raise
    # The factory imports the provider: the same door to foreign code as in `plugin`. Its error may quote an argument,
    # which may be a credential, so with arguments neither their values nor the error as the cause get through.
    except (Exception, SystemExit) as error:  # noqa: BLE001
        secrets = Scrubber(str(value) for value in arguments.values())
        kind = SandboxConfigError if arguments and isinstance(error, TypeError) else ProviderLoadError
        given = f" with the arguments {', '.join(sorted(arguments))}" if arguments else ""
        raise kind(
            secrets.text(f"provider {info.provider_id!r} could not be made{given}: {type(error).__name__}: {error}"),
            hint=f"it comes from {info.distribution} {info.version}",
            provider_id=info.provider_id,
            operation="load",
            outcome=Outcome.NOT_STARTED,
        ) from (None if arguments else error)


def _require_provider(provider: object, info: ProviderInfo) -> None:
    if not isinstance(provider, SandboxProvider):
        wrong = f"made a {type(provider).__name__}, which is no SandboxProvider"
    elif provider.provider_id.casefold() != info.provider_id.casefold():
        wrong = f"made a provider that calls itself {provider.provider_id!r}; they must be equal"
    else:
        return
    raise ProviderLoadError(
        f"the plugin for {info.provider_id!r} of {info.distribution} {info.version} {wrong}",
        hint=f"tell the author of {info.distribution}",
        provider_id=info.provider_id,
        operation="load",
        outcome=Outcome.NOT_STARTED,
    )


def _chosen_id(spec: SandboxSpec | None, provider_id: str | None) -> str:
    wanted = spec.provider_id if spec else None
    if provider_id and wanted and provider_id.casefold() != wanted.casefold():
        raise SandboxConfigError(
            f"provider_id={provider_id!r} contradicts spec.provider_id={wanted!r}", hint="give one of them"
        )
    return provider_id or wanted or DEFAULT_PROVIDER_ID


def _require_isolation(offered: IsolationLevel, floor: IsolationLevel | None, provider_id: str) -> None:
    if floor is None or offered >= floor:
        return
    raise SandboxAdmissionError(
        f"provider {provider_id!r} isolates at level {offered.name}, the host requires at least {floor.name}",
        hint="choose a provider with stronger isolation; `ai4j providers list` shows their levels",
        provider_id=provider_id,
        operation="create",
        outcome=Outcome.NOT_STARTED,
    )


def _require_isolation_of(session: SandboxSession, floor: IsolationLevel | None) -> None:
    try:
        _require_isolation(session.isolation, floor, session.provider_id)
    except SandboxAdmissionError as refusal:
        _close_refused(session, refusal.located(session_id=session.session_id))
        raise


def _close_refused(session: SandboxSession, refusal: SandboxAdmissionError) -> None:
    try:
        session.close()
    except SandboxException as error:
        refusal.may_still_exist = True
        raise refusal from error


# --- an unknown id ----------------------------------------------------------------------------------------------


def _not_found_message(
    provider_id: str, available: Sequence[str], problems: Iterable[PluginProblem], disabled: PluginEntry | None
) -> str:
    """Return everything somebody needs who asked for a provider that is not there."""
    parts = [f"no sandbox provider {provider_id!r}", f"available: {', '.join(available) or 'none'}"]
    if disabled:
        parts.append(f"{disabled} is disabled by {DISABLED_VARIABLE}")
    nearest = _nearest(provider_id, available)
    if nearest:
        parts.append(f"did you mean {nearest!r}?")
    parts += (f"broken: {problem.reason}" for problem in problems if problem.name)
    return "; ".join(parts)


def _not_found_hint(provider_id: str, disabled: PluginEntry | None) -> str:
    if disabled:
        return f"take it out of {DISABLED_VARIABLE}"
    official = _nearest(provider_id, OFFICIAL_PROVIDER_IDS)
    if official:
        return f"pip install ai4j-sandbox-{official}"
    return "install the distribution that provides it; `ai4j providers list` shows what is there"


def _nearest(provider_id: str, known: Iterable[str]) -> str | None:
    folded: dict[str, str] = {name.casefold(): name for name in known}
    nearest = difflib.get_close_matches(provider_id.casefold(), folded, n=1)
    return folded[nearest[0]] if nearest else None
