"""``/_emulator/…``: faults and records for tests in other processes. On the same port, without a key; loopback only.

POST   /_emulator/faults            put a fault in force (`faults.parse_fault`); answers ``{"number": 1}``
GET    /_emulator/faults            the faults that may still hit something
DELETE /_emulator/faults            lift all
DELETE /_emulator/faults/{number}   lift one
GET    /_emulator/requests          what clients asked, the oldest first
DELETE /_emulator/requests          forget it
"""

from __future__ import annotations

from aiohttp import web

from .faults import FaultBoard, FaultError, parse_fault
from .json_text import parse_json, whole_number
from .recorder import Recorder
from .reply import Reply, empty_reply, json_reply
from .routing import Match, Router

PREFIX = "/_emulator/"


class AdminApi:
    """Answers the emulator's own paths."""

    def __init__(self, faults: FaultBoard, recorder: Recorder) -> None:
        self._faults = faults
        self._recorder = recorder
        self._router = Router()
        for method, template, handler in (
            ("POST", f"{PREFIX}faults", self._add_fault),
            ("GET", f"{PREFIX}faults", self._list_faults),
            ("DELETE", f"{PREFIX}faults", self._clear_faults),
            ("DELETE", f"{PREFIX}faults/{{number}}", self._remove_fault),
            ("GET", f"{PREFIX}requests", self._list_requests),
            ("DELETE", f"{PREFIX}requests", self._clear_requests),
        ):
            self._router.add(method, template, handler)

    async def handle(self, request: web.Request) -> Reply:
        """Answer one request."""
        match = self._router.find(request.method, request.path)
        if not isinstance(match, Match):
            return json_reply({"message": "no such path"}, 404)
        return await match.handler(request, match.parameters)

    async def _add_fault(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        try:
            fault = parse_fault(parse_json(await request.read()))
        except (FaultError, ValueError, TypeError) as error:
            return json_reply({"message": str(error)}, 400)
        return json_reply({"number": self._faults.add(fault)}, 201)

    async def _list_faults(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        in_force = self._faults.in_force().items()
        return json_reply([{"number": number, **fault.as_json()} for number, fault in in_force])

    async def _clear_faults(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        self._faults.clear()
        return empty_reply()

    async def _remove_fault(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        number = whole_number(parameters["number"])
        removed = number is not None and self._faults.remove(number)
        return empty_reply() if removed else json_reply({"message": f"no fault {parameters['number']} in force"}, 404)

    async def _list_requests(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        return json_reply([item.as_json() for item in self._recorder.all()])

    async def _clear_requests(self, request: web.Request, parameters: dict[str, str]) -> Reply:
        self._recorder.clear()
        return empty_reply()
