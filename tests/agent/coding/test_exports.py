from __future__ import annotations

import subprocess
import sys

from ai4j_agent import coding


def test_every_exported_name_exists_and_they_are_sorted() -> None:
    assert all(hasattr(coding, name) for name in coding.__all__)
    assert list(coding.__all__) == sorted(coding.__all__, key=str.lower)
    assert set(coding.__all__) <= set(dir(coding))
    assert not hasattr(coding, "nonsense")


def test_importing_the_package_loads_none_of_its_modules() -> None:
    code = "import ai4j_agent.coding, sys; print([m for m in sys.modules if m.startswith('ai4j_agent.coding.')])"

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
