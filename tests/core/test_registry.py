from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ai4j_sandbox.capability import IsolationLevel, ProviderInfo
from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.errors import (
    ProviderConflictError,
    ProviderIncompatibleError,
    ProviderLoadError,
    ProviderNotFoundError,
    SandboxAdmissionError,
    SandboxConfigError,
    SandboxConnectionError,
    SandboxSessionClosedError,
)
from ai4j_sandbox.hookspecs import ProviderRegistration
from ai4j_sandbox.model import SandboxCommand, SandboxSpec, SandboxStatus
from ai4j_sandbox.process import ProcessChannel
from ai4j_sandbox.registry import SandboxRegistry, default_registry
from ai4j_sandbox.spi import SandboxProvider, SandboxSession, SessionDescription
from support.plugin_site import PROVIDERS, PluginSite
from support.secrets import CANARY, assert_no_secret, everything_said


@pytest.fixture
def site(tmp_path: Path) -> Iterator[PluginSite]:
    with PluginSite(tmp_path / "site").importable() as site:
        yield site


@pytest.fixture
def registry(site: PluginSite) -> SandboxRegistry:
    return SandboxRegistry(path=site.path)


class EmptySession(SandboxSession):
    """A session that runs nothing; its end can be made to fail."""

    destroy_error: SandboxConnectionError | None = None

    def _open_channel(self, command: SandboxCommand, deadline: Deadline) -> ProcessChannel:
        raise NotImplementedError

    def _destroy(self) -> None:
        if self.destroy_error:
            raise self.destroy_error


class InProcessProvider(SandboxProvider):
    """A provider whose sessions may isolate less than it promises."""

    def __init__(
        self,
        provider_id: str = "mine",
        *,
        isolation: IsolationLevel = IsolationLevel.CONTAINER,
        session_isolation: IsolationLevel | None = None,
    ) -> None:
        self.info = ProviderInfo(
            provider_id=provider_id, display_name="Mine", distribution="host", version="1", isolation=isolation
        )
        self.sessions: list[EmptySession] = []
        self.destroy_error: SandboxConnectionError | None = None
        self._session_isolation = session_isolation

    def _create(self, spec: SandboxSpec) -> SandboxSession:
        isolation = self._session_isolation
        session = EmptySession(SessionDescription(session_id="s1", info=self.info, spec=spec, isolation=isolation))
        session.destroy_error = self.destroy_error
        self.sessions.append(session)
        return session


# --- what there is ----------------------------------------------------------------------------------------------


def test_ids_come_from_metadata_alone(site: PluginSite, registry: SandboxRegistry) -> None:
    site.distribution("one", providers={"zeta": "no_such_module", "Alpha": "no_such_module_either"})

    assert registry.ids() == ("Alpha", "zeta")


def test_infos_import_the_hook_module_and_no_provider(site: PluginSite, registry: SandboxRegistry) -> None:
    site.distribution("good", "3.1", providers={"ok": "ok_hooks"})
    site.provider_module("ok_hooks", "ok")

    infos = [(info.provider_id, info.distribution, info.version) for info in registry.infos()]

    assert infos == [("ok", "good", "3.1")], "distribution and version are the installed ones, not the typed ones"
    assert "ok_hooks" in sys.modules
    assert "ok_hooks_provider" not in sys.modules


def test_a_provider_is_made_alone(site: PluginSite, registry: SandboxRegistry) -> None:
    site.distribution("two", providers={"ok": "ok_hooks", "other": "other_hooks"})
    site.provider_module("ok_hooks", "ok")
    site.provider_module("other_hooks", "other")

    provider = registry.provider("ok")

    assert (provider.provider_id, "other_hooks" in sys.modules) == ("ok", False)


def test_a_provider_is_new_each_time_and_gets_the_constructor_arguments(
    site: PluginSite, registry: SandboxRegistry
) -> None:
    site.distribution("good", providers={"ok": "ok_hooks"})
    site.provider_module("ok_hooks", "ok")

    first, second = registry.provider("ok", api_key="a"), registry.provider("ok", api_key="b")

    assert [vars(provider) for provider in (first, second)] == [{"api_key": "a"}, {"api_key": "b"}]


@pytest.mark.parametrize("asked", ["ok", "OK", "Ok"])
def test_ids_are_matched_without_regard_to_case(site: PluginSite, registry: SandboxRegistry, asked: str) -> None:
    site.distribution("good", providers={"oK": "ok_hooks"})
    site.provider_module("ok_hooks", "Ok")

    assert registry.info(asked).provider_id == "Ok"


def test_two_entries_may_share_one_module(site: PluginSite, registry: SandboxRegistry) -> None:
    site.distribution("pair", providers={"small": "pair_hooks", "large": "pair_hooks"})
    site.module(
        "pair_hooks",
        """
        from ai4j_sandbox.capability import ProviderInfo
        from ai4j_sandbox.hookspecs import ProviderRegistration, hookimpl

        def registration(name):
            info = ProviderInfo(provider_id=name, display_name=name, distribution="pair", version="1")
            return ProviderRegistration(info=info, factory=lambda: None)

        @hookimpl
        def ai4j_sandbox_providers():
            return [registration("small"), registration("large")]
        """,
    )

    assert [info.provider_id for info in registry.infos()] == ["large", "small"]


def test_the_plugin_may_be_an_object_in_a_module(site: PluginSite, registry: SandboxRegistry) -> None:
    site.distribution("good", providers={"ok": "holder:Holder.plugin"})
    site.provider_module("ok_hooks", "ok")
    site.module("holder", "import ok_hooks\n\nclass Holder:\n    plugin = ok_hooks\n")

    assert registry.info("ok").provider_id == "ok"


# --- what is broken ---------------------------------------------------------------------------------------------


def test_a_broken_plugin_next_to_a_good_one(
    site: PluginSite, registry: SandboxRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    """Case L01."""
    site.distribution("broken", "0.3", providers={"boom": "nosuchmod:P"})
    site.distribution("good", providers={"ok": "ok_hooks"})
    site.provider_module("ok_hooks", "ok")

    with caplog.at_level(logging.WARNING, logger="ai4j_sandbox"):
        infos = [registry.infos() for _ in range(2)]
    [problem] = registry.problems()

    assert [[info.provider_id for info in each] for each in infos] == [["ok"], ["ok"]]
    assert (problem.name, problem.distribution, problem.version) == ("boom", "broken", "0.3")
    assert "ModuleNotFoundError: No module named 'nosuchmod'" in problem.reason
    assert len(caplog.records) == 1, "told once"
    with pytest.raises(ProviderLoadError, match=r"'boom' of broken 0\.3"):
        registry.provider("boom")


def test_the_strict_switch_raises_for_a_broken_plugin(site: PluginSite) -> None:
    """Case L01."""
    site.distribution("broken", providers={"boom": "nosuchmod:P"})

    with pytest.raises(ProviderLoadError, match=r"'boom' of broken 1\.0"):
        SandboxRegistry(path=site.path, strict=True).infos()


def test_the_strict_switch_raises_for_a_malformed_entry(site: PluginSite) -> None:
    site.distribution("broken", entry_points=f"[{PROVIDERS}]\nno equals sign here")

    with pytest.raises(ProviderLoadError, match="no equals sign here"):
        SandboxRegistry(path=site.path, strict=True).ids()


def test_the_strict_switch_tolerates_what_breaks_no_plugin(site: PluginSite) -> None:
    site.distribution("unrelated", entry_points=b"\xff")

    assert SandboxRegistry(path=site.path, strict=True).infos() == ()


@pytest.mark.parametrize("source", ["1 / 0", "raise SystemExit(3)", "import nosuchmod", "def broken(:"])
def test_whatever_a_plugin_does_when_imported_stays_with_it(
    site: PluginSite, registry: SandboxRegistry, source: str
) -> None:
    site.distribution("broken", providers={"boom": "boom_hooks"})
    site.module("boom_hooks", source)

    [problem] = registry.problems()

    assert (problem.name, registry.infos()) == ("boom", ())


@pytest.mark.parametrize("value", ["mod:P:Q extra [x", "mod-with-dash", ":P", "mod:", "../evil", "mod P"])
def test_a_value_that_is_no_reference_is_a_problem(site: PluginSite, registry: SandboxRegistry, value: str) -> None:
    """Case L09."""
    site.distribution("odd", providers={"bad": value})

    [problem] = registry.problems()

    assert "is not of the form 'package.module'" in problem.reason


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("x = 1", "contributes no provider"),
        ("def ai4j_sandbox_providers(): return []", "contributes no provider"),
        ("{imports}\n@hookimpl\ndef ai4j_sandbox_providers(): return []", "contributes no provider"),
        ("{imports}\n@hookimpl\ndef ai4j_sandbox_provider(): return []", "unknown hook 'ai4j_sandbox_provider'"),
        ("{imports}\n@hookimpl\ndef ai4j_sandbox_providers(spec): return []", "spec"),
        ("{imports}\n@hookimpl\ndef ai4j_sandbox_providers(): return ['x']", "must return ProviderRegistration"),
        ("{imports}\n@hookimpl\ndef ai4j_sandbox_providers(): return 7", "TypeError"),
        ("{imports}\n@hookimpl\ndef ai4j_sandbox_providers(): raise KeyError('HOME')", "KeyError: 'HOME'"),
    ],
)
def test_a_hook_that_does_not_keep_its_contract_is_a_problem(
    site: PluginSite, registry: SandboxRegistry, source: str, reason: str
) -> None:
    site.distribution("odd", providers={"bad": "bad_hooks"})
    site.module("bad_hooks", source.format(imports="from ai4j_sandbox.hookspecs import hookimpl"))

    [problem] = registry.problems()

    assert reason in problem.reason


def test_an_entry_name_that_differs_from_the_provider_id_is_told_with_both(
    site: PluginSite, registry: SandboxRegistry
) -> None:
    site.distribution("renamed", providers={"new": "ok_hooks"})
    site.provider_module("ok_hooks", "Old")

    with pytest.raises(ProviderLoadError, match=r"'new' of renamed 1\.0.*named 'new'.*provider id 'Old'"):
        registry.info("new")
    assert [problem.name for problem in registry.problems()] == ["new"]


def test_a_provider_that_calls_itself_otherwise_than_its_info_is_refused() -> None:
    registry = SandboxRegistry(path=[])
    info = ProviderInfo(provider_id="new", display_name="N", distribution="d", version="1")
    registry.register(ProviderRegistration(info=info, factory=InProcessProvider))

    with pytest.raises(ProviderLoadError, match="'new' of d 1 made a provider that calls itself 'mine'"):
        registry.provider("new")


def test_a_factory_that_makes_something_else_is_refused() -> None:
    registry = SandboxRegistry(path=[])
    info = ProviderInfo(provider_id="new", display_name="N", distribution="d", version="1")
    registry.register(ProviderRegistration(info=info, factory=dict))  # type: ignore[arg-type]  # what an author without a type checker writes

    with pytest.raises(ProviderLoadError, match="made a dict, which is no SandboxProvider"):
        registry.provider("new")


def test_a_factory_whose_vendor_library_is_missing_is_a_load_error(site: PluginSite, registry: SandboxRegistry) -> None:
    site.distribution("good", providers={"ok": "ok_hooks"})
    site.provider_module("ok_hooks", "ok")
    site.module("ok_hooks_provider", "import no_such_vendor_library")

    with pytest.raises(ProviderLoadError, match="'ok' could not be made: ModuleNotFoundError") as caught:
        registry.provider("ok")
    assert "good 1.0" in str(caught.value)


def test_an_unknown_constructor_argument_is_a_configuration_error(site: PluginSite, registry: SandboxRegistry) -> None:
    site.distribution("good", providers={"ok": "ok_hooks"})
    site.provider_module("ok_hooks", "ok")

    with pytest.raises(SandboxConfigError, match="arguments api_kay: TypeError"):
        registry.provider("ok", api_kay="x")


def test_a_factory_that_quotes_a_credential_does_not_get_through_with_it() -> None:
    def factory(*, api_key: str) -> SandboxProvider:
        raise ValueError(f"cannot use {api_key}")

    registry = SandboxRegistry(path=[])
    info = ProviderInfo(provider_id="leaky", display_name="L", distribution="d", version="1")
    registry.register(ProviderRegistration(info=info, factory=factory))

    with pytest.raises(ProviderLoadError, match="cannot use") as caught:
        registry.provider("leaky", api_key=CANARY)
    assert_no_secret(everything_said(caught.value))


def test_the_providers_own_errors_are_not_wrapped() -> None:
    def factory() -> SandboxProvider:
        raise SandboxConfigError("E2B_TIMEOUT must be a whole number")

    registry = SandboxRegistry(path=[])
    info = ProviderInfo(provider_id="x", display_name="X", distribution="d", version="1")
    registry.register(ProviderRegistration(info=info, factory=factory))

    with pytest.raises(SandboxConfigError, match="E2B_TIMEOUT"):
        registry.provider("x")


# --- two that claim one id --------------------------------------------------------------------------------------


@pytest.mark.parametrize("swapped", [False, True])
def test_two_distributions_that_claim_one_id_are_both_refused_by_name(tmp_path: Path, swapped: bool) -> None:
    """Case L03."""
    one, other = PluginSite(tmp_path / "one"), PluginSite(tmp_path / "other")
    one.distribution("a", providers={"e2b": "x:P"})
    other.distribution("b", "2.0", providers={"E2B": "y:P"})
    paths = [*one.path, *other.path]
    registry = SandboxRegistry(path=paths[::-1] if swapped else paths)

    with pytest.raises(ProviderConflictError) as caught:
        registry.provider("e2b")
    [problem] = registry.problems()

    assert "claimed by a 1.0 (x:P) and b 2.0 (y:P); none of them is used" in caught.value.message
    assert problem.reason == caught.value.message
    assert (registry.ids(), registry.infos()) == (("E2B",), ())


def test_a_conflict_hurts_no_other_id(site: PluginSite, registry: SandboxRegistry) -> None:
    site.distribution("a", providers={"e2b": "x:P"})
    site.distribution("b", providers={"e2b": "x:P"})
    site.distribution("good", providers={"ok": "ok_hooks"})
    site.provider_module("ok_hooks", "ok")

    assert [info.provider_id for info in registry.infos()] == ["ok"]


def test_a_conflict_ends_when_one_distribution_is_disabled(
    site: PluginSite, registry: SandboxRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.distribution("good", providers={"ok": "ok_hooks"})
    site.distribution("evil-twin", providers={"ok": "evil_hooks"})
    site.provider_module("ok_hooks", "ok")
    monkeypatch.setenv("AI4J_SANDBOX_DISABLED_PLUGINS", "Evil_Twin")

    assert registry.info("ok").distribution == "good"


# --- versions ---------------------------------------------------------------------------------------------------


def test_a_plugin_for_another_core_is_refused_before_it_is_imported(
    site: PluginSite, registry: SandboxRegistry
) -> None:
    site.distribution("future", "9.0", providers={"new": "new_hooks"}, requires=["ai4j-sandbox>=9,<10"])
    site.provider_module("new_hooks", "new")

    with pytest.raises(ProviderIncompatibleError, match=r"'new' of future 9\.0 requires ai4j-sandbox>=9,<10"):
        registry.provider("new")
    assert "new_hooks" not in sys.modules


@pytest.mark.parametrize("spi", [((0, 2), (0, 3)), ((0, 0), (0, 1))])
def test_a_plugin_that_speaks_another_spi_is_refused(
    site: PluginSite, registry: SandboxRegistry, spi: tuple[tuple[int, int], tuple[int, int]]
) -> None:
    site.distribution("other", providers={"new": "new_hooks"})
    site.provider_module("new_hooks", "new", spi=spi)

    with pytest.raises(ProviderIncompatibleError, match=r"'new' of other 1\.0 speaks SPI 0\.[02].*speaks 0\.1"):
        registry.provider("new")
    assert "new_hooks_provider" not in sys.modules


# --- an unknown id ----------------------------------------------------------------------------------------------


def test_an_unknown_id_is_answered_with_all_there_is_to_know(site: PluginSite, registry: SandboxRegistry) -> None:
    site.distribution("broken", "0.3", providers={"boom": "nosuchmod:P"})
    site.distribution("good", providers={"sample": "ok_hooks"})
    site.provider_module("ok_hooks", "sample")

    with pytest.raises(ProviderNotFoundError) as caught:
        registry.provider("smaple")

    assert caught.value.message == (
        "no sandbox provider 'smaple'; available: sample; did you mean 'sample'?; "
        "broken: plugin 'boom' of broken 0.3 does not work: ModuleNotFoundError: No module named 'nosuchmod'"
    )


@pytest.mark.parametrize("provider_id", ["local", "e2b", "daytona", "cubesandbox"])
def test_an_official_id_that_is_not_installed_is_answered_with_the_pip_line(provider_id: str) -> None:
    with pytest.raises(ProviderNotFoundError) as caught:
        SandboxRegistry(path=[]).provider(provider_id.upper())

    assert caught.value.hint == f"pip install ai4j-sandbox-{provider_id}"


def test_a_misspelt_official_id_is_answered_with_the_pip_line_too() -> None:
    with pytest.raises(ProviderNotFoundError, match=r"available: none.*pip install ai4j-sandbox-daytona"):
        SandboxRegistry(path=[]).info("datyona")


def test_a_disabled_plugin_is_told_as_disabled(
    site: PluginSite, registry: SandboxRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.distribution("good", providers={"ok": "ok_hooks", "fine": "ok_hooks"})
    monkeypatch.setenv("AI4J_SANDBOX_DISABLED_PLUGINS", " OK , , other ")

    with pytest.raises(ProviderNotFoundError, match=r"'ok' of good 1\.0 is disabled by AI4J_SANDBOX_DISABLED_PLUGINS"):
        registry.provider("ok")
    assert registry.ids() == ("fine",)


def test_what_is_installed_after_the_first_look_is_found_without_a_restart(
    site: PluginSite, registry: SandboxRegistry
) -> None:
    before = registry.ids()
    site.distribution("good", providers={"ok": "ok_hooks"})
    site.provider_module("ok_hooks", "ok")

    assert (before, registry.info("ok").provider_id, registry.ids()) == ((), "ok", ("ok",))


# --- providers of this process ----------------------------------------------------------------------------------


def test_a_registered_instance_is_shared() -> None:
    registry, provider = SandboxRegistry(path=[]), InProcessProvider()
    registry.register(provider)

    assert (registry.ids(), registry.infos()) == (("mine",), (provider.info,))
    assert registry.provider("MINE") is provider


@pytest.mark.parametrize("provider_id", ["installed", "INSTALLED", "registered"])
def test_a_taken_id_is_replaced_only_on_purpose(site: PluginSite, registry: SandboxRegistry, provider_id: str) -> None:
    site.distribution("good", providers={"installed": "ok_hooks"})
    registry.register(InProcessProvider("registered"))
    mine = InProcessProvider(provider_id)

    with pytest.raises(ProviderConflictError, match="is taken by"):
        registry.register(mine)
    registry.register(mine, replace=True)

    assert registry.provider(provider_id) is mine
    assert [info.provider_id for info in registry.infos()] == sorted({provider_id, "registered"})


# --- sessions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "provider_id"),
    [(None, "mine"), (SandboxSpec(provider_id="Mine"), None), (SandboxSpec(provider_id="mine"), "MINE")],
)
def test_host_or_spec_name_the_provider(spec: SandboxSpec | None, provider_id: str | None) -> None:
    registry = SandboxRegistry(path=[])
    registry.register(InProcessProvider())

    assert registry.create_session(spec, provider_id=provider_id).provider_id == "mine"


def test_without_a_name_the_embedded_default_is_meant() -> None:
    with pytest.raises(ProviderNotFoundError, match="pip install ai4j-sandbox-local"):
        SandboxRegistry(path=[]).create_session()


def test_host_and_spec_must_not_contradict_each_other() -> None:
    with pytest.raises(SandboxConfigError, match=r"provider_id='a' contradicts spec\.provider_id='b'"):
        SandboxRegistry(path=[]).create_session(SandboxSpec(provider_id="b"), provider_id="a")


def test_a_provider_below_the_isolation_floor_is_refused_before_it_is_imported(
    site: PluginSite, registry: SandboxRegistry
) -> None:
    site.distribution("good", providers={"ok": "ok_hooks"})
    site.provider_module("ok_hooks", "ok", isolation="SYSCALL_FILTER")

    with pytest.raises(SandboxAdmissionError, match=r"'ok' isolates at level SYSCALL_FILTER.*at least CONTAINER"):
        registry.create_session(provider_id="ok", isolation_floor=IsolationLevel.CONTAINER)
    assert "ok_hooks_provider" not in sys.modules


@pytest.mark.parametrize("floor", [None, IsolationLevel.NONE, IsolationLevel.CONTAINER])
def test_a_session_at_or_above_the_floor_is_handed_out(floor: IsolationLevel | None) -> None:
    registry = SandboxRegistry(path=[])
    registry.register(InProcessProvider())

    session = registry.create_session(provider_id="mine", isolation_floor=floor)

    assert session.status is SandboxStatus.RUNNING


def test_a_session_that_turns_out_weaker_than_the_floor_is_closed_and_refused() -> None:
    registry, provider = SandboxRegistry(path=[]), InProcessProvider(session_isolation=IsolationLevel.NAMESPACE)
    registry.register(provider)

    with pytest.raises(SandboxAdmissionError, match="isolates at level NAMESPACE") as caught:
        registry.create_session(provider_id="mine", isolation_floor=IsolationLevel.CONTAINER)

    assert [session.status for session in provider.sessions] == [SandboxStatus.CLOSED]
    assert (caught.value.session_id, caught.value.may_still_exist) == ("s1", False)


def test_a_weak_session_that_cannot_be_closed_is_told_to_still_exist() -> None:
    registry, provider = SandboxRegistry(path=[]), InProcessProvider(session_isolation=IsolationLevel.NONE)
    provider.destroy_error = SandboxConnectionError("no route")
    registry.register(provider)

    with pytest.raises(SandboxAdmissionError) as caught:
        registry.create_session(provider_id="mine", isolation_floor=IsolationLevel.CONTAINER)

    assert caught.value.may_still_exist
    with pytest.raises(SandboxSessionClosedError):
        provider.sessions[0].start(SandboxCommand(command="true"))


# --- the process's own ------------------------------------------------------------------------------------------


def test_the_default_registry_is_one(site: PluginSite) -> None:
    assert default_registry() is default_registry()


def test_many_threads_that_ask_at_once_get_one_answer(site: PluginSite, registry: SandboxRegistry) -> None:
    site.distribution("good", providers={f"p{number}": "many_hooks" for number in range(5)})
    site.provider_module("many_hooks", "p0")
    start, answers = threading.Barrier(8), []

    def ask() -> None:
        start.wait()
        answers.append((registry.ids(), registry.info("p0"), len(registry.problems())))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert answers == [(("p0", "p1", "p2", "p3", "p4"), registry.info("p0"), 4)] * 8


def test_listing_loads_no_provider_and_no_http_library(site: PluginSite) -> None:
    """Case L11."""
    site.distribution("good", providers={"ok": "ok_hooks"})
    site.provider_module("ok_hooks", "ok")
    program = """
import sys
sys.path.insert(0, sys.argv[1])
import ai4j_sandbox
from ai4j_sandbox.registry import default_registry
after_import = set(sys.modules)
assert "ok" in [info.provider_id for info in default_registry().infos()]
unwanted = ("requests", "urllib3", "http.client", "ok_hooks_provider")
print([name for name in unwanted if name in sys.modules], "ok_hooks" in after_import)
"""
    command = [sys.executable, "-c", program, str(site.directory)]

    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.strip() == "[] False"
