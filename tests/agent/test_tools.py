from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import pytest

from ai4j_agent import (
    AgentConfigError,
    AgentSession,
    FunctionTool,
    PermissionGate,
    SupportsEffect,
    ToolCall,
    ToolContext,
    ToolEffect,
    ToolError,
    ToolPlacement,
    ToolRegistry,
    allow_all,
    tool,
)
from ai4j_agent.tools import output_text, parsed_arguments
from support.scripted_model import call


@tool
def search(text: str, limit: int = 10, exact: bool | None = None, mode: Literal["a", "b"] = "a") -> list[str]:
    """Search for text."""
    return [text] * limit


@tool(name="other", placement=ToolPlacement.SESSION)
def with_context(context: ToolContext, names: list[str]) -> str:
    """Use the context."""
    return f"{context.call.name} {','.join(names)}"


def test_a_function_becomes_a_tool_with_a_schema() -> None:
    assert (search.name, search.description, search.placement) == ("search", "Search for text.", ToolPlacement.HOST)
    assert search.parameters == {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "limit": {"type": "integer"},
            "exact": {"type": "boolean"},
            "mode": {"enum": ("a", "b")},
        },
        "required": ("text",),
        "additionalProperties": False,
    }


def test_the_context_is_not_shown_to_the_model_and_handed_over() -> None:
    session = AgentSession()
    context = ToolContext(session=session, call=call("other"), gate=PermissionGate(policy=allow_all()))

    assert list(with_context.parameters["properties"]) == ["names"]
    assert with_context.parameters["properties"]["names"] == {"type": "array", "items": {"type": "string"}}
    assert with_context.execute({"names": ["a", "b"]}, context) == "other a,b"


def test_a_parameter_without_a_json_type_is_refused() -> None:
    def odd(value: complex) -> None: ...

    with pytest.raises(AgentConfigError, match="'odd': no JSON type for parameter 'value'"):
        tool(odd)


def test_parameters_that_have_no_name_are_refused() -> None:
    def odd(*values: str) -> None: ...

    with pytest.raises(AgentConfigError, match="cannot be passed by name"):
        tool(odd)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("{", "must be a JSON object"),
        ("[]", "got list"),
        ('{"text": ' + "[" * 100_000, "nested deeper than 100 levels"),
        ('{"text": ' + "[" * 200 + "]" * 200 + "}", "nested deeper than 100 levels"),
        ("{}", "missing arguments: text"),
        ('{"text": null}', "missing arguments: text"),
        ('{"text": "x", "text": "y"}', "key 'text' is given twice"),
        ('{"text": "x", "limit": NaN}', "NaN is no JSON"),
        ('{"text": 1}', "text must be of type string, got 1"),
        ('{"text": "x", "limit": true}', "limit must be of type integer, got true"),
        ('{"text": "x", "exact": "yes"}', 'exact must be of type boolean, got "yes"'),
        ('{"text": "x", "mode": "c"}', "mode must be one of a, b; got 'c'"),
        ('{"text": "x", "txt": 1}', "unknown arguments: txt; known are: text, limit, exact, mode"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_in_words_for_the_model(arguments: str, said: str) -> None:
    with pytest.raises(ToolError, match=said):
        parsed_arguments(search, ToolCall(name="search", arguments=arguments))


def test_null_is_not_given() -> None:
    arguments = '{"text": "x", "limit": null, "exact": null}'

    assert parsed_arguments(search, ToolCall(name="search", arguments=arguments)) == {"text": "x"}


def test_a_schema_with_other_types_than_the_simple_ones_is_the_tools_to_check() -> None:
    parameters: Mapping[str, Any] = {"properties": {"a": {"type": ["string", "null"]}, "b": {"anyOf": []}, "c": True}}
    free = FunctionTool(name="free", description="", function=lambda **given: given, parameters=parameters)

    assert parsed_arguments(free, call("free", a=None, b=1, c=None)) == {"a": None, "b": 1, "c": None}


NULLABLE = FunctionTool(
    name="free",
    description="",
    function=lambda **given: given,
    parameters={"properties": {"a": {"type": ["string", "null"]}, "b": {"type": ["integer"]}}, "required": ["a"]},
)


def test_an_argument_of_one_of_several_types_is_accepted() -> None:
    accepted = [parsed_arguments(NULLABLE, call("free", **given)) for given in ({"a": "x", "b": 1}, {"a": None})]

    assert accepted == [{"a": "x", "b": 1}, {"a": None}]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"a": 5}, "a must be of type string or null, got 5"),
        ({"a": "x", "b": True}, "b must be of type integer, got true"),
        ({"a": "x", "b": None}, "b must be of type integer, got null"),
        ({}, "missing arguments: a"),
    ],
)
def test_an_argument_of_none_of_several_types_is_refused(given: Mapping[str, Any], said: str) -> None:
    with pytest.raises(ToolError, match=said):
        parsed_arguments(NULLABLE, call("free", **given))


def test_a_schema_that_allows_more_gets_more() -> None:
    parameters: Mapping[str, Any] = {"type": "object", "properties": {}}
    free = FunctionTool(name="free", description="", function=lambda **given: given, parameters=parameters)

    assert parsed_arguments(free, call("free", anything=1)) == {"anything": 1}


def test_a_tool_says_what_it_does() -> None:
    @tool(effect=ToolEffect.WRITES)
    def save(path: str) -> None: ...

    assert (save.effect_of({}), search.effect_of({})) == (ToolEffect.WRITES, None)
    assert isinstance(save, SupportsEffect)


@pytest.mark.parametrize(("word", "value"), [("placement", "sandbox"), ("effect", "harmless")])
def test_a_placement_or_effect_that_is_no_such_word_is_refused(word: str, value: str) -> None:
    facts: dict[str, Any] = {"name": "x", "description": "", "function": print, "parameters": {}, word: value}

    with pytest.raises(AgentConfigError, match=f"{word} of 'x' must be one of .*, got '{value}'"):
        FunctionTool(**facts)


def test_a_placement_spelled_as_text_is_the_placement() -> None:
    assert tool(placement="host")(print_text).placement is ToolPlacement.HOST  # type: ignore[arg-type]  # what is tested


def print_text(text: str) -> None:
    """Print."""


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(AgentConfigError, match="two tools are called 'search'"):
        ToolRegistry([search, search])


@pytest.mark.parametrize(
    ("value", "text"), [(None, ""), ("x", "x"), ({"a": ["é", 1]}, '{"a":["é",1]}'), (True, "true")]
)
def test_data_becomes_compact_json_for_the_model(value: Any, text: str) -> None:
    assert output_text(value) == text
