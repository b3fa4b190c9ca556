"""The owner tag: how sandboxes that a crashed program left behind are found again.

Every provider whose service keeps labels tags what it creates with `OWNER_LABEL`. ``ai4j sandbox ls`` and
``cleanup`` look for it. The value says which installation made the sandbox, never who: people who share one account set
`OWNER_VARIABLE` to a word of their own, everybody else shares `DEFAULT_OWNER`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from .errors import SandboxConfigError
from .redaction import filter_labels

OWNER_LABEL = "ai4jOwner"
OWNER_VARIABLE = "AI4J_SANDBOX_OWNER"
DEFAULT_OWNER = "ai4j"

_OWNER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")  # what every service takes as a label's value


def current_owner(environ: Mapping[str, str] | None = None) -> str:
    """Return the owner that sandboxes are tagged with.

    Args:
        environ: The environment, read now; the process's own by default.

    Raises:
        SandboxConfigError: `OWNER_VARIABLE` holds something that not every service takes as a label's value.
    """
    owner = (os.environ if environ is None else environ).get(OWNER_VARIABLE, "").strip() or DEFAULT_OWNER
    if not _OWNER.fullmatch(owner):
        raise SandboxConfigError(
            f"{OWNER_VARIABLE} must be at most 63 letters, digits, '-' and '_'",
            hint=f"set {OWNER_VARIABLE} to a word such as 'team-ci', or leave it out",
        )
    return owner


def owned_labels(
    labels: Mapping[str, str | None] | None = None, environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the labels to send to a service: filtered, without empty values, and with the owner tag.

    A caller's own `OWNER_LABEL` wins: it is how a host tags for somebody else.
    """
    kept = {name: value for name, value in filter_labels(labels or {}).items() if value is not None}
    return {OWNER_LABEL: current_owner(environ), **kept}
