"""Users and paths inside a machine: who asks, where is home, what does a path mean. Pure."""

from __future__ import annotations

import base64
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass

from .connect import Code, ConnectError


class UnknownUserError(Exception):
    """There is no such user."""

    def __init__(self, name: str) -> None:
        super().__init__(f"invalid username: '{name}'")


class PathError(Exception):
    """The path cannot be meant."""


@dataclass(frozen=True, slots=True)
class Account:
    """A user of the machine."""

    name: str
    home: str


@dataclass(frozen=True, slots=True)
class Accounts:
    """The users of the machine; the first is the default."""

    users: tuple[Account, ...]

    @classmethod
    def usual(cls, home: str) -> Accounts:
        """Return the users of the official templates."""
        return cls((Account("user", home), Account("root", "/root")))

    def find(self, name: str | None) -> Account:
        """Return a user by name; the default user without one.

        Raises:
            UnknownUserError: There is none.
        """
        if not name:
            return self.users[0]
        for account in self.users:
            if account.name == name:
                return account
        raise UnknownUserError(name)

    def of_request(self, headers: Mapping[str, str]) -> Account:
        """Return the user that a call's Basic credentials name.

        Raises:
            ConnectError: There is none of that name.
        """
        try:
            return self.find(basic_user(headers.get("Authorization", "")))
        except UnknownUserError as error:
            raise ConnectError(Code.UNAUTHENTICATED, str(error)) from error


def basic_user(authorization: str) -> str | None:
    """Return the user name in a Basic ``Authorization`` header, or ``None``."""
    scheme, _, credentials = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        return base64.b64decode(credentials, validate=True).decode().partition(":")[0]
    except ValueError:  # no base64, or no UTF-8 in it
        return None


def resolve(path: str, account: Account) -> str:
    """Return the absolute path that a user means: relative ones are below home, ``~`` is home, none is home.

    Raises:
        PathError: It names another user's home, or holds a NUL.
    """
    if "\0" in path:
        raise PathError("invalid path: it contains a NUL character")
    if path.startswith("~"):
        name, _, rest = path[1:].partition("/")
        if name:
            raise PathError("cannot expand user-specific home dir")
        path = rest
    return posixpath.normpath(posixpath.join(account.home, path))
