"""Checks of what callers pass, in one place for all providers: a wrong type is a `SandboxConfigError` that names it.

`check_calls` puts such checks before the methods of a class that others subclass, so that neither their authors have
to repeat them nor can a caller meet another provider's `TypeError`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from .errors import SandboxConfigError
from .frozen import type_name


def require_whole(
    name: str, value: object, *, minimum: int | None = None, maximum: int | None = None, hint: str | None = None
) -> None:
    """Raise unless `value` is an integer (and no boolean) within the inclusive bounds."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int)
        or (minimum is not None and value < minimum)
        or (maximum is not None and value > maximum)
    ):
        raise SandboxConfigError(f"{name} must be {_range(minimum, maximum)}, got {value!r}", hint=hint)


def _range(minimum: int | None, maximum: int | None) -> str:
    if maximum is None:
        return "a whole number" if minimum is None else f"a whole number of at least {minimum}"
    return f"a whole number of at most {maximum}" if minimum is None else f"a whole number from {minimum} to {maximum}"


def require_text(name: str, value: object) -> None:
    """Raise unless `value` is text that is not empty."""
    if not isinstance(value, str):
        raise SandboxConfigError(f"{name} must be text, got {type_name(value)}")
    if not value:
        raise SandboxConfigError(f"{name} must not be empty")


def check_calls(kind: type[Any], checks: Mapping[str, Callable[..., None]]) -> None:
    """Let every method of `kind` that `checks` names call its check first, with the same arguments but ``self``."""
    for name, check in checks.items():
        method = getattr(kind, name, None)
        if callable(method) and not hasattr(method, "checked_by"):
            setattr(kind, name, _checked(method, check))


def _checked(method: Callable[..., Any], check: Callable[..., None]) -> Callable[..., Any]:
    @functools.wraps(method)
    def checked(self: Any, *arguments: Any, **options: Any) -> Any:
        try:
            check(*arguments, **options)
        except SandboxConfigError as error:
            raise error.located(
                provider_id=getattr(self, "provider_id", None),
                session_id=getattr(self, "session_id", None),
                operation=method.__name__,
            ) from None
        return method(self, *arguments, **options)

    checked.checked_by = check  # type: ignore[attr-defined]  # the mark by which `check_calls` knows its own
    return checked
