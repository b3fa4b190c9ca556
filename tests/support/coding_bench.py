"""A workspace with the coding tools on it, for tests that hold on the host and in a sandbox alike."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ai4j_agent import AgentSession, ToolError
from ai4j_agent.coding import BackgroundCommands, CodingLimits, CodingToolset, PathRules, Workspace
from ai4j_agent.coding.git_tool import Git
from ai4j_agent.coding.session_browser import SessionBrowser
from ai4j_agent.coding.workbench import Workbench, WorkspaceTool
from ai4j_agent.tools import output_text
from ai4j_sandbox import SandboxCommand, default_registry


def local_works() -> bool:
    """Whether the local provider can isolate commands on this machine."""
    if "local" not in default_registry().ids():
        return False
    return default_registry().provider("local").health().healthy  # type: ignore[attr-defined, no-any-return]  # local has it


class Bench:
    """Calls tools as a model does, past agent and policy."""

    def __init__(
        self,
        workspace: Workspace,
        *,
        rules: PathRules | None = None,
        limits: CodingLimits | None = None,
        git: Git | None = None,
        session: AgentSession | None = None,
    ) -> None:
        self.workspace = workspace
        self.session = session or AgentSession()
        limits = limits or CodingLimits()
        self.background = BackgroundCommands(self.session, log_limit=limits.background_characters)
        self.workbench = Workbench(
            workspace=workspace,
            rules=rules or PathRules(),
            limits=limits,
            background=self.background,
            browser=SessionBrowser(),
            session=self.session,
        )
        self._tools: Mapping[str, Any] = {tool.name: tool for tool in CodingToolset(git=git or Git()).tools()}

    def call(self, name: str, /, **arguments: Any) -> Any:
        """Return what a tool gives a model, parsed."""
        tool: WorkspaceTool = self._tools[name]
        wired = replace(tool, workbench=lambda context: self.workbench)
        return json.loads(output_text(wired.execute(arguments, None)))  # type: ignore[arg-type]  # the bench is made

    def refusal(self, name: str, /, **arguments: Any) -> str:
        """Return the words in which a tool refuses."""
        try:
            done = self.call(name, **arguments)
        except ToolError as error:
            return str(error)
        raise AssertionError(f"{name} did it: {done}")

    def put(self, path: str, content: str | bytes) -> None:
        """Write a file past the tools."""
        self.workspace.files.write(self.at(path), content)

    def bytes(self, path: str) -> bytes:
        """Return a file's content past the tools."""
        return self.workspace.files.read(self.at(path))

    def exists(self, path: str) -> bool:
        """Whether there is something."""
        return self.workspace.files.exists(self.at(path))

    def sh(self, line: str) -> str:
        """Run a shell line past the tools."""
        command = SandboxCommand(command=line, working_directory=self.workspace.root)
        result = self.workspace.execute(command)
        assert result.exit_code == 0, result.stderr
        return result.stdout

    def at(self, path: str) -> str:
        """Return the absolute path of something in the workspace."""
        return f"{self.workspace.root}/{path}"


def fresh_name() -> str:
    """Return a name nobody has used."""
    return f"w{uuid.uuid4().hex[:12]}"
