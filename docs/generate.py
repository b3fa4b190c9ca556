"""Write the generated parts of the documentation: each provider's settings table, from its `SettingsTable`.

``python docs/generate.py`` rewrites what stands between the markers; with ``--check`` it only says what is out of date.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ai4j_sandbox import SettingsTable, default_registry

PAGES = Path(__file__).parent / "providers"
BEGIN, END = "<!-- settings: begin -->", "<!-- settings: end -->"


def with_table(page: str, table: SettingsTable) -> str:
    """Return the page with the settings table between its markers.

    Raises:
        ValueError: The page has no markers.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page needs the markers {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{table.markdown()}\n{END}{after}"


def stale_pages(*, write: bool) -> list[str]:
    """Return the ids of providers whose page differs from its table; rewrite those pages if asked."""
    registry = default_registry()
    stale = []
    for provider_id in registry.ids():
        path = PAGES / f"{provider_id}.md"
        table = registry.provider(provider_id).settings
        if table is None or not path.exists():
            continue
        wanted = with_table(path.read_text(), table)
        if wanted != path.read_text():
            stale.append(provider_id)
            if write:
                path.write_text(wanted)
    return stale


if __name__ == "__main__":
    check_only = "--check" in sys.argv[1:]
    out_of_date = stale_pages(write=not check_only)
    sys.exit(f"out of date: {', '.join(out_of_date)}; run make docs" if check_only and out_of_date else 0)
