"""Our Daytona provider beside the official SDK, against one canned loopback server, in the same run.

The server answers at once, so that neither side's command costs anything: what our script costs inside a sandbox is
not measured here. A result holds its output as bytes, and a second time as text while that is asked for; the aim for
memory is for the bytes.

(The file is not called ``daytona``: it would hide the SDK.)
"""

from __future__ import annotations

import argparse
import base64
import json
import multiprocessing
import re
import socket
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

from sides.comparison import MEGABYTES, Contest, compare, read_request, reply

SANDBOX_ID = "11111111-1111-4111-8111-111111111111"
CONTENT = b"x" * (MEGABYTES * 1_000_000)

DAYTONA = Contest(
    program="sides.daytona_side",
    imports={
        "ours": "from ai4j_sandbox_daytona import DaytonaSandboxProvider",
        "theirs": "from daytona import Daytona",
    },
    environ=lambda url: {"DAYTONA_API_KEY": "dtn_bench", "DAYTONA_API_URL": f"{url}/api"},
    sandbox={},
    aims={
        "import": "<= 0.125",
        "first": "<= 0.17",
        "no-op": "<= 0.80",
        "text": "<= 0.50",
        "limit": "(the SDK cannot limit)",
        "bytes peak": "<= 0.33",
    },
)


def sandbox(port: int) -> dict[str, Any]:
    """Return a sandbox with everything that the SDK's models insist on."""
    return {
        "id": SANDBOX_ID,
        "organizationId": "o",
        "name": "bench",
        "user": "daytona",
        "env": {},
        "labels": {"code-toolbox-language": "python"},
        "public": False,
        "networkBlockAll": False,
        "target": "us",
        "cpu": 1,
        "gpu": 0,
        "memory": 1,
        "disk": 3,
        "kvm": False,
        "state": "started",
        "toolboxProxyUrl": f"http://127.0.0.1:{port}/toolbox",
    }


def executed(text: str) -> bytes:
    """Return the answer to a text: ours is answered as our script does, with head and tail or from a file."""
    flood = "flood" in text
    mark = re.search(r"/tmp/\.ai4j-([0-9a-f]{32})", text)
    if mark is None:
        result = CONTENT.decode() if flood else ""
    elif not flood:
        result = f"AI4J:{mark[1]}:done 0 - 0 0\n----.\n"
    else:
        kept = re.search(r"'' (\d+) (\d+) 1048576 \d+ /bin/sh", text)
        parts = [int(kept[1]), int(kept[2])] if kept else [len(CONTENT), 0]
        if sum(parts) > 1048576:
            result = f"AI4J:{mark[1]}:filed 0 - {len(CONTENT)} 0\n"
        else:
            encoded = "-".join(base64.b64encode(CONTENT[:size]).decode() for size in parts)
            result = f"AI4J:{mark[1]}:done 0 - {len(CONTENT)} 0\n{encoded}---.\n"
    return json.dumps({"exitCode": 0, "result": result}).encode()


def answers(head: bytes, body: bytes, port: int) -> Iterator[bytes]:
    method, path, *_ = head.split(b" ", 2)
    if path.endswith(b"/process/execute"):
        yield reply(200, executed(json.loads(body)["command"]))
    elif b"/files/download" in path:
        wanted = re.search(rb"bytes=(\d+)-(\d+)", head)
        first, last = (int(wanted[1]), int(wanted[2])) if wanted else (0, len(CONTENT) - 1)
        yield reply(206, CONTENT[first : last + 1])
    else:
        yield reply(404 if method == b"GET" else 200, json.dumps(sandbox(port)).encode())


def serve_one(sock: socket.socket, port: int) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with sock, sock.makefile("rb") as incoming:
        while (request := read_request(incoming)) is not None:
            try:
                for piece in answers(*request, port):
                    sock.sendall(piece)
            except OSError:
                return


def serve(listener: socket.socket, port: int) -> None:
    while True:
        sock, _ = listener.accept()
        threading.Thread(target=serve_one, args=(sock, port), daemon=True).start()


def main() -> None:
    """Serve, compare and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="processes for each figure of starting up")
    parser.add_argument("--calls", type=int, default=300, help="commands for the latency of one")
    options = parser.parse_args()
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    server = multiprocessing.get_context("fork").Process(target=partial(serve, listener, port), daemon=True)
    server.start()
    try:
        compare(DAYTONA, f"http://127.0.0.1:{port}", options.rounds, options.calls)
    finally:
        server.terminate()
        server.join()


if __name__ == "__main__":
    main()
