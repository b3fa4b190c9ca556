"""Make the pictures of ``docs/images`` from real runs, against the emulator: ``python docs/screenshots.py``.

What changes from run to run (ids, ports, times) is what it was when the pictures were made.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console, RenderableType
from rich.text import Text

from ai4j_cli.application import Application
from ai4j_cli.top.board import Board
from ai4j_cli.top.dashboard import Dashboard
from ai4j_cli.top.keys import Key
from ai4j_cli.top.screen import live_picture
from ai4j_cli.top.watcher import Watcher
from ai4j_sandbox import SandboxCommand, default_registry
from ai4j_sandbox_emulator import Emulator

IMAGES = Path(__file__).parent / "images"
COLUMNS = 130
OUTPUT_LINES = 5
FACES = ("cubesandbox", "e2b")
LOOP = "for n in $(seq 99); do echo built $n; sleep 0.2; done"
SCRIPT = (
    "- {tool: bash, arguments: {action: exec, command: 'uname -s; pwd'}}\n- It is a Linux, and I am in the sandbox.\n"
)


def main() -> None:
    """Make all of them."""
    IMAGES.mkdir(exist_ok=True)
    with Emulator(FACES) as emulator, tempfile.TemporaryDirectory() as home:
        environment = {"PATH": os.environ["PATH"], "HOME": home, "XDG_STATE_HOME": home, **emulator.environment}
        _draw_run(environment)
        _draw_status(emulator, environment, Path(home))
        os.environ.update(emulator.environment)
        _draw_top(emulator)


def _draw_run(environment: Mapping[str, str]) -> None:
    lines = [
        "import sys, json",
        "json.dump({'passed': 42}, open('report.json', 'w'))",
        "print('42 passed', sys.platform)",
    ]
    arguments = [
        "sandbox",
        "run",
        "-v",
        "--timeout",
        "60",
        "--artifact",
        "*.json",
        "--",
        "python3",
        "-c",
        "; ".join(lines),
    ]
    shown = "ai4j sandbox run -v --timeout 60 --artifact '*.json' -- python3 -c '...'"
    _draw("run", shown, _output(arguments, environment))


def _draw_status(emulator: Emulator, environment: Mapping[str, str], home: Path) -> None:
    (home / "script.yaml").write_text(SCRIPT)
    with default_registry().provider("cubesandbox", environ=emulator.environment).create_session() as session:
        directory = session.execute(SandboxCommand(command="pwd")).stdout.strip()
        typed = [
            f"/sandbox attach cube {session.session_id} {directory}",
            "where are you?",
            "y",
            "/sandbox status",
            "/quit",
        ]
        arguments = ["chat", "--scripted", str(home / "script.yaml"), "-C", str(home)]
        output = _output(arguments, environment, typed="\n".join(typed))
    _draw("status", "ai4j chat", output)


def _draw_top(emulator: Emulator) -> None:
    sessions = [default_registry().provider(name, environ=emulator.environment).create_session() for name in FACES]
    boards: list[Board] = []
    try:
        for session in sessions:
            session.start(SandboxCommand(command=LOOP))
        with Watcher(Application(), FACES, {}, interval=0.5) as watcher:
            Dashboard(watcher, boards.append).run(lambda: _quit_once_there_is_output(boards))
    finally:
        for session in sessions:
            session.close()
    _draw("top", "ai4j top", live_picture(boards[-1], time.time_ns() // 1_000_000))


def _quit_once_there_is_output(boards: list[Board]) -> list[Key]:
    time.sleep(0.2)
    return [Key.QUIT] if len(boards[-1].tail) >= OUTPUT_LINES else []


def _output(arguments: list[str], environment: Mapping[str, str], typed: str = "") -> Text:
    done = subprocess.run(
        [sys.executable, "-m", "ai4j_cli", *arguments],
        env=dict(environment),
        input=typed,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    return Text(done.stdout.rstrip())


def _draw(name: str, command: str, shown: RenderableType) -> None:
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, highlight=False)
    console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
    console.print(shown)
    picture = console.export_svg(title=command, unique_id=f"ai4j-{name}")
    # A picture of ours loads nothing from elsewhere; it does with the reader's own monospaced font.
    (IMAGES / f"{name}.svg").write_text(re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL))


if __name__ == "__main__":
    main()
