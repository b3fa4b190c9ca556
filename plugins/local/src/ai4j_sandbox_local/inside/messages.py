"""Messages between host and agent: JSON with descriptors, over sockets that keep message borders.

An empty message means that the JSON is in the first descriptor that came along, because it was too long.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import struct
from typing import Any

LONGEST_INLINE = 32 * 1024


def pack(payload: dict[str, Any]) -> tuple[bytes, list[int]]:
    """Return the message for `payload`, and the descriptor that holds it when it is too long for one."""
    data = json.dumps(payload).encode()
    if len(data) <= LONGEST_INLINE:
        return data, []
    carrier = os.memfd_create("message")
    with open(carrier, "wb", closefd=False) as file:
        file.write(data)
    return b"", [carrier]


def unpack(message: bytes, descriptors: list[int]) -> Any:
    """Return the payload of a message; takes its carrier out of `descriptors`."""
    if message:
        return json.loads(message)
    with open(descriptors.pop(0), "rb") as carrier:
        carrier.seek(0)
        return json.loads(carrier.read())


def receive(channel: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Return the next request with its descriptors, or ``None`` at the end."""
    size = struct.calcsize("i")
    message, ancillary, _, _ = channel.recvmsg(2 * LONGEST_INLINE, socket.CMSG_SPACE(8 * size), socket.MSG_CMSG_CLOEXEC)
    descriptors: list[int] = []
    for _, kind, data in ancillary:
        if kind == socket.SCM_RIGHTS:
            descriptors += struct.unpack(f"{len(data) // size}i", data)
    return (unpack(message, descriptors), descriptors) if descriptors else None


def answer(reply: socket.socket, payload: dict[str, Any], *descriptors: int) -> None:
    """Send an answer; a host that no longer listens is fine."""
    message, carriers = pack(payload)
    with contextlib.suppress(OSError):
        socket.send_fds(reply, [message], [*carriers, *descriptors])
    for carrier in carriers:
        os.close(carrier)


def refusal(error: Exception) -> dict[str, Any]:
    """Describe why a request could not be met: by the operating system's error, or the nearest to what it was."""
    if isinstance(error, RecursionError):
        return refusal(OSError(errno.ELOOP, "Directories are nested too deeply"))
    if not isinstance(error, OSError):
        return refusal(OSError(errno.EINVAL, f"{type(error).__name__}: {error}"))
    return {"error": errno.errorcode.get(error.errno or 0, "EIO"), "message": error.strerror or str(error)}
