"""What is wrong with a blueprint: a list of issues, each with its path and line."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ai4j_sandbox.redaction import escape_controls, mask_text


class BlueprintSeverity(StrEnum):
    """Whether an issue keeps a blueprint from being used."""

    ERROR = "ERROR"
    WARNING = "WARNING"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlueprintIssue:
    """One thing that is wrong.

    Attributes:
        path: Where in the document (``$.sandbox.config.apiKey``); a key that looks like a secret is masked.
        code: One of the contract's codes.
        message: For people; never quotes a value that may be secret.
        line: Line of the document, from 1; ``None`` for what is missing altogether.
    """

    severity: BlueprintSeverity
    path: str = "$"
    code: str = "blueprint.validation"
    message: str
    line: int | None = None

    def __post_init__(self) -> None:
        for name in ("path", "message"):
            object.__setattr__(self, name, escape_controls(mask_text(getattr(self, name))))

    def __str__(self) -> str:
        where = f"line {self.line}, " if self.line else ""
        return f"{self.severity} [{self.code}] {where}{self.path}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlueprintReport:
    """Every issue of a blueprint, in the order of the document's sections."""

    issues: tuple[BlueprintIssue, ...] = ()

    @property
    def valid(self) -> bool:
        """Whether there is no error."""
        return not self.errors

    @property
    def errors(self) -> tuple[BlueprintIssue, ...]:
        """What keeps it from being used."""
        return tuple(issue for issue in self.issues if issue.severity is BlueprintSeverity.ERROR)

    @property
    def warnings(self) -> tuple[BlueprintIssue, ...]:
        """What is worth a look."""
        return tuple(issue for issue in self.issues if issue.severity is BlueprintSeverity.WARNING)

    @property
    def codes(self) -> tuple[str, ...]:
        """The issues' codes, in order."""
        return tuple(issue.code for issue in self.issues)

    def __str__(self) -> str:
        return "\n".join(map(str, self.issues)) or "no issues"
