"""Making coding agents."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from ai4j_agent.agent import Agent
from ai4j_agent.builder import AgentBuilder
from ai4j_agent.delegate import DelegateTool
from ai4j_agent.errors import AgentConfigError
from ai4j_agent.permission import AgentExecutionEnvironment, allow_all
from ai4j_agent.sandbox_source import SandboxSource, environment_of
from ai4j_agent.session import AgentSession
from ai4j_agent.tools import Tool
from ai4j_sandbox.redaction import Scrubber
from ai4j_sandbox.spi import SandboxSession

from .confinement import PathRules
from .git_tool import Credentials, Git, GitIdentity
from .host_workspace import LocalWorkspace
from .policy import READ_ONLY_TOOLS, coding_safe_mode, read_only
from .sync import WorkspaceSync
from .toolset import CodingToolset
from .workbench import CodingLimits
from .workspace import SandboxWorkspace

_PROMPT = (
    "You work on a project in a workspace. All paths are relative to its root. Look before you change, change no more "
    "than needed, and run the project's tests before you say that you are done."
)

_DELEGATES: Mapping[str, tuple[str, bool]] = {
    "delegate_general_purpose": ("Hand a task with several steps to an agent that has all tools.", True),
    "delegate_explore": ("Let an agent find out something about the project; it changes nothing.", False),
    "delegate_plan": ("Let an agent work out how to do something; it changes nothing.", False),
    "delegate_verification": ("Let an agent check a claim about the project; it changes nothing.", False),
}


@dataclass(frozen=True, slots=True)
class CodingSandboxRuntime:
    """Holds the live sandbox a coding agent works in, which stays the host's to close. Keeps no key and no spec."""

    session: SandboxSession

    @classmethod
    def of(cls, session: SandboxSession | None) -> Self:
        """Return the runtime of a live sandbox.

        Raises:
            AgentConfigError: It is none.
        """
        if not isinstance(session, SandboxSession):
            raise AgentConfigError(f"a live SandboxSession is needed, got {type(session).__name__}")
        return cls(session)

    @property
    def environment(self) -> AgentExecutionEnvironment:
        """What a policy calls the place."""
        return environment_of(self.session.location)

    @property
    def lends(self) -> bool:
        """The host closes it."""
        return True

    def open(self) -> SandboxSession:
        """Return the sandbox."""
        return self.session


@dataclass(frozen=True, slots=True, kw_only=True)
class CodingAgent(Agent):
    """An agent with coding tools. A session of one that was given a live sandbox is bound to it from the start."""

    toolset: CodingToolset = field(repr=False)
    workspace_root: str | None = None

    def new_session(
        self,
        session_id: str | None = None,
        *,
        sandbox_source: SandboxSource | None = None,
        scrubber: Scrubber | None = None,
    ) -> AgentSession:
        """Return a fresh session; see `Agent.new_session`."""
        session = Agent.new_session(self, session_id, sandbox_source=sandbox_source, scrubber=scrubber)
        if isinstance(sandbox_source or self.sandbox_source, CodingSandboxRuntime):
            session.open_sandbox()
        return session

    def sync(self, session: AgentSession) -> WorkspaceSync:
        """Return what moves files between `workspace_root` on the host and the session's sandbox.

        Raises:
            AgentConfigError: There is no workspace root, or the session has no sandbox and none to make.
            SandboxException: The sandbox could not be made.
        """
        if self.workspace_root is None:
            raise AgentConfigError("workspace_root is required to move files", hint="call .workspace_root(...)")
        workspace = SandboxWorkspace(session.open_sandbox(), self.toolset.sandbox_root)
        return WorkspaceSync(self.workspace_root, workspace)


class CodingAgentBuilder(AgentBuilder):
    """Builds a `CodingAgent`: what `AgentBuilder` takes, a workspace, and where to run.

    With a sandbox every built-in tool works in it; without one, on the host in `workspace_root`. The policy is the same
    in both places, `policy.coding_safe_mode` unless another one is set.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._workspace_root: str | None = None
        self._sandbox_root: str | None = None
        self._runtime: CodingSandboxRuntime | None = None
        self._rules = PathRules()
        self._tool_limits = CodingLimits()
        self._git = Git()
        self._delegates = False
        self._built_in = True

    def workspace_root(self, path: str | os.PathLike[str]) -> Self:
        """Set the host directory: where tools work without a sandbox, and what `CodingAgent.sync` pushes."""
        self._workspace_root = os.fspath(path)
        return self

    def sandbox(self, session: SandboxSession | None) -> Self:
        """Set the live sandbox to work in; it stays the caller's to close. ``None`` means none."""
        self._runtime = None if session is None else CodingSandboxRuntime.of(session)
        return self

    def sandbox_runtime(self, runtime: CodingSandboxRuntime | None) -> Self:
        """Set the live sandbox, held already."""
        self._runtime = runtime
        return self

    def sandbox_root(self, path: str) -> Self:
        """Set the directory of the sandbox to work in."""
        if not path.startswith("/"):
            raise AgentConfigError(f"sandbox_root must be an absolute path, got {path!r}")
        self._sandbox_root = path
        return self

    def path_rules(self, rules: PathRules) -> Self:
        """Set which paths the tools may use."""
        self._rules = rules
        return self

    def tool_limits(self, limits: CodingLimits) -> Self:
        """Set how much a tool call may take and give."""
        self._tool_limits = limits
        return self

    def git(self, *, identity: GitIdentity | None = None, credentials: Credentials | None = None) -> Self:
        """Set who commits, and who gives credentials for cloning. Without one, only what is public can be cloned."""
        self._git = Git(identity=identity or GitIdentity(), credentials=credentials)
        return self

    def delegates(self, enabled: bool = True) -> Self:
        """Add the delegates: agents in the same workspace under the same policy, three of them read-only."""
        self._delegates = enabled
        return self

    def built_in_tools(self, enabled: bool = True) -> Self:
        """Set whether the built-in tools are offered; `tools` adds others either way."""
        self._built_in = enabled
        return self

    def build(self) -> CodingAgent:
        """Return the agent.

        Raises:
            AgentConfigError: Something is missing, or two settings contradict each other.
        """
        toolset = CodingToolset(
            host=self._host(),
            sandbox_root=self._sandbox_root,
            rules=self._rules,
            limits=self._tool_limits,
            git=self._git,
        )
        defaults = {"permission_policy": coding_safe_mode(), "system_prompt": _PROMPT}
        built_in = toolset.tools() if self._built_in else ()
        tools = (*built_in, *self._delegate_tools(toolset), *self._tools)
        agent = AgentBuilder(tools=tools, **(defaults | self._options)).build()
        parts = {item.name: getattr(agent, item.name) for item in fields(Agent)}
        return CodingAgent(
            **(parts | {"sandbox_source": self._runtime or agent.sandbox_source}),
            toolset=toolset,
            workspace_root=self._workspace_root,
        )

    def _host(self) -> LocalWorkspace | None:
        """Return the workspace on the host; with a sandbox there is none, whatever session the agent is given."""
        makes_one = any(self._options.get(name) is not None for name in ("sandbox_provider", "sandbox_spec"))
        if self._runtime is not None and makes_one:
            raise AgentConfigError("a live sandbox contradicts sandbox_spec and sandbox_provider", hint="give one")
        if self._runtime is not None or makes_one:
            return None
        if self._workspace_root is None:
            raise AgentConfigError("workspace_root is required without a sandbox", hint="call .workspace_root(...)")
        return LocalWorkspace(self._workspace_root)

    def _delegate_tools(self, toolset: CodingToolset) -> Iterator[Tool]:
        """Yield the delegates; `DelegateTool` lets each do no more than its caller may."""
        if not self._delegates:
            return
        shared = ("model_client", "model", "options", "interceptors", "limits", "tool_output_limit")
        options = {name: self._options[name] for name in shared if name in self._options}
        for name, (description, changes) in _DELEGATES.items():
            tools = toolset.tools() if changes else toolset.tools(READ_ONLY_TOOLS)
            policy = allow_all() if changes else read_only()
            delegate = AgentBuilder(tools=tools, permission_policy=policy, system_prompt=_PROMPT, **options).build()
            yield DelegateTool(name=name, description=description, agent=delegate)
