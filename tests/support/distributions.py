"""The distributions of this repository, as their folders tell."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_FOLDERS = ("core", "wire", "emulator", "agent", "cli", "plugins/*", "tests/packaging/sample_plugin")


@dataclass(frozen=True)
class SourceDistribution:
    """One folder with a pyproject of its own."""

    folder: Path

    def __str__(self) -> str:
        return self.folder.relative_to(ROOT).as_posix()

    @cached_property
    def pyproject(self) -> dict[str, Any]:
        """Its pyproject.toml."""
        return tomllib.loads((self.folder / "pyproject.toml").read_text())

    @property
    def project(self) -> dict[str, Any]:
        """The ``[project]`` table."""
        project: dict[str, Any] = self.pyproject["project"]
        return project

    @property
    def package(self) -> str:
        """The name it is imported by."""
        return str(self.project["name"]).replace("-", "_")

    @property
    def source(self) -> Path:
        """The directory of its package."""
        return self.folder / "src" / self.package

    @property
    def requirements(self) -> list[str]:
        """Everything it may require, extras included."""
        extras = self.project.get("optional-dependencies", {}).values()
        return [*self.project.get("dependencies", []), *(line for lines in extras for line in lines)]

    def modules(self) -> dict[str, Path]:
        """Dotted name to file of every module of the package."""
        modules = {}
        for path in sorted(self.source.rglob("*.py")):
            parts = path.relative_to(self.source.parent).with_suffix("").parts
            modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
        return modules


def source_distributions() -> list[SourceDistribution]:
    """Return every distribution folder there is."""
    found = (path.parent for pattern in _FOLDERS for path in ROOT.glob(f"{pattern}/pyproject.toml"))
    return [SourceDistribution(folder) for folder in sorted(found)]


def imported_modules(module: str, path: Path, *, deferred: bool) -> Iterator[str]:
    """Yield the dotted names a module imports; those in functions and for type checking only when `deferred`."""
    is_package = path.name == "__init__.py"
    for node in _nodes(ast.parse(path.read_text()), deferred=deferred):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = module.split(".")[: None if is_package and node.level == 1 else is_package - node.level]
            origin = ".".join([*above, *filter(None, [node.module])]) if node.level else node.module or ""
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def _nodes(node: ast.AST, *, deferred: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not deferred and (isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) or _for_type_checking(child)):
            continue
        yield child
        yield from _nodes(child, deferred=deferred)


def _for_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
