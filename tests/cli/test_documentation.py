"""`docs/cli.md` names every command, every option and every exit code of ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from ai4j_cli.failures import ExitCode
from ai4j_cli.lazy_group import LazyGroup
from ai4j_cli.main import program

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()


def commands(group: LazyGroup = program) -> Iterator[click.Command]:
    """Yield every command of this distribution, with the groups."""
    for lazy in group._lazy.values():
        command = lazy.load()
        yield command
        if isinstance(command, LazyGroup):
            yield from commands(command)


@pytest.mark.parametrize("command", list(commands()), ids=lambda command: command.name)
def test_a_command_and_its_options_are_on_the_page(command):
    options = {max(option.opts, key=len) for option in command.params if isinstance(option, click.Option)}

    assert command.name in PAGE
    assert [option for option in sorted(options) if option not in PAGE] == []


@pytest.mark.parametrize("code", ExitCode)
def test_an_exit_code_is_on_the_page(code):
    assert f"| {code.value}" in PAGE


@pytest.mark.parametrize("name", ["run", "status", "top"])
def test_a_picture_is_there_and_loads_nothing_from_elsewhere(name):
    picture = (Path(__file__).parents[2] / "docs" / "images" / f"{name}.svg").read_text()

    assert f"images/{name}.svg" in PAGE
    assert "url(" not in picture.replace("url(#", "")
