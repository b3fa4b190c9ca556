"""The command tree and the way in."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from itertools import takewhile
from typing import Any

import click

from .application import Application
from .lazy_group import LazyCommand, LazyGroup
from .startup import interrupts_leave, interrupts_raise
from .streams import discard_output, open_missing_streams, survive_any_encoding


class Program(LazyGroup):
    """The whole of ``ai4j``: the one place where failures become messages and exit codes."""

    def available(self) -> Mapping[str, LazyCommand]:
        """Return the commands of this distribution, and those that others bring under names of their own."""
        from .installed_commands import installed_commands

        ours = super().available()
        return {**ours, **{name: lazy for name, lazy in installed_commands().items() if name not in ours}}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse what stands before the command's name."""
        # Known before the command's own options are parsed, so that an error in those is told in JSON as well.
        ctx.ensure_object(Application).json_is_asked = "--json" in takewhile(lambda word: word != "--", args)
        return super().parse_args(ctx, args)

    def make_context(self, info_name: str | None, *arguments: Any, **options: Any) -> click.Context:
        """Begin an invocation."""
        application = options.setdefault("obj", Application())
        try:
            return super().make_context(info_name, *arguments, **options)
        except BaseException as error:  # noqa: BLE001 - whatever it is, nobody sees a traceback who did not ask
            raise _ending(application, error) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command and end with its exit code."""
        try:
            interrupts_raise()
            code = super().invoke(ctx)
            if sys.stdout is not None:
                sys.stdout.flush()
        except BaseException as error:  # noqa: BLE001 - as above
            raise _ending(ctx.ensure_object(Application), error) from None
        ctx.exit(code or 0)


def _ending(application: Application, error: BaseException) -> BaseException:
    """Return what ends the program because of `error`, which has been told."""
    if isinstance(error, click.exceptions.Exit | click.exceptions.NoArgsIsHelpError):
        return error
    interrupts_leave()
    return click.exceptions.Exit(_told(application, error))


def _told(application: Application, error: BaseException) -> int:
    from .failures import ExitCode, report_failure

    try:
        code = report_failure(application, error)
    except BrokenPipeError:
        code = ExitCode.BROKEN_PIPE
    if code == ExitCode.BROKEN_PIPE:
        discard_output(sys.stdout, sys.stderr)
    elif isinstance(error, OSError):  # it may be our own output that cannot be written
        discard_output(sys.stdout)
    return code


def _print_version(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if not value:
        return
    from importlib.metadata import version

    python = ".".join(map(str, sys.version_info[:3]))
    click.echo(f"ai4j {version('ai4j-cli')} (ai4j-sandbox {version('ai4j-sandbox')}, Python {python})")
    context.exit()


@click.group(
    "ai4j",
    cls=Program,
    context_settings={"help_option_names": ["-h", "--help"]},
    lazy={
        "chat": LazyCommand(
            module="ai4j_cli.chat.command", attribute="chat", summary="Work on a project with a model, in a sandbox."
        ),
        "sandbox": LazyCommand(
            module="ai4j_cli.main", attribute="sandbox", summary="Run commands in isolated environments."
        ),
        "top": LazyCommand(
            module="ai4j_cli.top.command", attribute="top", summary="Watch sandboxes and what runs in them."
        ),
        "providers": LazyCommand(
            module="ai4j_cli.main", attribute="providers", summary="Which providers there are and whether they work."
        ),
        "blueprint": LazyCommand(module="ai4j_cli.main", attribute="blueprint", summary="Agents declared in YAML."),
        "session": LazyCommand(module="ai4j_cli.main", attribute="session", summary="Stored agent sessions."),
        "completion": LazyCommand(
            module="ai4j_cli.completion_script", attribute="completion", summary="Completion for your shell."
        ),
    },
)
@click.option("--debug", is_flag=True, help="Show where an error happened.")
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Show the version."
)
@click.pass_context
def program(context: click.Context, debug: bool) -> None:
    """Run commands in sandboxes of any installed provider."""
    context.ensure_object(Application).debug = debug


@click.group(
    "sandbox",
    cls=LazyGroup,
    lazy={
        name: LazyCommand(module=f"ai4j_cli.{module}", attribute=attribute, summary=summary)
        for name, module, attribute, summary in (
            ("run", "sandbox_run", "run", "Run a command in a new sandbox, then close it."),
            ("ls", "sandbox_fleet", "ls", "The sandboxes that exist."),
            ("info", "sandbox_fleet", "info", "What is known of one."),
            ("exec", "sandbox_exec", "exec_command", "Run a command in one that exists."),
            ("shell", "sandbox_exec", "shell", "Open a shell in one on this terminal."),
            ("cp", "sandbox_copy", "cp", "Copy files in or out."),
            ("artifacts", "sandbox_exec", "artifacts", "List and fetch files by pattern."),
            ("port", "sandbox_life", "port", "The URL of a port inside."),
            ("pause", "sandbox_life", "pause", "Freeze one."),
            ("resume", "sandbox_life", "resume", "Wake one."),
            ("extend", "sandbox_life", "extend", "Let one live longer."),
            ("rm", "sandbox_fleet", "rm", "Destroy some."),
            ("cleanup", "sandbox_fleet", "cleanup", "Destroy what was left behind."),
        )
    },
)
def sandbox() -> None:
    """Run commands in isolated environments."""


@click.group(
    "blueprint",
    cls=LazyGroup,
    lazy={
        "check": LazyCommand(
            module="ai4j_cli.blueprint_check", attribute="check", summary="Every issue, with line, path and code."
        ),
    },
)
def blueprint() -> None:
    """Agents declared in YAML."""


@click.group(
    "session",
    cls=LazyGroup,
    lazy={
        "show": LazyCommand(module="ai4j_cli.session_file", attribute="show", summary="What is in a snapshot."),
        "verify": LazyCommand(
            module="ai4j_cli.session_file", attribute="verify", summary="Whether its event log is intact."
        ),
    },
)
def session() -> None:
    """Stored agent sessions."""


@click.group(
    "providers",
    cls=LazyGroup,
    lazy={
        name: LazyCommand(module="ai4j_cli.providers", attribute=f"{name}_command", summary=summary)
        for name, summary in {
            "list": "What is installed, and what is broken.",
            "show": "What a provider can do, and its settings as they are in force.",
            "check": "Whether a provider takes a sandbox description, field by field.",
            "doctor": "Whether providers work here, and what to do if not.",
        }.items()
    },
)
def providers() -> None:
    """Which providers there are and whether they work."""


def main(application: Application | None = None) -> None:
    """Be the program; ends the process with its exit code."""
    open_missing_streams()
    survive_any_encoding(sys.stdout, sys.stderr)
    program.main(prog_name="ai4j", obj=application or Application())
