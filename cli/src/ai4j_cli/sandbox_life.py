"""``ai4j sandbox port``, ``pause``, ``resume`` and ``extend``: what only some providers can do."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from .address import SandboxAddress
from .application import Application, json_option, pass_application
from .options import connection_options, sandbox_argument, together
from .parameters import duration

if TYPE_CHECKING:
    from ai4j_sandbox import SandboxSession

_common = together(sandbox_argument, connection_options, json_option, pass_application)
Settings = tuple[tuple[str, str], ...]


@click.command("port")
@sandbox_argument
@click.argument("number", metavar="PORT", type=click.IntRange(1, 65535))
@click.option("--show-headers", is_flag=True, help="Also the headers a request needs; they may hold a token.")
@connection_options
@json_option
@pass_application
def port(
    application: Application,
    sandbox: SandboxAddress,
    number: int,
    show_headers: bool,
    provider: str | None,
    settings: Settings,
) -> None:
    """Print the URL at which a PORT that something inside SANDBOX listens on can be reached."""
    from ai4j_sandbox.spi import SupportsPorts

    from .attachment import attached
    from .failures import write_json
    from .rendering import print_lines

    with attached(application, sandbox, provider, settings) as session:
        reachable = session.require(SupportsPorts).port_url(number)
    headers = dict(reachable.headers) if show_headers else dict.fromkeys(reachable.headers, "(hidden)")
    if application.as_json:
        write_json({"sandbox": str(sandbox), "port": number, "url": reachable.url, "headers": headers})
        return
    shown = [f"{name}: {value}" for name, value in headers.items()] if show_headers else []
    print_lines(sys.stdout, [reachable.url, *shown])
    if headers and not show_headers:
        application.note(f"a request needs the headers {', '.join(headers)}; --show-headers prints them")


@click.command("pause")
@_common
def pause(application: Application, sandbox: SandboxAddress, provider: str | None, settings: Settings) -> None:
    """Freeze everything inside SANDBOX; `resume` wakes it."""
    from ai4j_sandbox.spi import SupportsPause

    def freeze(session: SandboxSession) -> None:
        session.require(SupportsPause).pause()

    _changed(application, sandbox, provider, settings, change=freeze, told="paused")


@click.command("resume")
@_common
def resume(application: Application, sandbox: SandboxAddress, provider: str | None, settings: Settings) -> None:
    """Wake SANDBOX after `pause`."""

    def wake(session: SandboxSession) -> None:
        session.resume()

    _changed(application, sandbox, provider, settings, change=wake, told="resumed")


@click.command("extend")
@sandbox_argument
@click.argument("span", type=duration)
@connection_options
@json_option
@pass_application
def extend(
    application: Application, sandbox: SandboxAddress, span: float, provider: str | None, settings: Settings
) -> None:
    """Let SANDBOX live at least SPAN from now (90, 30m, 2h, 7d); its life is never shortened."""
    from ai4j_sandbox.spi import SupportsExtend

    seconds = max(1, round(span))

    def prolong(session: SandboxSession) -> None:
        session.require(SupportsExtend).extend(seconds)

    told = f"lives at least {seconds} seconds from now"
    _changed(application, sandbox, provider, settings, change=prolong, told=told)


def _changed(
    application: Application,
    sandbox: SandboxAddress,
    provider: str | None,
    settings: Settings,
    *,
    change: Callable[[SandboxSession], Any],
    told: str,
) -> None:
    from .attachment import attached
    from .failures import write_json
    from .rendering import print_lines

    with attached(application, sandbox, provider, settings) as session:
        change(session)
        name = f"{session.provider_id}/{session.session_id}"
    if application.as_json:
        write_json({"sandbox": name, "done": told})
    else:
        print_lines(sys.stdout, [f"{name} {told}"])
