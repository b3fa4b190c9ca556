"""Methods and paths to handlers."""

from __future__ import annotations

from aiohttp import web

from ai4j_sandbox_emulator.reply import Reply
from ai4j_sandbox_emulator.routing import Match, Miss, Router


async def handler(request: web.Request, parameters: dict[str, str]) -> Reply:
    return Reply()


def router() -> Router:
    made = Router()
    made.add("GET", "/sandboxes/{sandbox_id}", handler)
    made.add("DELETE", "/templates/{snapshot_id}", handler)
    return made


def test_a_parameter_is_one_segment() -> None:
    assert router().find("GET", "/sandboxes/i1") == Match(handler, {"sandbox_id": "i1"})
    assert router().find("GET", "/sandboxes/i1/pause") == Miss(path_known=False)


def test_a_parameter_is_percent_decoded_after_the_path_was_split() -> None:
    assert router().find("DELETE", "/templates/team%2Fname%3Av1") == Match(handler, {"snapshot_id": "team/name:v1"})


def test_a_wrong_method_is_told_from_a_wrong_path() -> None:
    assert router().find("POST", "/sandboxes/i1") == Miss(path_known=True)
