"""Run every benchmark of this folder and print its table; ratios are against the plain alternative in the same run."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> int:
    """Run the named benchmarks, or all; return the first exit code that is not 0."""
    names = sorted(path.stem for path in HERE.glob("*.py") if path.name != "run.py")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one or more of: {', '.join(names)}")
    chosen = parser.parse_args().names or names
    if unknown := sorted(set(chosen) - set(names)):
        parser.error(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(names)}")
    for name in chosen:
        print(f"\n== {name}", flush=True)
        done = subprocess.run([sys.executable, HERE / f"{name}.py"], check=False)
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
