"""What all commands of one invocation share."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from .streams import discard_output

if TYPE_CHECKING:
    from ai4j_sandbox import SandboxRegistry


class Application:
    """The state of one invocation: where providers come from and how to answer.

    Attributes:
        debug: Show tracebacks.
        as_json: Answer with one JSON document, errors included.
        json_is_asked: The command line says ``--json``, whether or not its command understands it.
        verbose: Tell on stderr what is being done even where that is no terminal.
        secrets: Values that no message may show.

    Args:
        registry: Where providers come from; the installed ones by default.
    """

    def __init__(self, registry: SandboxRegistry | None = None) -> None:
        self._registry = registry
        self.debug = False
        self.as_json = False
        self.json_is_asked = False
        self.verbose = False
        self.secrets: list[str] = []

    @property
    def registry(self) -> SandboxRegistry:
        """Where providers come from."""
        import logging

        from ai4j_sandbox import default_registry

        # A broken plugin is told by `ai4j providers` and by whoever asks for it, not by every command.
        logging.getLogger("ai4j_sandbox").addHandler(logging.NullHandler())
        return self._registry or default_registry()

    def protect(self, values: Mapping[str, Any]) -> None:
        """Keep the texts with a sensitive name, however deep, out of every message from now on."""
        self.secrets += (text for _, text in sensitive_texts(values))

    def say(self, message: str) -> None:
        """Write one line to stderr: ``ai4j: message``, secrets masked, control characters made visible."""
        from .rendering import one_line

        try:
            click.echo(f"ai4j: {one_line(self.masked(message))}", err=True)
        except BrokenPipeError:
            raise
        except OSError:  # the terminal was closed, or the disk is full: then only the exit code tells
            discard_output(sys.stderr)

    def masked(self, text: str) -> str:
        """Return a text meant for people without secrets: those known, and what looks like one."""
        from ai4j_sandbox import Scrubber

        return Scrubber(self.secrets).text(text)

    def note(self, message: str) -> None:
        """Say something that is only of interest to somebody who watches."""
        if self.verbose or (sys.stderr is not None and sys.stderr.isatty()):
            self.say(message)


def sensitive_texts(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield name and value of every text that has a sensitive name, however deep it is."""
    from ai4j_sandbox.redaction import is_sensitive_key

    for name, value in values.items():
        for item in value if isinstance(value, list | tuple) else (value,):
            if isinstance(item, Mapping):
                yield from sensitive_texts(item)
            elif isinstance(item, str) and is_sensitive_key(name):
                yield name, item


pass_application = click.make_pass_decorator(Application)


def _set_json(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    context.ensure_object(Application).as_json = value


json_option = click.option(
    "--json",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_set_json,
    help="Answer with one JSON document on standard output.",
)
