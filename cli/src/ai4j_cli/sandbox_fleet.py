"""``ai4j sandbox ls``, ``info``, ``rm`` and ``cleanup``: sandboxes that exist, ours above all."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from .address import SandboxAddress, sandbox_address
from .application import Application, json_option, pass_application
from .options import connection_options, provider_option, sandbox_argument
from .parameters import duration, label, word

if TYPE_CHECKING:
    from ai4j_sandbox import SandboxException, SandboxSummary

    from .fleet import Survey


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _surveyed(application: Application, provider: str | None, labels: dict[str, str]) -> Survey:
    from .fleet import providers_asked, survey
    from .rendering import progress

    provider_ids = providers_asked(application, () if provider is None else (provider,))
    with progress(application, sys.stderr, f"asking {', '.join(provider_ids) or 'nobody'}"):
        return survey(application, provider_ids, labels)


def _tell_failures(application: Application, failures: Iterable[SandboxException]) -> None:
    from .failures import tell_failure

    for failure in failures:
        application.say(f"provider {failure.provider_id}:")
        tell_failure(application, failure)


# --- ls ---------------------------------------------------------------------------------------------------------


@click.command("ls")
@provider_option
@click.option("-a", "--all", "everybody", is_flag=True, help="Also sandboxes that ai4j did not make.")
@click.option("--owner", metavar="NAME", type=word, help="Those of another owner than $AI4J_SANDBOX_OWNER.")
@click.option(
    "--label", "labels", metavar="KEY=VALUE", type=label, multiple=True, help="Only with this tag. Repeatable."
)
@json_option
@pass_application
def ls(
    application: Application, provider: str | None, everybody: bool, owner: str | None, labels: tuple[Any, ...]
) -> int:
    """List the sandboxes that ai4j made and that still exist, of every configured provider.

    Exit code 125 when a provider could not be asked; the others are listed all the same.
    """
    from .failures import describe_failure, exit_code_of_all, write_json
    from .fleet import COLUMNS, describe, row
    from .rendering import print_table

    if everybody and owner:
        raise click.UsageError("give either --all or --owner, not both")
    wanted = dict(labels) | ({} if everybody else _owner_label(owner))
    answer = _surveyed(application, provider, wanted)
    if application.as_json:
        failures = [describe_failure(application, failure) for failure in answer.failures]
        write_json({"sandboxes": [describe(item) for item in answer.sandboxes], "failures": failures})
    else:
        print_table(sys.stdout, COLUMNS, [row(item, _now_ms()) for item in answer.sandboxes])
        _tell_failures(application, answer.failures)
    return exit_code_of_all(answer.failures)


def _owner_label(owner: str | None) -> dict[str, str]:
    from ai4j_sandbox.ownership import OWNER_LABEL, current_owner

    return {OWNER_LABEL: current_owner() if owner is None else owner}


# --- info -------------------------------------------------------------------------------------------------------


@click.command("info")
@sandbox_argument
@connection_options
@json_option
@pass_application
def info(
    application: Application, sandbox: SandboxAddress, provider: str | None, settings: tuple[tuple[str, str], ...]
) -> None:
    """Show what is known of SANDBOX. One that runs is looked into, one that is paused is not woken for it.

    SANDBOX is [PROVIDER/]ID, as `ls` shows it.
    """
    from .failures import write_json
    from .inspection import describe_sandbox, lines_of

    document = describe_sandbox(application, sandbox, provider, settings)
    if application.as_json:
        write_json(document)
        return
    from .rendering import print_lines

    print_lines(sys.stdout, lines_of(document, _now_ms()))


# --- rm ---------------------------------------------------------------------------------------------------------


@click.command("rm")
@click.argument("sandboxes", metavar="SANDBOX...", nargs=-1, required=True, type=sandbox_address)
@provider_option
@json_option
@pass_application
def rm(application: Application, sandboxes: tuple[SandboxAddress, ...], provider: str | None) -> int:
    """Destroy sandboxes, whoever made them. One that is gone already is fine.

    SANDBOX is [PROVIDER/]ID, as `ls` shows it. Exit code 125 when one could not be destroyed.
    """
    from .attachment import lister, provider_id_of
    from .failures import exit_code_of_all

    addresses = [
        SandboxAddress(session_id=item.session_id, provider_id=provider_id_of(application, item, provider))
        for item in sandboxes
    ]
    for address in addresses:
        lister(application, address.provider_id or "")  # before anything is destroyed
    return exit_code_of_all(_remove(application, addresses))


def _remove(application: Application, addresses: Iterable[SandboxAddress], **facts: Any) -> list[SandboxException]:
    """Destroy sandboxes and tell it; return what went wrong."""
    from ai4j_sandbox import SandboxException

    from .attachment import lister
    from .failures import describe_failure, write_json

    removed: list[SandboxAddress] = []
    failures: list[SandboxException] = []
    for address in addresses:
        try:
            lister(application, address.provider_id or "").destroy(address.session_id)
        except SandboxException as error:
            failures.append(error.located(provider_id=address.provider_id, session_id=address.session_id))
        else:
            removed.append(address)
    if application.as_json:
        told = [describe_failure(application, failure) for failure in failures]
        write_json({"removed": [str(address) for address in removed], "failures": told, **facts})
    else:
        _tell_removed(removed)
        _tell_failures(application, failures)
    return failures


def _tell_removed(addresses: Iterable[SandboxAddress]) -> None:
    from .rendering import print_lines

    print_lines(sys.stdout, (f"removed {address}" for address in addresses))


# --- cleanup ----------------------------------------------------------------------------------------------------


@click.command("cleanup")
@provider_option
@click.option("--older-than", metavar="SPAN", type=duration, help="Only what is older: 90, 30m, 2h, 7d.")
@click.option("--owner", metavar="NAME", type=word, help="Those of another owner than $AI4J_SANDBOX_OWNER.")
@click.option("--dry-run", is_flag=True, help="Only show what would be destroyed.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
@pass_application
def cleanup(
    application: Application,
    provider: str | None,
    older_than: float | None,
    owner: str | None,
    dry_run: bool,
    yes: bool,
) -> int:
    """Destroy sandboxes that ai4j made and that were left behind, of every configured provider.

    They carry the owner tag ($AI4J_SANDBOX_OWNER); others are never touched. Asks first; where nobody can be asked
    --yes is needed. Exit code 125 when a provider failed.
    """
    from .failures import describe_failure, exit_code_of_all, write_json
    from .fleet import address_of, describe, split_by_age
    from .streams import is_terminal

    asked = is_terminal(sys.stdin) and not application.as_json
    if not (yes or dry_run or asked):
        raise click.UsageError("nobody can be asked here: give --yes, or --dry-run to see what would be destroyed")
    answer = _surveyed(application, provider, _owner_label(owner))
    old, ageless = split_by_age(answer.sandboxes, older_than, _now_ms())
    if not application.as_json:
        _show_candidates(application, answer, old, ageless)
    if dry_run or not old or not (yes or click.confirm(f"Destroy {len(old)} sandboxes?", err=True)):
        if application.as_json:
            told = [describe_failure(application, failure) for failure in answer.failures]
            write_json({"candidates": [describe(item) for item in old], "removed": [], "failures": told})
        return exit_code_of_all(answer.failures)
    failures = _remove(application, map(address_of, old), candidates=[describe(item) for item in old])
    return exit_code_of_all((*answer.failures, *failures))


def _show_candidates(
    application: Application, answer: Survey, old: list[SandboxSummary], ageless: list[SandboxSummary]
) -> None:
    from .fleet import COLUMNS, address_of, row
    from .rendering import print_table

    if old:
        print_table(sys.stdout, COLUMNS, [row(item, _now_ms()) for item in old])
    else:
        application.note("nothing to destroy")
    for item in ageless:
        application.say(f"{address_of(item)} is left alone: its age is not known")
    _tell_failures(application, answer.failures)
