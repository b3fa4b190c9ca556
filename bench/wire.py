"""Speed of the wire against a canned loopback server in a process of its own.

Run: ``python bench/wire.py [megabytes] [calls]``. Prints, for each codec, the throughput of one command's output when
the result keeps all of it and when it keeps 1 MB, the latency of a command that does nothing, and the same for one
byte frames.
"""

from __future__ import annotations

import base64
import multiprocessing
import resource
import socket
import statistics
import sys
import time
from collections.abc import Iterator

from ai4j_sandbox.deadline import Deadline
from ai4j_sandbox.model import SandboxCommand
from ai4j_sandbox.process import ProcessContext, SandboxProcess
from ai4j_sandbox_wire.base_url import BaseUrl
from ai4j_sandbox_wire.connect import Codec, encode_envelope
from ai4j_sandbox_wire.direct import DirectTransport
from ai4j_sandbox_wire.envd import StartRequest
from ai4j_sandbox_wire.envd_client import EnvdClient, EnvdOptions
from ai4j_sandbox_wire.http import HttpClient
from ai4j_sandbox_wire.process_channel import Launch, launch
from ai4j_sandbox_wire.protobuf import bytes_field, number_field

FRAME_BYTES = 32 * 1024
END = encode_envelope(b"{}", end_of_stream=True)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def frames(codec: Codec, data: bytes) -> tuple[bytes, bytes, bytes]:
    """Start, one data frame and the end, each as an HTTP chunk."""
    if codec is Codec.JSON:
        start = b'{"event":{"start":{"pid":7}}}'
        output = b'{"event":{"data":{"stdout":"' + base64.b64encode(data) + b'"}}}'
        end = b'{"event":{"end":{"exited":true,"status":"exit status 0"}}}'
    else:
        start = bytes_field(1, bytes_field(1, number_field(1, 7)))
        output = bytes_field(1, bytes_field(2, bytes_field(1, data)))
        end = bytes_field(1, bytes_field(3, number_field(2, 1) + bytes_field(3, "exit status 0")))
    return chunk(encode_envelope(start)), chunk(encode_envelope(output)), chunk(encode_envelope(end)) + chunk(END)


def serve(listener: socket.socket) -> None:
    """Answer each Start with as much output as its ``X-Frames`` and ``X-Size`` headers ask for."""
    while True:
        sock, _ = listener.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        held = b""
        while data := sock.recv(65536):
            held += data
            head, separator, body = held.partition(b"\r\n\r\n")
            headers = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
            if separator and len(body) >= int(headers[b"content-length"]):
                held = b""
                sock.sendall(b"".join(answer(headers)) if headers[b"x-frames"] == b"0" else b"")
                if headers[b"x-frames"] != b"0":
                    for piece in answer(headers):
                        sock.sendall(piece)
        sock.close()


def answer(headers: dict[bytes, bytes]) -> Iterator[bytes]:
    codec = Codec.JSON if headers[b"content-type"].endswith(b"json") else Codec.BINARY
    start, output, end = frames(codec, b"x" * int(headers[b"x-size"]))
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {codec.stream_type}\r\nTransfer-Encoding: chunked\r\n\r\n"
    yield head.encode() + start
    count = int(headers[b"x-frames"])
    batch = max(1, min(count, 64 * 1024 // len(output)))
    for _ in range(count // batch):
        yield output * batch
    yield output * (count % batch) + end + b"0\r\n\r\n"


def run(client: EnvdClient, *, keep: int) -> int:
    """One command, as a session runs it; return how much it wrote."""
    command = SandboxCommand(command="true", output_limit_bytes=keep)
    launching = Launch(request=StartRequest(program="/bin/true"), command_id=command.command_id)
    channel = launch(client, launching, Deadline(None))
    result = SandboxProcess(command, channel, ProcessContext()).wait()
    assert result.exit_code == 0
    return result.stdout_total_bytes


def client_for(url: str, codec: Codec, transport: DirectTransport, count: int, size: int) -> EnvdClient:
    http = HttpClient(
        BaseUrl.parse(url),
        headers=lambda: {"X-Frames": str(count), "X-Size": str(size)},
        send=transport.send,
        open_stream=transport.open,
    )
    return EnvdClient(http, EnvdOptions(codec=codec))


def throughput(url: str, codec: Codec, megabytes: int, keep: int) -> tuple[float, float]:
    """MB/s and CPU seconds per MB, best of three."""
    transport = DirectTransport()
    client = client_for(url, codec, transport, megabytes * 1_000_000 // FRAME_BYTES, FRAME_BYTES)
    best = (0.0, 0.0)
    for _ in range(3):
        began, cpu = time.perf_counter(), time.process_time()
        total = run(client, keep=keep) / 1e6
        speed = total / (time.perf_counter() - began)
        best = max(best, (speed, (time.process_time() - cpu) / total))
    transport.close()
    return best


def main(megabytes: int = 200, calls: int = 500) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    server = multiprocessing.get_context("fork").Process(target=serve, args=(listener,), daemon=True)
    server.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    for codec in Codec:
        transport = DirectTransport()
        idle = client_for(url, codec, transport, 0, 1)
        times = []
        for _ in range(calls):
            began = time.perf_counter()
            run(idle, keep=1 << 20)
            times.append((time.perf_counter() - began) * 1000)
        tiny = client_for(url, codec, transport, 100_000, 1)
        began = time.perf_counter()
        run(tiny, keep=1 << 20)
        print(f"{codec.value}: no-op median {statistics.median(times):.2f} ms, "
              f"100000 one-byte frames {time.perf_counter() - began:.2f} s")  # fmt: skip
        transport.close()
        for name, keep in (("limited to 1 MB", 1_000_000), ("kept", 10**9)):
            speed, cpu = throughput(url, codec, megabytes, keep)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            print(f"  {megabytes} MB {name}: {speed:.0f} MB/s, {cpu:.4f} CPU s/MB, peak RSS so far {peak} MB")
    server.terminate()
    server.join()


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
