"""The tools of a coding agent, and the workspace each call of them gets."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from ai4j_agent.errors import ToolError
from ai4j_agent.session import AgentSession
from ai4j_agent.tools import Tool, ToolContext
from ai4j_sandbox.spi import SandboxSession

from .background import BackgroundCommands
from .bash_tool import BASH
from .browser_tool import BROWSER
from .confinement import PathRules
from .file_tools import EDIT, LIST, READ_FILE, UPDATE_AGENTS_MD, WRITE_FILE
from .git_tool import Git, git_definition
from .patch_tool import APPLY_PATCH
from .project_tool import RUN_TESTS
from .search_tools import GLOB, GREP
from .session_browser import SessionBrowser
from .workbench import CodingLimits, ToolDefinition, Workbench
from .workspace import SandboxWorkspace, Workspace

_DEFINITIONS = (
    BASH,
    READ_FILE,
    WRITE_FILE,
    EDIT,
    APPLY_PATCH,
    GLOB,
    GREP,
    LIST,
    RUN_TESTS,
    BROWSER,
    UPDATE_AGENTS_MD,
)


class _Belongings:
    """What one agent session has going."""

    def __init__(self, background: BackgroundCommands) -> None:
        self.background = background
        self.browser = SessionBrowser()
        self._lock = threading.Lock()
        self._place: tuple[SandboxSession, SandboxWorkspace] | None = None

    def workspace(self, sandbox: SandboxSession, root: str | None) -> SandboxWorkspace:
        """Return the workspace in a sandbox; the same one as long as the sandbox is."""
        with self._lock:
            if self._place is None or self._place[0] is not sandbox:
                self._place = sandbox, SandboxWorkspace(sandbox, root)
            return self._place[1]

    def close(self) -> None:
        """End all of it."""
        self.background.close()
        self.browser.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class CodingToolset:
    """What the tools share.

    Attributes:
        host: Where calls of a session without a sandbox run; ``None`` refuses them.
        sandbox_root: The directory of a sandbox to work in; by default see `SandboxWorkspace`.
        rules: Which paths may be used.
    """

    host: Workspace | None = None
    sandbox_root: str | None = None
    rules: PathRules = field(default_factory=PathRules)
    limits: CodingLimits = field(default_factory=CodingLimits)
    git: Git = field(default_factory=Git)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)
    _belongings: WeakKeyDictionary[AgentSession, _Belongings] = field(
        default_factory=WeakKeyDictionary, init=False, repr=False
    )

    def tools(self, names: Iterable[str] | None = None) -> tuple[Tool, ...]:
        """Return the tools, or those of these names."""
        definitions: tuple[ToolDefinition, ...] = (*_DEFINITIONS, git_definition(self.git))
        wanted = None if names is None else frozenset(names)
        return tuple(
            definition.on(self.workbench) for definition in definitions if wanted is None or definition.name in wanted
        )

    def workbench(self, context: ToolContext) -> Workbench:
        """Return what a call works with: in the sandbox that the permission policy was told of, or on the host."""
        belongings = self._belongings_of(context.session)
        return Workbench(
            workspace=self._workspace(context, belongings),
            rules=self.rules,
            limits=self.limits,
            background=belongings.background,
            browser=belongings.browser,
            session=context.session,
            deadline=context.deadline,
        )

    def _workspace(self, context: ToolContext, belongings: _Belongings) -> Workspace:
        sandbox = context.sandbox
        if sandbox is not None:
            return belongings.workspace(sandbox, self.sandbox_root)
        if self.host is None:
            raise ToolError(f"{context.call.name} works in a sandbox, and this session has none")
        return self.host

    def _belongings_of(self, session: AgentSession) -> _Belongings:
        with self._lock:
            if session not in self._belongings:
                commands = BackgroundCommands(session, log_limit=self.limits.background_characters)
                self._belongings[session] = _Belongings(commands)
                session.on_close(self._belongings[session].close)
            return self._belongings[session]
