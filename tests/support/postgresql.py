"""A PostgreSQL server of the tests' own, where its programs are installed: on a socket in a directory, no port."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .waiting import eventually

_DEBIAN = "/usr/lib/postgresql"  # Debian keeps the server's programs off PATH, one folder for each version
_ACCOUNT = "postgres"


def program(name: str) -> str | None:
    """Return the path of a server program, if this user can run it: the server refuses to run as root."""
    if os.geteuid() == 0 and _ACCOUNT not in {entry.pw_name for entry in pwd.getpwall()}:
        return None
    installed = sorted(Path(_DEBIAN).glob(f"*/bin/{name}"))
    return shutil.which(name) or (str(installed[-1]) if installed else None)


@contextmanager
def postgresql_server() -> Iterator[str]:
    """Run a server and yield the URL of its database; nothing of it is left afterwards."""
    user = _ACCOUNT if os.geteuid() == 0 else None
    # Not below pytest's directory: that is private to root, and too long a path for a socket.
    with tempfile.TemporaryDirectory(prefix="ai4j-pg-") as directory:
        if user is not None:
            shutil.chown(directory, user)
        initdb = [
            _required("initdb"),
            *("-D", f"{directory}/data", "-A", "trust", "-E", "UTF8", "-U", "tests", "--no-sync"),
        ]
        subprocess.run(initdb, user=user, cwd="/", stdout=subprocess.DEVNULL, timeout=60, check=True)
        options = ["-D", f"{directory}/data", "-k", directory, "-c", "listen_addresses=", "-c", "fsync=off"]
        with Path(directory, "log").open("wb") as log:
            server = subprocess.Popen([_required("postgres"), *options], user=user, cwd="/", stdout=log, stderr=log)
        try:
            ready = eventually(
                lambda: b"ready to accept connections" in Path(directory, "log").read_bytes(), seconds=60
            )
            assert ready, Path(directory, "log").read_text()
            yield f"postgresql+psycopg://tests@/postgres?host={directory}"
        finally:
            server.send_signal(signal.SIGINT)  # "fast": open connections are ended
            server.wait(60)


def _required(name: str) -> str:
    path = program(name)
    assert path is not None, f"{name} is not installed"
    return path
