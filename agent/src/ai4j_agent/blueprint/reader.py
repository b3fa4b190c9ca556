"""From YAML to `AgentBlueprint`: types are checked here, meaning in `validation`."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from ai4j_agent.errors import BlueprintLoadError
from ai4j_sandbox.redaction import escape_controls, fold_key

from .document import LONGEST_BYTES, LONGEST_DOCUMENT, YamlDocument, invalid, parse_yaml
from .model import (
    AgentBlueprint,
    BlueprintCompact,
    BlueprintInstructions,
    BlueprintMemory,
    BlueprintModel,
    BlueprintPlugin,
    BlueprintSandbox,
    BlueprintSession,
    BlueprintTool,
    BlueprintWorkflow,
    UnknownKey,
)

T = TypeVar("T")


def load_blueprint(source: str | BinaryIO | None) -> AgentBlueprint:
    """Return the blueprint in a YAML text or an open binary file.

    Raises:
        BlueprintLoadError: It is no blueprint; `code` and `line` say what and where.
    """
    if source is None:
        raise BlueprintLoadError("blueprint.yaml.required", "Blueprint YAML content is required")
    document = parse_yaml(source if isinstance(source, str) else _text_of(source))
    if document.value is None:
        raise BlueprintLoadError("blueprint.document.required", "Agent Blueprint document is empty")
    return _Reader(document).blueprint()


def load_blueprint_file(path: str | os.PathLike[str] | None) -> AgentBlueprint:
    """Return the blueprint in a file.

    Raises:
        BlueprintLoadError: It cannot be read, or is no blueprint.
    """
    if path is None:
        raise BlueprintLoadError("blueprint.path.required", "Blueprint path is required")
    try:
        with Path(path).open("rb") as stream:
            text = _text_of(stream)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise BlueprintLoadError(
            "blueprint.io", f"Unable to read Agent Blueprint file {Path(path).name}: {reason}"
        ) from None
    return load_blueprint(text)


def _text_of(stream: BinaryIO) -> str:
    content = stream.read(LONGEST_BYTES + 1)
    if len(content) > LONGEST_BYTES:
        raise invalid(f"longer than {LONGEST_DOCUMENT} characters")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise invalid("not UTF-8") from None


def _nearest(key: str, names: Sequence[str]) -> str | None:
    """The known key that may have been meant, however it is written: ``SANDBOX`` is none of ours, and not far off."""
    by_folded = {fold_key(name): name for name in names}
    nearest = difflib.get_close_matches(fold_key(key), by_folded, n=1)
    return by_folded[nearest[0]] if nearest else None


class _Reader:
    """Reads one document; notes the keys it does not know."""

    def __init__(self, document: YamlDocument) -> None:
        self._document = document
        self._unknown: list[UnknownKey] = []

    def blueprint(self) -> AgentBlueprint:
        known = "$schema version id name model instructions plugins tools session sandbox workflow extensions"
        data = self._section(self._document.value, "$", known)
        return AgentBlueprint(
            version=self._text(data.get("version"), "$.version"),
            id=self._text(data.get("id"), "$.id"),
            name=self._text(data.get("name"), "$.name"),
            model=self._optional(data, "$.model", self._model),
            instructions=self._optional(data, "$.instructions", self._instructions),
            plugins=self._each(data, "$.plugins", self._plugin),
            tools=self._each(data, "$.tools", self._tool),
            session=self._optional(data, "$.session", self._session),
            sandbox=self._sandbox(data["sandbox"], "$.sandbox") if "sandbox" in data else None,
            workflow=self._optional(data, "$.workflow", self._workflow),
            extensions=self._map(data.get("extensions"), "$.extensions"),
            unknown_keys=tuple(self._unknown),
            lines=self._document.lines,
        )

    # --- sections -------------------------------------------------------------------------------------------------

    def _model(self, value: Any, path: str) -> BlueprintModel:
        data = self._section(value, path, "provider profile model options")
        return BlueprintModel(
            provider=self._text(data.get("provider"), f"{path}.provider"),
            profile=self._text(data.get("profile"), f"{path}.profile"),
            model=self._text(data.get("model"), f"{path}.model"),
            options=self._map(data.get("options"), f"{path}.options"),
        )

    def _instructions(self, value: Any, path: str) -> BlueprintInstructions:
        data = self._section(value, path, "system developer variables")
        return BlueprintInstructions(
            system=self._verbatim(data.get("system"), f"{path}.system"),
            developer=self._verbatim(data.get("developer"), f"{path}.developer"),
            variables=self._map(data.get("variables"), f"{path}.variables"),
        )

    def _plugin(self, value: Any, path: str) -> BlueprintPlugin:
        data = self._section(value, path, "id enabled config")
        return BlueprintPlugin(
            id=self._text(data.get("id"), f"{path}.id"),
            enabled=self._boolean(data.get("enabled"), f"{path}.enabled"),
            config=self._map(data.get("config"), f"{path}.config"),
        )

    def _tool(self, value: Any, path: str) -> BlueprintTool:
        data = self._section(value, path, "ref approval config")
        return BlueprintTool(
            ref=self._text(data.get("ref"), f"{path}.ref"),
            approval=self._word(data.get("approval"), f"{path}.approval"),
            config=self._map(data.get("config"), f"{path}.config"),
        )

    def _session(self, value: Any, path: str) -> BlueprintSession:
        data = self._section(value, path, "memory compact")
        return BlueprintSession(
            memory=self._optional(data, f"{path}.memory", self._memory),
            compact=self._optional(data, f"{path}.compact", self._compact),
        )

    def _memory(self, value: Any, path: str) -> BlueprintMemory:
        data = self._section(value, path, "enabled scope store config")
        return BlueprintMemory(
            enabled=self._boolean(data.get("enabled"), f"{path}.enabled"),
            scope=self._text(data.get("scope"), f"{path}.scope"),
            store=self._text(data.get("store"), f"{path}.store"),
            config=self._map(data.get("config"), f"{path}.config"),
        )

    def _compact(self, value: Any, path: str) -> BlueprintCompact:
        data = self._section(value, path, "enabled trigger strategy preserve")
        trigger = self._section(data.get("trigger"), f"{path}.trigger", "contextRatio maxTurns")
        preserve = self._list(data.get("preserve"), f"{path}.preserve")
        return BlueprintCompact(
            enabled=self._boolean(data.get("enabled"), f"{path}.enabled"),
            context_ratio=self._number(trigger.get("contextRatio"), f"{path}.trigger.contextRatio"),
            max_turns=self._integer(trigger.get("maxTurns"), f"{path}.trigger.maxTurns"),
            strategy=self._text(data.get("strategy"), f"{path}.strategy"),
            preserve=tuple(item for value in preserve if (item := self._text(value, f"{path}.preserve"))),
        )

    def _sandbox(self, value: Any, path: str) -> BlueprintSandbox:
        data = self._section(value, path, "enabled provider profile config")
        return BlueprintSandbox(
            enabled=self._boolean(data.get("enabled"), f"{path}.enabled"),
            provider=self._text(data.get("provider"), f"{path}.provider"),
            profile=self._text(data.get("profile"), f"{path}.profile"),
            config=self._map(data.get("config"), f"{path}.config"),
        )

    def _workflow(self, value: Any, path: str) -> BlueprintWorkflow:
        data = self._section(value, path, "mode maxTurns")
        return BlueprintWorkflow(
            mode=self._word(data.get("mode"), f"{path}.mode"),
            max_turns=self._integer(data.get("maxTurns"), f"{path}.maxTurns"),
        )

    # --- values ---------------------------------------------------------------------------------------------------

    def _section(self, value: Any, path: str, known: str) -> Mapping[str, Any]:
        """Return a map whose keys are known; the others are noted."""
        data = self._map(value, path) if value is not None else {}
        names = known.split()
        for key in data:
            if key not in names:
                self._unknown.append(UnknownKey(path=f"{path}.{key}", nearest=_nearest(key, names), value=data[key]))
        return data

    def _optional(self, data: Mapping[str, Any], path: str, read: Callable[[Any, str], T]) -> T | None:
        value = data.get(path.rpartition(".")[2])
        return None if value is None else read(value, path)

    def _each(self, data: Mapping[str, Any], path: str, read: Callable[[Any, str], T]) -> tuple[T, ...]:
        items = self._list(data.get(path.rpartition(".")[2]), path)
        return tuple(read(item, f"{path}[{index}]") for index, item in enumerate(items))

    def _map(self, value: Any, path: str) -> Mapping[str, Any]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self._wrong("map", path, "a map")
        return value

    def _list(self, value: Any, path: str) -> list[Any]:
        if value is None:
            return []
        if not isinstance(value, list):
            raise self._wrong("list", path, "a list")
        return value

    def _verbatim(self, value: Any, path: str) -> str | None:
        """Any scalar as text; `true` and `1` are words too."""
        if isinstance(value, dict | list):
            raise self._wrong("string", path, "text")
        if isinstance(value, bool):
            return "true" if value else "false"
        return None if value is None else str(value)

    def _text(self, value: Any, path: str) -> str | None:
        """Trim-to-null, as everywhere: blank text means "not given"."""
        text = self._verbatim(value, path)
        return text and (text.strip() or None)

    def _word(self, value: Any, path: str) -> str | None:
        """One of a few known words, in any case."""
        text = self._text(value, path)
        return text and text.lower()

    def _boolean(self, value: Any, path: str) -> bool | None:
        if value is None or isinstance(value, bool):
            return value
        word = value.strip().lower() if isinstance(value, str) else None
        if word not in ("true", "false"):
            raise self._wrong("boolean", path, "a boolean")
        return word == "true"

    def _number(self, value: Any, path: str) -> float | None:
        number = number_or_none(value)
        if value is not None and number is None:
            raise self._wrong("number", path, "a number")
        return number

    def _integer(self, value: Any, path: str) -> int | None:
        number = number_or_none(value)
        if number is not None and not number.is_integer():
            number = None
        if value is not None and number is None:
            raise self._wrong("integer", path, "an integer")
        return None if number is None else int(number)

    def _wrong(self, kind: str, path: str, expected: str) -> BlueprintLoadError:
        line = self._document.lines.get(path)
        where = f" (line {line})" if line else ""
        problem = f"{escape_controls(path)} must be {expected}{where}"
        return BlueprintLoadError(f"blueprint.type.{kind}", problem, line=line)


def number_or_none(value: Any) -> float | None:
    """Return a finite number, or a numeric text's, as a float; ``None`` for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (OverflowError, ValueError):
        return None
    return number if abs(number) != float("inf") and number == number else None
