"""What the benchmarks against official SDKs share: a canned loopback server, and figures taken of both sides in turn.

Every figure is taken in processes of their own, ours and theirs in turn, and printed as a ratio with the aim that
goes with it.
"""

from __future__ import annotations

import argparse
import base64
import json
import multiprocessing
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FRAME_BYTES = 32 * 1024  # the most that envd puts into one event
MEGABYTES = 200
SIDES = ("ours", "theirs")


@dataclass(frozen=True, kw_only=True)
class Contest:
    """Two sides and what is expected of ours.

    Attributes:
        program: Module that takes one figure of one side (`figures.take`).
        imports: How each side is imported.
        environ: The variables that lead both sides to a URL.
        sandbox: What the server answers to a creation.
        aims: What is printed beside a figure: ``import``, ``first``, ``no-op``, ``text``, ``bytes``, ``limit``, and
            with ``memory`` or ``peak`` behind it the memory of the latter three.
    """

    program: str
    imports: Mapping[str, str]
    environ: Callable[[str], Mapping[str, str]]
    sandbox: Mapping[str, Any]
    aims: Mapping[str, str]


# --- the server: canned answers, so that it is not what is measured ----------------------------------------------


def envelope(document: dict[str, Any], flags: int = 0) -> bytes:
    payload = json.dumps(document, separators=(",", ":")).encode()
    return flags.to_bytes(1) + len(payload).to_bytes(4) + payload


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


START = chunk(envelope({"event": {"start": {"pid": 7}}}))
OUTPUT = chunk(envelope({"event": {"data": {"stdout": base64.b64encode(b"x" * FRAME_BYTES).decode()}}}))
EIGHT_OUTPUTS = OUTPUT * 8
END = chunk(envelope({"event": {"end": {"exited": True, "status": "exit status 0"}}})) + chunk(envelope({}, 2))
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/connect+json\r\nTransfer-Encoding: chunked\r\n\r\n"


def reply(status: int, body: bytes = b"") -> bytes:
    length = b"" if status == 204 else b"Content-Length: %d\r\n" % len(body)
    return b"HTTP/1.1 %d Canned\r\nContent-Type: application/json\r\n%b\r\n%b" % (status, length, body)


def answers(head: bytes, body: bytes, sandbox: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the answer to one request, in pieces that are sent one by one."""
    method, path, *_ = head.split(b" ", 2)
    if path.endswith(b"/Start"):
        frames = MEGABYTES * 1_000_000 // FRAME_BYTES if b"flood" in body else 0
        if not frames:
            yield STREAM_HEAD + START + END + b"0\r\n\r\n"
            return
        yield STREAM_HEAD + START
        for _ in range(frames // 8):
            yield EIGHT_OUTPUTS
        yield OUTPUT * (frames % 8) + END + b"0\r\n\r\n"
    elif method == b"POST":
        yield reply(201, json.dumps(sandbox).encode())
    else:
        yield reply(204)


def read_request(incoming: Any) -> tuple[bytes, bytes] | None:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = incoming.readline()
        if not line:
            return None
        head += line
    lowered = head.lower()
    if b"transfer-encoding: chunked" not in lowered:
        length = lowered.partition(b"content-length:")[2].partition(b"\r\n")[0]
        return head, incoming.read(int(length or 0))
    body = b""
    while size := int(incoming.readline(), 16):
        body += incoming.read(size)
        incoming.readline()
    incoming.readline()
    return head, body


def serve_one(sock: socket.socket, sandbox: Mapping[str, Any]) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with sock, sock.makefile("rb") as incoming:
        while (request := read_request(incoming)) is not None:
            try:
                for piece in answers(*request, sandbox):
                    sock.sendall(piece)
            except OSError:
                return


def serve(listener: socket.socket, sandbox: Mapping[str, Any]) -> None:
    while True:
        sock, _ = listener.accept()
        threading.Thread(target=serve_one, args=(sock, sandbox), daemon=True).start()


# --- the comparison -----------------------------------------------------------------------------------------------


def child(arguments: list[str], environ: Mapping[str, str]) -> tuple[float, dict[str, float]]:
    """Run a process; return how long it took and what it printed."""
    whole = {
        **os.environ,
        **environ,
        "PYTHONPATH": str(Path(__file__).parents[1]),
        "AI4J_SANDBOX_DISABLED_PLUGINS": "otel",  # an observer that happens to be installed is not compared
        "PYTHONWARNINGS": "ignore",
        "PYTHONDONTWRITEBYTECODE": "",  # what is installed is compiled once, not at each start
    }
    began = time.perf_counter()
    done = subprocess.run([sys.executable, *arguments], env=whole, capture_output=True, text=True, check=False)
    taken = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(done.stderr)
    return taken, json.loads(done.stdout) if done.stdout.strip() else {}


def alternated(work: Callable[[str], dict[str, float]], rounds: int) -> dict[str, dict[str, float]]:
    """Return the median of each figure of both sides, measured in turn."""
    taken: dict[str, list[dict[str, float]]] = {name: [] for name in SIDES}
    for _ in range(rounds):
        for name in SIDES:
            taken[name].append(work(name))
    return {
        name: {figure: statistics.median(each[figure] for each in figures) for figure in figures[0]}
        for name, figures in taken.items()
    }


def row(title: str, unit: str, scale: float, figures: dict[str, dict[str, float]], figure: str, aim: str) -> None:
    mine, other = figures["ours"][figure] * scale, figures["theirs"][figure] * scale
    ratio = f"{mine / other:.2f}" if other > 0.005 else "-"
    print(f"{title:34} {mine:9.2f} {other:9.2f} {unit:8} {ratio:>6}   {aim}")


def compare(contest: Contest, url: str, rounds: int, calls: int) -> None:
    environ, aims = contest.environ(url), contest.aims

    def importing(name: str) -> dict[str, float]:
        code = f"import time; began = time.perf_counter(); {contest.imports[name]}; taken = time.perf_counter() - began"
        code += "; print('{\"seconds\": %f}' % taken)"
        return child(["-c", code], environ)[1]

    def measuring(what: str, repeat: int = 1) -> Callable[[str], dict[str, float]]:
        return lambda name: child(["-m", contest.program, name, what, str(repeat)], environ)[1]

    def first(name: str) -> dict[str, float]:
        return {"seconds": child(["-m", contest.program, name, "first"], environ)[0]}

    print(f"{'':34} {'ours':>9} {'SDK':>9} {'':8} {'ratio':>6}   aim")
    row("import", "ms", 1000, alternated(importing, rounds), "seconds", aims.get("import", ""))
    row("process start to first command", "ms", 1000, alternated(first, rounds), "seconds", aims.get("first", ""))
    row("no-op command", "ms", 1000, alternated(measuring("no-op", calls), rounds), "seconds", aims.get("no-op", ""))
    for what, title in (("text", "kept, as text"), ("bytes", "kept, as bytes"), ("limit", "limited to 1 MB")):
        figures = alternated(measuring(what), 3)
        row(f"{MEGABYTES} MB {title}", "s", 1, figures, "seconds", aims.get(what, ""))
        row("  CPU per MB", "ms", 1000, figures, "cpu", "")
        row("  memory above idle", "MB", 1, figures, "memory", aims.get(f"{what} memory", ""))
        row("  peak memory", "MB", 1, figures, "peak", aims.get(f"{what} peak", ""))


def main(contest: Contest, description: str | None) -> None:
    """Serve, compare and print."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=7, help="processes for each figure of starting up")
    parser.add_argument("--calls", type=int, default=300, help="commands for the latency of one")
    options = parser.parse_args()
    listener = socket.create_server(("127.0.0.1", 0))
    context = multiprocessing.get_context("fork")
    server = context.Process(target=serve, args=(listener, contest.sandbox), daemon=True)
    server.start()
    try:
        compare(contest, f"http://127.0.0.1:{listener.getsockname()[1]}", options.rounds, options.calls)
    finally:
        server.terminate()
        server.join()
