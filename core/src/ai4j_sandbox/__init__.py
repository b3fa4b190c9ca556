"""Provider-neutral sandbox SPI for AI agents.

Read in this order, each file needs only the ones before it: `frozen`, `redaction`, `errors`, `deadline`, `model`,
`capability`, `output`, `events`, `process`, `files`, `artifacts`, `binding`, `schema`, `settings`, `ownership`,
`hookspecs`, `compatibility`, `discovery`, `plugin`, `observers`, `spi`, `registry`, `aio`. The conformance suite for
provider authors is `testing`.

Everything public is exported here and loaded when first used, so that importing this package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .binding import AgentSessionSandboxBinding as AgentSessionSandboxBinding
    from .capability import NATIVE as NATIVE
    from .capability import Admission as Admission
    from .capability import Capabilities as Capabilities
    from .capability import Capability as Capability
    from .capability import Decision as Decision
    from .capability import FieldDecision as FieldDecision
    from .capability import IsolationLevel as IsolationLevel
    from .capability import ProviderInfo as ProviderInfo
    from .capability import Requirement as Requirement
    from .capability import SandboxLocation as SandboxLocation
    from .capability import Support as Support
    from .capability import SupportLevel as SupportLevel
    from .capability import emulated as emulated
    from .capability import unsupported as unsupported
    from .deadline import Deadline as Deadline
    from .discovery import PluginProblem as PluginProblem
    from .errors import Outcome as Outcome
    from .errors import ProviderConflictError as ProviderConflictError
    from .errors import ProviderIncompatibleError as ProviderIncompatibleError
    from .errors import ProviderLoadError as ProviderLoadError
    from .errors import ProviderNotFoundError as ProviderNotFoundError
    from .errors import SandboxAdmissionError as SandboxAdmissionError
    from .errors import SandboxAuthError as SandboxAuthError
    from .errors import SandboxCapacityError as SandboxCapacityError
    from .errors import SandboxCleanupError as SandboxCleanupError
    from .errors import SandboxConfigError as SandboxConfigError
    from .errors import SandboxConflictError as SandboxConflictError
    from .errors import SandboxConnectionError as SandboxConnectionError
    from .errors import SandboxException as SandboxException
    from .errors import SandboxFileError as SandboxFileError
    from .errors import SandboxNotFoundError as SandboxNotFoundError
    from .errors import SandboxOutcomeUnknownError as SandboxOutcomeUnknownError
    from .errors import SandboxOutputLimitError as SandboxOutputLimitError
    from .errors import SandboxPausedError as SandboxPausedError
    from .errors import SandboxPermissionError as SandboxPermissionError
    from .errors import SandboxProtocolError as SandboxProtocolError
    from .errors import SandboxProviderError as SandboxProviderError
    from .errors import SandboxQuotaError as SandboxQuotaError
    from .errors import SandboxRateLimitError as SandboxRateLimitError
    from .errors import SandboxSessionClosedError as SandboxSessionClosedError
    from .errors import SandboxSessionLostError as SandboxSessionLostError
    from .errors import SandboxTimeoutError as SandboxTimeoutError
    from .errors import SandboxUnreachableError as SandboxUnreachableError
    from .errors import SessionState as SessionState
    from .errors import UnsupportedCapabilityError as UnsupportedCapabilityError
    from .files import FileInfo as FileInfo
    from .files import FileKind as FileKind
    from .files import SandboxFiles as SandboxFiles
    from .files import ShellFiles as ShellFiles
    from .hookspecs import ProviderRegistration as ProviderRegistration
    from .hookspecs import hookimpl as hookimpl
    from .hookspecs import hookspec as hookspec
    from .model import CapturedOutput as CapturedOutput
    from .model import OutputStream as OutputStream
    from .model import SandboxArtifact as SandboxArtifact
    from .model import SandboxCommand as SandboxCommand
    from .model import SandboxEvent as SandboxEvent
    from .model import SandboxEventType as SandboxEventType
    from .model import SandboxResult as SandboxResult
    from .model import SandboxSpec as SandboxSpec
    from .model import SandboxStatus as SandboxStatus
    from .model import SandboxSummary as SandboxSummary
    from .model import StreamMode as StreamMode
    from .model import TerminalSize as TerminalSize
    from .observers import SessionObserver as SessionObserver
    from .observers import observer_problems as observer_problems
    from .observers import register_observer as register_observer
    from .process import OutputChunk as OutputChunk
    from .process import ProcessChannel as ProcessChannel
    from .process import ProcessExit as ProcessExit
    from .process import SandboxProcess as SandboxProcess
    from .redaction import RedactionPolicy as RedactionPolicy
    from .redaction import Scrubber as Scrubber
    from .registry import SandboxRegistry as SandboxRegistry
    from .registry import default_registry as default_registry
    from .schema import dump as dump
    from .schema import load_artifact as load_artifact
    from .schema import load_command as load_command
    from .schema import load_event as load_event
    from .schema import load_result as load_result
    from .schema import load_spec as load_spec
    from .schema import load_summary as load_summary
    from .settings import Kind as Kind
    from .settings import ResolvedSettings as ResolvedSettings
    from .settings import Setting as Setting
    from .settings import SettingsTable as SettingsTable
    from .spi import Browser as Browser
    from .spi import Health as Health
    from .spi import Metrics as Metrics
    from .spi import PortUrl as PortUrl
    from .spi import ProcessSummary as ProcessSummary
    from .spi import SandboxProvider as SandboxProvider
    from .spi import SandboxSession as SandboxSession
    from .spi import SessionDescription as SessionDescription
    from .spi import SupportsBackground as SupportsBackground
    from .spi import SupportsBrowser as SupportsBrowser
    from .spi import SupportsConnect as SupportsConnect
    from .spi import SupportsExtend as SupportsExtend
    from .spi import SupportsHealth as SupportsHealth
    from .spi import SupportsListing as SupportsListing
    from .spi import SupportsMetrics as SupportsMetrics
    from .spi import SupportsPause as SupportsPause
    from .spi import SupportsPorts as SupportsPorts
    from .spi import SupportsSnapshot as SupportsSnapshot

# Module to the names it exports. A test keeps this, the imports above and `__all__` the same.
_EXPORTS = {
    "binding": ("AgentSessionSandboxBinding",),
    "capability": (
        "NATIVE",
        "Admission",
        "Capabilities",
        "Capability",
        "Decision",
        "FieldDecision",
        "IsolationLevel",
        "ProviderInfo",
        "Requirement",
        "SandboxLocation",
        "Support",
        "SupportLevel",
        "emulated",
        "unsupported",
    ),
    "deadline": ("Deadline",),
    "discovery": ("PluginProblem",),
    "errors": (
        "Outcome",
        "ProviderConflictError",
        "ProviderIncompatibleError",
        "ProviderLoadError",
        "ProviderNotFoundError",
        "SandboxAdmissionError",
        "SandboxAuthError",
        "SandboxCapacityError",
        "SandboxCleanupError",
        "SandboxConfigError",
        "SandboxConflictError",
        "SandboxConnectionError",
        "SandboxException",
        "SandboxFileError",
        "SandboxNotFoundError",
        "SandboxOutcomeUnknownError",
        "SandboxOutputLimitError",
        "SandboxPausedError",
        "SandboxPermissionError",
        "SandboxProtocolError",
        "SandboxProviderError",
        "SandboxQuotaError",
        "SandboxRateLimitError",
        "SandboxSessionClosedError",
        "SandboxSessionLostError",
        "SandboxTimeoutError",
        "SandboxUnreachableError",
        "SessionState",
        "UnsupportedCapabilityError",
    ),
    "files": (
        "FileInfo",
        "FileKind",
        "SandboxFiles",
        "ShellFiles",
    ),
    "hookspecs": (
        "ProviderRegistration",
        "hookimpl",
        "hookspec",
    ),
    "model": (
        "CapturedOutput",
        "OutputStream",
        "SandboxArtifact",
        "SandboxCommand",
        "SandboxEvent",
        "SandboxEventType",
        "SandboxResult",
        "SandboxSpec",
        "SandboxStatus",
        "SandboxSummary",
        "StreamMode",
        "TerminalSize",
    ),
    "observers": (
        "SessionObserver",
        "observer_problems",
        "register_observer",
    ),
    "process": (
        "OutputChunk",
        "ProcessChannel",
        "ProcessExit",
        "SandboxProcess",
    ),
    "redaction": (
        "RedactionPolicy",
        "Scrubber",
    ),
    "registry": (
        "SandboxRegistry",
        "default_registry",
    ),
    "schema": (
        "dump",
        "load_artifact",
        "load_command",
        "load_event",
        "load_result",
        "load_spec",
        "load_summary",
    ),
    "settings": (
        "Kind",
        "ResolvedSettings",
        "Setting",
        "SettingsTable",
    ),
    "spi": (
        "Browser",
        "Health",
        "Metrics",
        "PortUrl",
        "ProcessSummary",
        "SandboxProvider",
        "SandboxSession",
        "SessionDescription",
        "SupportsBackground",
        "SupportsBrowser",
        "SupportsConnect",
        "SupportsExtend",
        "SupportsHealth",
        "SupportsListing",
        "SupportsMetrics",
        "SupportsPause",
        "SupportsPorts",
        "SupportsSnapshot",
    ),
}
_HOME = {name: module for module, names in _EXPORTS.items() for name in names}

__all__ = [  # noqa: RUF022  sorted by letter, as a reader looks a name up
    "Admission",
    "AgentSessionSandboxBinding",
    "Browser",
    "Capabilities",
    "Capability",
    "CapturedOutput",
    "Deadline",
    "Decision",
    "default_registry",
    "dump",
    "emulated",
    "FieldDecision",
    "FileInfo",
    "FileKind",
    "Health",
    "hookimpl",
    "hookspec",
    "IsolationLevel",
    "Kind",
    "load_artifact",
    "load_command",
    "load_event",
    "load_result",
    "load_spec",
    "load_summary",
    "Metrics",
    "NATIVE",
    "observer_problems",
    "Outcome",
    "OutputChunk",
    "OutputStream",
    "PluginProblem",
    "PortUrl",
    "ProcessChannel",
    "ProcessExit",
    "ProcessSummary",
    "ProviderConflictError",
    "ProviderIncompatibleError",
    "ProviderInfo",
    "ProviderLoadError",
    "ProviderNotFoundError",
    "ProviderRegistration",
    "RedactionPolicy",
    "register_observer",
    "Requirement",
    "ResolvedSettings",
    "SandboxAdmissionError",
    "SandboxArtifact",
    "SandboxAuthError",
    "SandboxCapacityError",
    "SandboxCleanupError",
    "SandboxCommand",
    "SandboxConfigError",
    "SandboxConflictError",
    "SandboxConnectionError",
    "SandboxEvent",
    "SandboxEventType",
    "SandboxException",
    "SandboxFileError",
    "SandboxFiles",
    "SandboxLocation",
    "SandboxNotFoundError",
    "SandboxOutcomeUnknownError",
    "SandboxOutputLimitError",
    "SandboxPausedError",
    "SandboxPermissionError",
    "SandboxProcess",
    "SandboxProtocolError",
    "SandboxProvider",
    "SandboxProviderError",
    "SandboxQuotaError",
    "SandboxRateLimitError",
    "SandboxRegistry",
    "SandboxResult",
    "SandboxSession",
    "SandboxSessionClosedError",
    "SandboxSessionLostError",
    "SandboxSpec",
    "SandboxStatus",
    "SandboxSummary",
    "SandboxTimeoutError",
    "SandboxUnreachableError",
    "Scrubber",
    "SessionDescription",
    "SessionObserver",
    "SessionState",
    "Setting",
    "SettingsTable",
    "ShellFiles",
    "StreamMode",
    "Support",
    "SupportLevel",
    "SupportsBackground",
    "SupportsBrowser",
    "SupportsConnect",
    "SupportsExtend",
    "SupportsHealth",
    "SupportsListing",
    "SupportsMetrics",
    "SupportsPause",
    "SupportsPorts",
    "SupportsSnapshot",
    "TerminalSize",
    "unsupported",
    "UnsupportedCapabilityError",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("ai4j-sandbox")
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted((*globals(), *__all__))
