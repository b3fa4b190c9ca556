"""The package root: complete, sorted, lazy and cheap."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import ai4j_sandbox


def test_everything_in_all_exists_and_the_list_is_sorted() -> None:
    assert ai4j_sandbox.__all__ == sorted(ai4j_sandbox.__all__, key=str.casefold)
    assert all(getattr(ai4j_sandbox, name) is not None for name in ai4j_sandbox.__all__)


def test_type_checker_and_runtime_see_the_same_names() -> None:
    tree = ast.parse(Path(ai4j_sandbox.__file__).read_text())
    imported = {
        alias.asname: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level == 1
        for alias in node.names
    }

    assert imported == ai4j_sandbox._HOME
    assert sorted(imported, key=str.casefold) == ai4j_sandbox.__all__


def test_every_public_error_is_exported() -> None:
    from ai4j_sandbox import errors

    public = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}

    assert public <= set(ai4j_sandbox.__all__)


def test_importing_the_package_loads_no_http_library_no_provider_and_none_of_our_modules() -> None:
    code = (
        "import sys; before = set(sys.modules); import ai4j_sandbox; "
        "print(sorted(name for name in set(sys.modules) - before if '.' not in name or name.startswith('ai4j')))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    loaded = set(ast.literal_eval(done.stdout))
    assert {name for name in loaded if name.startswith("ai4j")} == {"ai4j_sandbox"}
    assert not loaded & {"requests", "urllib3", "marshmallow", "pluggy", "importlib_metadata"}


def test_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(ai4j_sandbox, "SandboxThing")
