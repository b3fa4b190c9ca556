from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ai4j_sandbox.discovery import (
    PROVIDERS_GROUP,
    Discovery,
    PluginEntry,
    core_version,
    discover,
    forget_directories,
    parse_group,
)
from support.plugin_site import PluginSite


@pytest.fixture
def site(tmp_path: Path) -> PluginSite:
    return PluginSite(tmp_path / "site")


def found(*sites: PluginSite) -> Discovery:
    return discover(PROVIDERS_GROUP, [entry for site in sites for entry in site.path])


def names(*sites: PluginSite) -> list[tuple[str, str, str]]:
    return [(entry.name, entry.distribution, entry.version) for entry in found(*sites).entries]


def test_an_entry_is_listed_with_its_distribution_and_nothing_is_imported(site: PluginSite) -> None:
    site.distribution("good-plugin", "1.2", providers={"ok": "good_plugin_hooks"}, requires=["ai4j-sandbox>=0.1,<0.2"])

    listed = found(site)

    entry = PluginEntry(
        group=PROVIDERS_GROUP,
        name="ok",
        value="good_plugin_hooks",
        distribution="good-plugin",
        version="1.2",
        requires=("ai4j-sandbox>=0.1,<0.2",),
        location=str(site.directory),
    )
    assert listed == Discovery(entries=(entry,))
    assert "good_plugin_hooks" not in sys.modules


def test_an_empty_path_has_nothing(tmp_path: Path) -> None:
    assert discover(PROVIDERS_GROUP, [str(tmp_path), str(tmp_path / "missing")]) == Discovery()


def test_other_groups_do_not_count(site: PluginSite) -> None:
    site.distribution("tool", entry_points="[console_scripts]\nai4j.sandbox_providers = m:main\n")

    assert found(site) == Discovery()


def test_malformed_lines_of_an_unrelated_distribution_are_not_our_concern(site: PluginSite) -> None:
    """Case L07."""
    site.distribution("aaa-unrelated", entry_points="[console_scripts]\nno equals sign here")
    site.distribution("good", providers={"ok": "m"})

    assert (names(site), found(site).problems) == ([("ok", "good", "1.0")], ())


def test_malformed_lines_in_another_section_of_the_same_file_are_not_either(site: PluginSite) -> None:
    text = "stray\n[console_scripts]\nno equals sign here\n[ai4j.sandbox_providers]\nok = m\n[broken\nx"
    site.distribution("good", entry_points=text)

    assert names(site) == [("ok", "good", "1.0")]


@pytest.mark.parametrize("line", ["no equals sign here", "= m", "ok =", "[x"])
def test_a_malformed_line_of_ours_is_a_problem_and_its_neighbour_is_fine(site: PluginSite, line: str) -> None:
    site.distribution("half", "2.0", entry_points=f"[{PROVIDERS_GROUP}]\n{line}\ngood = m\n")

    problems = [(problem.name, problem.distribution, problem.version) for problem in found(site).problems]

    assert (names(site), problems) == ([("good", "half", "2.0")], [(line, "half", "2.0")])


def test_a_file_that_is_not_text_is_a_problem_and_hurts_nobody(site: PluginSite) -> None:
    folder = site.distribution("binary", entry_points=b"\xff\xfe\x00[")
    site.distribution("good", providers={"ok": "m"})

    [problem] = found(site).problems

    assert names(site) == [("ok", "good", "1.0")]
    assert f"entry_points.txt in {folder} cannot be read" in problem.reason
    assert problem.name is None


def test_odd_values_are_listed_as_they_are(site: PluginSite) -> None:
    """Case L09."""
    site.distribution("odd", providers={"bad": "mod:P:Q extra [x", "url": "a=b"})

    assert [(entry.name, entry.value) for entry in found(site).entries] == [("bad", "mod:P:Q extra [x"), ("url", "a=b")]


def test_a_shadowed_older_version_does_not_count(tmp_path: Path) -> None:
    """Case L04."""
    new, old = PluginSite(tmp_path / "new"), PluginSite(tmp_path / "old")
    new.distribution("foo", "2.0", providers={"e2b": "foo2"})
    old.distribution("Foo", "1.0", providers={"e2b": "foo1", "old": "gone"})

    assert (names(new, old), found(new, old).problems) == ([("e2b", "foo", "2.0")], ())
    assert names(old, new) == [("e2b", "Foo", "1.0"), ("old", "Foo", "1.0")]


def test_a_shadowing_version_without_entries_hides_those_of_the_older(tmp_path: Path) -> None:
    new, old = PluginSite(tmp_path / "new"), PluginSite(tmp_path / "old")
    new.distribution("foo", "2.0")
    old.distribution("foo", "1.0", providers={"old": "gone"})

    assert names(new, old) == []


def test_an_empty_leftover_folder_does_not_hide_the_real_distribution(tmp_path: Path) -> None:
    """Case L06."""
    leftover, real = PluginSite(tmp_path / "leftover"), PluginSite(tmp_path / "real")
    empty = leftover.directory / "bar-9.9.dist-info"
    empty.mkdir()
    real.distribution("bar", "1.0", providers={"bar": "m"})

    [problem] = found(leftover, real).problems

    assert names(leftover, real) == [("bar", "bar", "1.0")]
    assert str(empty) in problem.reason
    assert "delete it" in str(problem)


def test_a_leftover_that_still_has_entry_points_is_reported_and_ignored(site: PluginSite) -> None:
    folder = site.distribution("bar", providers={"bar": "m"})
    (folder / "METADATA").unlink()

    listed = found(site)

    assert (listed.entries, [str(folder) in problem.reason for problem in listed.problems]) == ((), [True])


def test_two_versions_in_one_directory_count_as_the_higher_one(site: PluginSite) -> None:
    site.distribution("foo", "1.9", providers={"foo": "m19"})
    site.distribution("foo", "1.10", providers={"foo": "m110"})
    site.distribution("foo", "1.2", providers={"foo": "m12"})

    [problem] = found(site).problems

    assert names(site) == [("foo", "foo", "1.10")]
    assert "foo is installed 3 times" in problem.reason
    assert "(1.2, 1.9, 1.10)" in problem.reason


def test_an_editable_install_whose_source_is_on_the_path_too_counts_once(tmp_path: Path) -> None:
    source, site = PluginSite(tmp_path / "src"), PluginSite(tmp_path / "site")
    site.distribution("foo-bar", "1.0", providers={"foo": "m"})
    egg = source.directory / "foo_bar.egg-info"
    egg.mkdir()
    (egg / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: foo-bar\nVersion: 1.0\n")
    (egg / "entry_points.txt").write_text(f"[{PROVIDERS_GROUP}]\nfoo = m\n")

    assert names(site, source) == names(source, site) == [("foo", "foo-bar", "1.0")]


def test_a_directory_named_twice_on_the_path_counts_once(site: PluginSite) -> None:
    site.distribution("foo", providers={"foo": "m"})

    assert (names(site, site), found(site, site).problems) == ([("foo", "foo", "1.0")], ())


def test_a_missing_version_is_no_obstacle(site: PluginSite) -> None:
    folder = site.distribution("foo", providers={"foo": "m"})
    (folder / "METADATA").write_text("Name: foo\n")

    assert names(site) == [("foo", "foo", "unknown")]


def test_metadata_that_is_no_file_hurts_nobody(site: PluginSite) -> None:
    folder = site.distribution("odd", providers={"odd": "m"})
    (folder / "METADATA").unlink()
    (folder / "METADATA").mkdir()
    (site.directory / "file-1.0.dist-info").write_text("not a folder")
    site.distribution("good", providers={"ok": "m"})

    assert names(site) == [("ok", "good", "1.0")]


def test_what_was_installed_later_is_found_by_the_next_look(site: PluginSite) -> None:
    before = names(site)
    site.distribution("late", providers={"late": "m"})
    forget_directories()

    assert (before, names(site)) == ([], [("late", "late", "1.0")])


def test_the_group_is_read_like_an_ini_file() -> None:
    text = "\ufeff[other]\na = 1\n[ ai4j ]\n# comment\n; comment\n\n  b=m:P  \nb = m:P\n[other]\nc = 3\n"

    assert parse_group(text, "ai4j") == ([("b", "m:P"), ("b", "m:P")], [])


def test_the_running_core_has_a_version() -> None:
    assert core_version().startswith("0.")
