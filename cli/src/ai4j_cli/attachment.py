"""From a sandbox's address to a live session with it, and to the provider that knows it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import click

from ai4j_sandbox import Capability, SandboxSession, SandboxSpec, UnsupportedCapabilityError
from ai4j_sandbox.spi import SandboxProvider, SupportsConnect, SupportsListing

from .address import SandboxAddress
from .application import Application
from .rendering import progress
from .spec_options import PROVIDER_VARIABLE, provider_of_environment, settings_of


def spec_for(
    application: Application, address: SandboxAddress, provider: str | None, settings: Iterable[tuple[str, str]] = ()
) -> SandboxSpec:
    """Return the spec to attach with: whose sandbox it is, and the settings of the command line.

    Raises:
        click.UsageError: It is not said whose sandbox it is, or said twice and differently.
        SandboxConfigError: A setting is wrong, or a credential.
    """
    return SandboxSpec(provider_id=provider_id_of(application, address, provider), config=settings_of(tuple(settings)))


def provider_id_of(application: Application, address: SandboxAddress, provider: str | None) -> str:
    """Return whose sandbox an address names.

    Raises:
        click.UsageError: It is not said, or said twice and differently.
    """
    said = address.provider_id
    if said and provider and said.casefold() != provider.casefold():
        raise click.UsageError(f"{address} contradicts --provider {provider}")
    chosen = said or provider or provider_of_environment()
    if chosen:
        return chosen
    able = [info.provider_id for info in application.registry.infos() if Capability.CONNECT in info.capabilities]
    raise click.UsageError(
        f"whose sandbox is {address.session_id}? Write PROVIDER/ID, or give --provider or ${PROVIDER_VARIABLE}; "
        f"providers that can attach: {', '.join(able) or 'none'}"
    )


def connect(application: Application, spec: SandboxSpec, session_id: str) -> SandboxSession:
    """Attach to a sandbox; closing the session leaves it alive.

    Raises:
        UnsupportedCapabilityError: The provider cannot attach.
        SandboxNotFoundError: There is no such sandbox.
        SandboxException: It could not be reached.
    """
    provider = application.registry.provider(spec.provider_id or "")
    if not isinstance(provider, SupportsConnect):
        raise _cannot(provider, "attach to a sandbox that exists")
    return provider.connect(session_id, spec)


@contextmanager
def attached(
    application: Application, address: SandboxAddress, provider: str | None, settings: Iterable[tuple[str, str]] = ()
) -> Iterator[SandboxSession]:
    """Give a session with an existing sandbox, which is left alive afterwards."""
    spec = spec_for(application, address, provider, settings)
    with progress(application, sys.stderr, f"attaching to {spec.provider_id}/{address.session_id}"):
        session = connect(application, spec, address.session_id)
    with session:
        session.protect(*application.secrets)
        yield session


def lister(application: Application, provider_id: str) -> SupportsListing:
    """Return a provider that can list and destroy.

    Raises:
        UnsupportedCapabilityError: It cannot.
    """
    provider = application.registry.provider(provider_id)
    if isinstance(provider, SupportsListing):
        return provider
    raise _cannot(provider, "list or remove sandboxes")


def _cannot(provider: SandboxProvider, what: str) -> UnsupportedCapabilityError:
    offered = ", ".join(provider.info.capabilities.offered()) or "nothing beyond commands"
    return UnsupportedCapabilityError(
        f"provider {provider.provider_id!r} cannot {what}; it can do: {offered}", provider_id=provider.provider_id
    )
