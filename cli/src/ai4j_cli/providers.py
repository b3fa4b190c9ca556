"""``ai4j providers``: which there are, what they can do, whether they take a spec, whether they work."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from .application import Application, json_option, pass_application
from .options import complete_file, complete_provider
from .parameters import file_name, provider_name

if TYPE_CHECKING:
    from ai4j_sandbox import Admission, ProviderInfo
    from ai4j_sandbox.discovery import PluginProblem

    from .catalog import SettingInForce
    from .health import Diagnosis


# --- list -------------------------------------------------------------------------------------------------------


@click.command("list")
@json_option
@pass_application
def list_command(application: Application) -> None:
    """List what is installed and what is broken. Loads no provider."""
    from .catalog import describe_info, describe_problem
    from .failures import write_json

    infos, problems = application.registry.infos(), application.registry.problems()
    if application.as_json:
        write_json(
            {
                "providers": [describe_info(info, os.environ) for info in infos],
                "problems": [describe_problem(problem) for problem in problems],
            }
        )
        return
    _print_infos(infos)
    _print_problems(problems)


def _print_infos(infos: Iterable[ProviderInfo]) -> None:
    from .catalog import unmet_requirements
    from .rendering import print_table

    rows = (
        (
            info.provider_id,
            info.display_name,
            _isolation(info),
            f"{info.distribution} {info.version}",
            "; ".join(unmet_requirements(info, os.environ)) or "-",
        )
        for info in infos
    )
    print_table(sys.stdout, ("ID", "NAME", "ISOLATION", "DISTRIBUTION", "STILL NEEDS"), rows)


def _print_problems(problems: Iterable[PluginProblem]) -> None:
    from .rendering import print_lines

    for problem in problems:
        name = f" {problem.name}" if problem.name else ""
        advice = (f"    -> {problem.hint}",) if problem.hint else ()
        print_lines(sys.stdout, (f"broken{name}: {problem.reason}", *advice))


def _isolation(info: ProviderInfo) -> str:
    return info.isolation.name.lower().replace("_", " ")


# --- show -------------------------------------------------------------------------------------------------------


@click.command("show")
@click.argument("provider_id", metavar="ID", type=provider_name, shell_complete=complete_provider)
@json_option
@pass_application
def show_command(application: Application, provider_id: str) -> None:
    """Show what provider ID can do, and its settings: the value in force and where it comes from.

    Secrets are masked.
    """
    from .catalog import describe_info, settings_in_force
    from .failures import write_json

    provider = application.registry.provider(provider_id)
    info, settings = provider.info, settings_in_force(provider.settings, os.environ)
    if application.as_json:
        write_json(describe_info(info, os.environ) | {"settings": [setting.document() for setting in settings]})
        return
    _print_facts(info)
    _print_capabilities(info)
    _print_settings(settings)


def _print_facts(info: ProviderInfo) -> None:
    from .rendering import print_lines

    needs = [f"needs: {requirement.hint}" for requirement in info.requirements]
    print_lines(
        sys.stdout,
        (
            f"{info.provider_id}: {info.display_name}",
            f"distribution: {info.distribution} {info.version}",
            f"isolation: {_isolation(info)}",
            f"location: {info.location}",
            *needs,
        ),
    )


def _print_capabilities(info: ProviderInfo) -> None:
    from ai4j_sandbox import Capability

    from .rendering import print_lines, print_table

    rows = []
    for capability in Capability:
        support = info.capabilities[capability]
        limits = ", ".join(f"{name} {value}" for name, value in support.limits.items())
        rows.append((capability.value, support.level.value, "; ".join(filter(None, (support.reason, limits)))))
    print_lines(sys.stdout, ("",))
    print_table(sys.stdout, ("CAPABILITY", "LEVEL", "NOTE"), rows)


def _print_settings(settings: Iterable[SettingInForce]) -> None:
    from .rendering import print_lines, print_table

    rows = [(item.setting.name, item.shown, item.origin, item.setting.knobs, item.setting.help) for item in settings]
    if rows:
        print_lines(sys.stdout, ("",))
        print_table(sys.stdout, ("SETTING", "VALUE", "FROM", "CAN BE SET BY", "MEANING"), rows)


# --- check ------------------------------------------------------------------------------------------------------


@click.command("check")
@click.argument("provider_id", metavar="ID", type=provider_name, shell_complete=complete_provider)
@click.argument("spec_file", metavar="SPEC.yaml", type=file_name, shell_complete=complete_file)
@json_option
@pass_application
def check_command(application: Application, provider_id: str, spec_file: str) -> int:
    """Tell for every field of SPEC.yaml what provider ID makes of it. Contacts nothing.

    SPEC.yaml may be JSON; - is standard input. Exit code 1 when a field is refused.
    """
    from .documents import load_spec_file
    from .failures import ExitCode, write_json

    admission = application.registry.provider(provider_id).check(load_spec_file(spec_file))
    if application.as_json:
        decisions = [
            {"field": item.field, "decision": item.decision, "reason": item.reason} for item in admission.decisions
        ]
        write_json({"providerId": admission.provider_id, "accepted": admission.accepted, "decisions": decisions})
    else:
        _print_admission(admission)
    return ExitCode.DONE if admission.accepted else ExitCode.NEGATIVE


def _print_admission(admission: Admission) -> None:
    from .rendering import print_lines, print_table

    rows = [(item.field, item.decision.value, item.reason or "") for item in admission.decisions]
    if rows:
        print_table(sys.stdout, ("FIELD", "DECISION", "REASON"), rows)
    verdict = "accepted" if admission.accepted else "refused"
    print_lines(sys.stdout, (f"{verdict} by {admission.provider_id}",))


# --- doctor -----------------------------------------------------------------------------------------------------


@click.command("doctor")
@click.argument("provider_id", metavar="[ID]", required=False, type=provider_name, shell_complete=complete_provider)
@json_option
@pass_application
def doctor_command(application: Application, provider_id: str | None) -> int:
    """Find out whether provider ID works here, or all that are configured, and what to do if not.

    Exit code 1 when one does not work.
    """
    from .catalog import describe_problem
    from .failures import ExitCode, write_json
    from .health import Condition, diagnose, surroundings

    registry = application.registry
    infos = registry.infos() if provider_id is None else (registry.info(provider_id),)
    diagnoses = [diagnose(registry, info, os.environ) for info in infos]
    ignored = {Condition.UNCONFIGURED} if provider_id is None else set()
    working = all(diagnosis.works or diagnosis.condition in ignored for diagnosis in diagnoses)
    if application.as_json:
        write_json(
            {
                "working": working,
                "providers": [diagnosis.document() for diagnosis in diagnoses],
                "problems": [describe_problem(problem) for problem in registry.problems()],
                "surroundings": surroundings(),
            }
        )
    else:
        _print_diagnoses(diagnoses)
        _print_problems(registry.problems())
    return ExitCode.DONE if working else ExitCode.NEGATIVE


def _print_diagnoses(diagnoses: Iterable[Diagnosis]) -> None:
    from .health import surroundings
    from .rendering import print_lines

    for diagnosis in diagnoses:
        print_lines(sys.stdout, diagnosis.lines())
    print_lines(sys.stdout, (f"{name}: {value}" for name, value in surroundings().items()))
