from __future__ import annotations

import subprocess
import sys

import ai4j_agent


def test_every_exported_name_exists_and_they_are_sorted() -> None:
    assert all(hasattr(ai4j_agent, name) for name in ai4j_agent.__all__)
    assert list(ai4j_agent.__all__) == sorted(ai4j_agent.__all__, key=str.lower)
    assert set(ai4j_agent.__all__) <= set(dir(ai4j_agent))


def test_no_name_is_hidden_by_a_module_of_the_same_name() -> None:
    code = "import ai4j_agent, pkgutil; print([m.name for m in pkgutil.iter_modules(ai4j_agent.__path__)])"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert not {name for name in ai4j_agent.__all__ if f"'{name}'" in modules}


def test_importing_the_package_loads_no_library() -> None:
    code = "import ai4j_agent, sys; print([m for m in ('sqlalchemy', 'requests', 'yaml') if m in sys.modules])"

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_an_agent_with_its_builder_loads_no_library_it_does_not_use() -> None:
    code = (
        "import sys; from ai4j_agent import Agents, AgentSession, FileSessionStore, ChatCompletionsClient, "
        "SqlSessionStore, load_blueprint\n"
        "print([m for m in ('sqlalchemy', 'requests', 'yaml') if m in sys.modules])"
    )

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(ai4j_agent, "nonsense")
    assert ai4j_agent.__version__
