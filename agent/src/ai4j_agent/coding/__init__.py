"""Coding agents: files, shell, git, tests and search as tools, all of them where the session's sandbox is.

Read in this order, each file needs only the ones before it: `devtools`, `browser`, `workspace`, `host_channel`,
`host_files`, `host_workspace`, `confinement`, `lines`, `output_view`, `background`, `session_browser`, `workbench`,
then the tools (`bash_tool`, `file_tools`, `patch`, `patch_tool`, `search_tools`, `git_tool`, `junit`, `project_tool`,
`browser_tool`), `policy`, `gitignore`, `sync`, `toolset`, `builder`.

Everything public is exported here and loaded when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .background import BackgroundCommands as BackgroundCommands
    from .builder import CodingAgent as CodingAgent
    from .builder import CodingAgentBuilder as CodingAgentBuilder
    from .builder import CodingSandboxRuntime as CodingSandboxRuntime
    from .confinement import PathRules as PathRules
    from .git_tool import GitCredential as GitCredential
    from .git_tool import GitIdentity as GitIdentity
    from .host_workspace import LocalWorkspace as LocalWorkspace
    from .policy import coding_safe_mode as coding_safe_mode
    from .policy import read_only as read_only
    from .sync import ChangeKind as ChangeKind
    from .sync import FileChange as FileChange
    from .sync import FileState as FileState
    from .sync import PushResult as PushResult
    from .sync import SyncConflictError as SyncConflictError
    from .sync import SyncProgress as SyncProgress
    from .sync import WorkspacePatch as WorkspacePatch
    from .sync import WorkspaceSync as WorkspaceSync
    from .toolset import CodingToolset as CodingToolset
    from .workbench import CodingLimits as CodingLimits
    from .workspace import SandboxWorkspace as SandboxWorkspace
    from .workspace import Workspace as Workspace

_HOME = {
    "BackgroundCommands": "background",
    "ChangeKind": "sync",
    "CodingAgent": "builder",
    "CodingAgentBuilder": "builder",
    "CodingLimits": "workbench",
    "CodingSandboxRuntime": "builder",
    "CodingToolset": "toolset",
    "FileChange": "sync",
    "FileState": "sync",
    "GitCredential": "git_tool",
    "GitIdentity": "git_tool",
    "LocalWorkspace": "host_workspace",
    "PathRules": "confinement",
    "PushResult": "sync",
    "SandboxWorkspace": "workspace",
    "SyncConflictError": "sync",
    "SyncProgress": "sync",
    "Workspace": "workspace",
    "WorkspacePatch": "sync",
    "WorkspaceSync": "sync",
    "coding_safe_mode": "policy",
    "read_only": "policy",
}

__all__ = [  # noqa: RUF022  sorted by letter, as a reader looks a name up
    "BackgroundCommands",
    "ChangeKind",
    "coding_safe_mode",
    "CodingAgent",
    "CodingAgentBuilder",
    "CodingLimits",
    "CodingSandboxRuntime",
    "CodingToolset",
    "FileChange",
    "FileState",
    "GitCredential",
    "GitIdentity",
    "LocalWorkspace",
    "PathRules",
    "PushResult",
    "read_only",
    "SandboxWorkspace",
    "SyncConflictError",
    "SyncProgress",
    "Workspace",
    "WorkspacePatch",
    "WorkspaceSync",
]


def __getattr__(name: str) -> Any:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted((*globals(), *__all__))
