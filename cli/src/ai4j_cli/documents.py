"""YAML as a way to write JSON: strict, so that a document means what it seems to mean.

YAML 1.2 words only (``no`` is text, ``010`` is ten, dates are text), and no duplicate keys, anchors, tags or keys that
are no text. Whatever is wrong is one `SandboxConfigError` with the line, which never quotes the document.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import yaml

from ai4j_sandbox import SandboxConfigError, SandboxSpec
from ai4j_sandbox.schema import load_spec

from .streams import standard_input

_NUMBER_BASES = {"0x": 16, "0o": 8}


def load_document(text: str | bytes, name: str) -> Any:
    """Return the data of one YAML or JSON document.

    Args:
        text: The document; bytes are UTF-8 or UTF-16.
        name: What messages call it.

    Raises:
        SandboxConfigError: It is not one well-formed document.
    """
    try:
        return yaml.load(text, Loader=_StrictLoader)
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise SandboxConfigError(f"{name}{line}: {error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SandboxConfigError(f"{name} is not a YAML document: {_reason(error)}") from None


def load_spec_file(name: str) -> SandboxSpec:
    """Return the `SandboxSpec` that a file describes, in the JSON form of `ai4j_sandbox.schema`.

    Args:
        name: The file; ``-`` for standard input.

    Raises:
        SandboxConfigError: It cannot be read, or is no such document; names the fields that are wrong.
    """
    label = "standard input" if name == "-" else name
    try:
        content = standard_input().read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise SandboxConfigError(f"{name} cannot be read: {error.strerror}") from None
    return load_spec(load_document(content, label))


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, yaml.YAMLError):
        return "it holds a character that is not allowed, or is not UTF-8"
    return "it holds a number that cannot be read"


class _StrictLoader(yaml.SafeLoader):
    # PyYAML's own hooks; empty, so that nothing of YAML 1.1 is inherited.
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - an instance variable for its type stubs
    yaml_constructors: ClassVar[dict[str | None, Any]] = {}

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]  # the stubs leave it untyped
        if event.anchor is not None:  # an alias has the name of its anchor there
            raise _refusal("anchors and aliases are not supported; write the value out", event)
        return super().compose_node(parent, index)

    def build_mapping(self, node: yaml.MappingNode) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self.construct_object(key_node)
            if not isinstance(key, str):
                raise _refusal("a key must be text; quote it", key_node)
            if key in mapping:
                raise _refusal(f"key {key!r} is given twice", key_node)
            mapping[key] = self.construct_object(value_node)
        return mapping

    def build_list(self, node: yaml.SequenceNode) -> list[Any]:
        return [self.construct_object(item) for item in node.value]

    def build_text(self, node: yaml.ScalarNode) -> str:
        return str(node.value)

    def build_nothing(self, node: yaml.ScalarNode) -> None:
        return None

    def build_boolean(self, node: yaml.ScalarNode) -> bool:
        return str(node.value).lower() == "true"

    def build_integer(self, node: yaml.ScalarNode) -> int:
        return int(node.value, _NUMBER_BASES.get(node.value[:2], 10))

    def build_float(self, node: yaml.ScalarNode) -> float:
        return float(node.value)

    def refuse_tag(self, node: yaml.Node) -> None:
        raise _refusal(f"the tag {node.tag} is not supported here", node)


def _refusal(problem: str, where: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=where.start_mark)


_TAG = "tag:yaml.org,2002:"
_WORDS = (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", list("-+.0123456789")),
)
_BUILDERS: dict[str | None, Callable[[Any, Any], Any]] = {
    f"{_TAG}map": _StrictLoader.build_mapping,
    f"{_TAG}seq": _StrictLoader.build_list,
    f"{_TAG}str": _StrictLoader.build_text,
    f"{_TAG}null": _StrictLoader.build_nothing,
    f"{_TAG}bool": _StrictLoader.build_boolean,
    f"{_TAG}int": _StrictLoader.build_integer,
    f"{_TAG}float": _StrictLoader.build_float,
    None: _StrictLoader.refuse_tag,
}
for _name, _pattern, _first in _WORDS:
    _StrictLoader.add_implicit_resolver(f"{_TAG}{_name}", re.compile(rf"(?:{_pattern})\Z"), _first)
for _tag, _builder in _BUILDERS.items():
    _StrictLoader.add_constructor(_tag, _builder)
