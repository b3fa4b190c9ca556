"""Coding agents: files, shell, git, tests and search as tools, all of them where the session's sandbox is.

Read in this order, each file needs only the ones before it: `devtools`, `browser`, `workspace`, `host_channel`,
`host_files`, `host_workspace`, `confinement`, `lines`, `output_view`, `gitignore`, `manifest`, `background`,
`session_browser`, `workbench`, then the tools (`bash_tool`, `file_tools`, `patch`, `patch_tool`, `search_tools`,
`git_tool`, `junit`, `project_tool`, `browser_tool`), `policy`, `git_diff`, `host_changes`, `workspace_patch`, `sync`,
`toolset`, `builder`.

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
    from .manifest import FileState as FileState
    from .manifest import SkippedPath as SkippedPath
    from .policy import coding_safe_mode as coding_safe_mode
    from .policy import read_only as read_only
    from .sync import PushResult as PushResult
    from .sync import SyncProgress as SyncProgress
    from .sync import WorkspaceSync as WorkspaceSync
    from .toolset import CodingToolset as CodingToolset
    from .workbench import CodingLimits as CodingLimits
    from .workspace import SandboxWorkspace as SandboxWorkspace
    from .workspace import Workspace as Workspace
    from .workspace_patch import ChangeKind as ChangeKind
    from .workspace_patch import FileChange as FileChange
    from .workspace_patch import SyncConflictError as SyncConflictError
    from .workspace_patch import WorkspacePatch as WorkspacePatch

_HOME = {
    "BackgroundCommands": "background",
    "ChangeKind": "workspace_patch",
    "CodingAgent": "builder",
    "CodingAgentBuilder": "builder",
    "CodingLimits": "workbench",
    "CodingSandboxRuntime": "builder",
    "CodingToolset": "toolset",
    "FileChange": "workspace_patch",
    "FileState": "manifest",
    "GitCredential": "git_tool",
    "GitIdentity": "git_tool",
    "LocalWorkspace": "host_workspace",
    "PathRules": "confinement",
    "PushResult": "sync",
    "SandboxWorkspace": "workspace",
    "SkippedPath": "manifest",
    "SyncConflictError": "workspace_patch",
    "SyncProgress": "sync",
    "Workspace": "workspace",
    "WorkspacePatch": "workspace_patch",
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
    "SkippedPath",
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
