from __future__ import annotations

import inspect
from collections.abc import Callable

import pluggy
import pytest

import ai4j_sandbox
from ai4j_sandbox import hookspecs
from ai4j_sandbox.capability import ProviderInfo
from ai4j_sandbox.hookspecs import ProviderRegistration, hookimpl


def specifications() -> dict[str, Callable[..., object]]:
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    return {
        name: function
        for name, function in vars(hookspecs).items()
        if manager.parse_hookspec_opts(hookspecs, name) is not None
    }


def manager_with(plugin: object) -> pluggy.PluginManager:
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    manager.register(plugin)
    manager.check_pending()
    return manager


def test_the_extension_surface_is_two_hooks() -> None:
    parameters = {name: list(inspect.signature(function).parameters) for name, function in specifications().items()}

    assert parameters == {"ai4j_sandbox_providers": [], "ai4j_sandbox_event": ["event", "binding"]}


@pytest.mark.parametrize("name", ["ai4j_sandbox_providers", "ai4j_sandbox_event"])
def test_every_hook_says_what_an_implementation_must_not_do(name: str) -> None:
    assert "must NOT" in (specifications()[name].__doc__ or "")


def test_the_marker_is_at_the_package_root() -> None:
    assert ai4j_sandbox.hookimpl is hookimpl
    assert ai4j_sandbox.ProviderRegistration is ProviderRegistration


def test_a_plugin_contributes_registrations() -> None:
    info = ProviderInfo(provider_id="x", display_name="X", distribution="x", version="1")
    registration = ProviderRegistration(info=info, factory=lambda: NotImplemented)

    class Plugin:
        @hookimpl
        def ai4j_sandbox_providers(self) -> list[ProviderRegistration]:
            return [registration]

    assert manager_with(Plugin()).hook.ai4j_sandbox_providers() == [[registration]]


def test_a_plugin_may_take_only_the_arguments_it_needs() -> None:
    seen = []

    class Plugin:
        @hookimpl
        def ai4j_sandbox_event(self, event: object) -> None:
            seen.append(event)

    manager_with(Plugin()).hook.ai4j_sandbox_event(event="event", binding="binding")

    assert seen == ["event"]


def test_a_misspelt_hook_is_refused() -> None:
    class Plugin:
        @hookimpl
        def ai4j_sandbox_provider(self) -> list[ProviderRegistration]:
            return []

    with pytest.raises(pluggy.PluginValidationError, match="ai4j_sandbox_provider"):
        manager_with(Plugin())


def test_an_argument_that_the_hook_does_not_have_is_refused() -> None:
    class Plugin:
        @hookimpl
        def ai4j_sandbox_event(self, event: object, session: object) -> None: ...

    with pytest.raises(pluggy.PluginValidationError, match="session"):
        manager_with(Plugin())
