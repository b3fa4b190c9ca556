"""One remote procedure call as the services see it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass

from ai4j_sandbox_emulator.sandbox import Sandbox

from .accounts import Account, PathError, resolve
from .codec import Document
from .connect import Code, ConnectError
from .messages import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call with its parsed request.

    Attributes:
        account: The user it is for.
        document: The request message.
    """

    sandbox: Sandbox
    account: Account
    headers: Mapping[str, str]
    document: Document

    def path(self, name: str = "path") -> str:
        """Return a path field, made absolute for the user.

        Raises:
            ConnectError: It cannot be meant.
        """
        try:
            return resolve(self.document.get(name, ""), self.account)
        except PathError as error:
            raise ConnectError(Code.INVALID_ARGUMENT, str(error)) from error


Batches = AsyncGenerator[list[Document], None]
"""A stream's messages; those that are ready together come together and go out in one write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unary:
    """A method with one request and one answer."""

    request: Message
    response: Message
    method: Callable[[Call], Awaitable[Document]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStream:
    """A method with one request and many answers."""

    request: Message
    response: Message
    method: Callable[[Call], Batches]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientStream:
    """A method with many requests and one answer; called once for each request, with what the last call returned."""

    request: Message
    response: Message
    method: Callable[[Call, object], Awaitable[object]]


Method = Unary | ServerStream | ClientStream
