"""YAML as plain data that knows the line of every value.

Built from the parser's nodes rather than by a constructor: so lines are known, a duplicate key is an error, no tag can
make anything but plain data, and an alias that contains itself or a document that unfolds without end is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ai4j_agent.errors import BlueprintLoadError
from ai4j_sandbox.redaction import escape_controls

if TYPE_CHECKING:
    import yaml

LONGEST_DOCUMENT = 256 * 1024
LONGEST_BYTES = 4 * LONGEST_DOCUMENT
"""No character of UTF-8 has more than four bytes."""

MOST_VALUES = 20_000
DEEPEST_LEVEL = 50
LONGEST_NUMBER = 100
"""Reading one takes more than time in proportion: ``1:1:1…`` counts in sixties."""

_MERGE = "tag:yaml.org,2002:merge"
_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_PLAIN = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "timestamp", "map", "seq")
)
_NUMBERS = frozenset(("tag:yaml.org,2002:int", "tag:yaml.org,2002:float"))


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlDocument:
    """A document.

    Attributes:
        value: Dicts, lists and scalars; ``None`` for an empty document.
        lines: Path (``$.tools[0].ref``) to line, from 1.
    """

    value: Any
    lines: Mapping[str, int] = field(default_factory=dict)


def parse_yaml(text: str) -> YamlDocument:
    """Return the document in a YAML text.

    Raises:
        BlueprintLoadError: It is not YAML, or not the kind we accept (``blueprint.yaml.invalid``,
            ``blueprint.type.key``).
    """
    import yaml

    if len(text) > LONGEST_DOCUMENT:
        raise invalid(f"longer than {LONGEST_DOCUMENT} characters")
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        walk = _Walk()
        return YamlDocument(value=None if node is None else walk.value(node, "$", ()), lines=walk.lines)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        said = ": ".join(part for part in (error.context, error.problem) if part)
        raise invalid(said or "parse failed", line) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise invalid(f"parse failed ({type(error).__name__})") from None


class _Walk:
    """Turns nodes into data, noting lines and counting values."""

    def __init__(self) -> None:
        import yaml

        self.lines: dict[str, int] = {}
        self._scalars = yaml.SafeLoader("")
        self._left = MOST_VALUES
        self._characters_left = LONGEST_DOCUMENT  # aliases can repeat a long text as well as a list

    def value(self, node: yaml.Node, path: str, above: tuple[int, ...]) -> Any:
        import yaml

        line = node.start_mark.line + 1
        self._left -= 1
        if self._left < 0:
            raise invalid(f"more than {MOST_VALUES} values", line)
        if id(node) in above:
            raise invalid("an alias that contains itself", line)
        if len(above) >= DEEPEST_LEVEL:
            raise invalid(f"more than {DEEPEST_LEVEL} levels", line)
        if node.tag not in _PLAIN:
            raise invalid(f"unsupported tag {node.tag}", line)
        self.lines.setdefault(path, line)
        below = (*above, id(node))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, below)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, f"{path}[{index}]", below) for index, item in enumerate(node.value)]
        return self._scalar(node)

    def _mapping(self, node: yaml.MappingNode, path: str, below: tuple[int, ...]) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            key = self._key(key_node, path, line)
            if key in data:
                raise invalid(f"duplicate key {key!r}", line)
            self.lines[f"{path}.{key}"] = line
            data[key] = self.value(value_node, f"{path}.{key}", below)
        return data

    def _key(self, node: yaml.Node, path: str, line: int) -> str:
        import yaml

        if node.tag == _MERGE:
            raise invalid("merge keys are not supported", line)
        key = self._scalar(node) if isinstance(node, yaml.ScalarNode) and node.tag in _PLAIN else None
        if not isinstance(key, str):
            problem = f"{escape_controls(path)} contains a non-string key (line {line})"
            raise BlueprintLoadError("blueprint.type.key", problem, line=line)
        return key

    def _scalar(self, node: yaml.Node) -> Any:
        self._characters_left -= len(node.value)
        if self._characters_left < 0:
            raise invalid(f"unfolds to more than {LONGEST_DOCUMENT} characters", node.start_mark.line + 1)
        if node.tag in _NUMBERS and len(node.value) > LONGEST_NUMBER:
            raise invalid(f"a number longer than {LONGEST_NUMBER} characters", node.start_mark.line + 1)
        if node.tag == _TIMESTAMP:
            return node.value
        try:
            return self._scalars.construct_object(node)
        except (KeyError, ValueError):  # `!!bool maybe`
            kind = node.tag.rpartition(":")[2]
            raise invalid(f"a value that is no {kind}", node.start_mark.line + 1) from None


def invalid(problem: str, line: int | None = None) -> BlueprintLoadError:
    """Return the error for what is not the YAML we accept."""
    where = f"line {line}: " if line else ""
    return BlueprintLoadError(
        "blueprint.yaml.invalid", f"Invalid Agent Blueprint YAML: {where}{' '.join(problem.split())}", line=line
    )
