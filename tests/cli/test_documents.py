"""YAML documents: what they mean, and what is refused with the line."""

from __future__ import annotations

import pytest

from ai4j_cli.documents import load_document
from ai4j_sandbox import SandboxConfigError
from support.secrets import CANARY, assert_no_secret, everything_said


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("", None),
        ("null", None),
        ("12", 12),
        ("-12", -12),
        ("010", 10),
        ("0x1F", 31),
        ("0o17", 15),
        ("1_000", "1_000"),
        ("12:30:45", "12:30:45"),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        (".inf", ".inf"),
        ("2024-01-31", "2024-01-31"),
        ("'12'", "12"),
        ("<<", "<<"),
        ("{a: [1, {b: c}], d: }", {"a": [1, {"b": "c"}], "d": None}),
        ('{"json": ["yes", true, null, 1.0]}', {"json": ["yes", True, None, 1.0]}),
    ],
)
def test_a_document_means_what_yaml_1_2_says(text, value):
    loaded = load_document(text, "spec")

    assert (loaded, type(loaded)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3", "spec, line 3: key 'a' is given twice"),
        ("a: {x: 1, x: 2}", "spec, line 1: key 'x' is given twice"),
        ("a: &x [1]\nb: *x", "spec, line 1: anchors and aliases are not supported; write the value out"),
        ("a: 1\nb: &x 2", "spec, line 2: anchors and aliases are not supported; write the value out"),
        ("&x a: 1", "spec, line 1: anchors and aliases are not supported; write the value out"),
        ("a: {b: &x {c: 1}}", "spec, line 1: anchors and aliases are not supported; write the value out"),
        ("a: *x", "spec, line 1: anchors and aliases are not supported; write the value out"),
        ("1: x", "spec, line 1: a key must be text; quote it"),
        ("\n[a]: x", "spec, line 2: a key must be text; quote it"),
        ("a: !!python/object:os.system {}", "spec, line 1: the tag tag:yaml.org,2002:python/object:os.system"),
        ("a: !!int x", "spec is not a YAML document: it holds a number that cannot be read"),
        ("a: [1", "spec, line 1: "),
        ("a\n---\nb", "spec, line 2: "),
        ("[" * 2000, "spec is not a YAML document: it is nested too deeply"),
        (b"a: \xff", "spec is not a YAML document: it holds a character that is not allowed, or is not UTF-8"),
        ("a: \0", "spec is not a YAML document: it holds a character that is not allowed, or is not UTF-8"),
        ("9" * 5000, "spec is not a YAML document: it holds a number that cannot be read"),
    ],
)
def test_what_could_be_meant_otherwise_is_refused(text, message):
    with pytest.raises(SandboxConfigError) as caught:
        load_document(text, "spec")

    assert caught.value.message.startswith(message)


def test_a_broken_document_is_not_quoted():
    with pytest.raises(SandboxConfigError) as caught:
        load_document(f"config:\n  apiKey: {CANARY}\n  x: [", "spec")

    assert_no_secret(everything_said(caught.value))
