"""A seccomp filter as bytes: which system calls a sandbox may not make. Pure; the kernel reads the result.

The program is classic BPF over ``struct seccomp_data`` (linux/seccomp.h): call number, architecture, arguments.
Everything that is not named here is allowed. What is refused fails with EPERM, so that programs report it, except:

* ``clone3`` fails with ENOSYS: its flags lie in memory a filter cannot see; the C library then uses ``clone``.
* ``socket`` of a family outside the allowed ones fails with EAFNOSUPPORT, as on a kernel without that family.
* Calls in a foreign convention (32 bit, x32) fail with ENOSYS: their numbers mean something else.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

# linux/bpf_common.h, linux/seccomp.h
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER, _ARCHITECTURE = 0, 4
_X32_CALLS = 0x40000000  # asm/unistd.h, __X32_SYSCALL_BIT

_NEW_NAMESPACE_FLAGS = 0x7E020000  # CLONE_NEW{NS,CGROUP,UTS,IPC,USER,PID,NET}
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C  # put characters into a terminal's input


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One architecture's identity and system call numbers.

    Attributes:
        audit: ``AUDIT_ARCH_…`` of linux/audit.h.
        refused: Calls nobody inside needs: mounting, namespaces, kernel modules, kernel keys, other kernel interfaces
            with a history of holes.
    """

    audit: int
    socket: int
    clone: int
    clone3: int
    ioctl: int
    refused: tuple[int, ...]
    has_x32: bool = False


# Calls with one number on every architecture (asm-generic/unistd.h from 424 on).
_MODERN = (
    425, 426, 427,  # io_uring_setup, io_uring_enter, io_uring_register
    428, 429, 430, 431, 432, 433,  # open_tree, move_mount, fsopen, fsconfig, fsmount, fspick
    442, 443,  # mount_setattr, quotactl_fd
)  # fmt: skip

X86_64 = Machine(
    audit=0xC000003E,
    socket=41,
    clone=56,
    clone3=435,
    ioctl=16,
    has_x32=True,
    refused=(
        *_MODERN,
        103, 134, 139, 153, 154, 155,  # syslog, uselib, sysfs, vhangup, modify_ldt, pivot_root
        156, 159, 161, 163, 164,  # _sysctl, adjtimex, chroot, acct, settimeofday
        165, 166, 167, 168, 169, 170, 171,  # mount, umount2, swapon, swapoff, reboot, sethostname, setdomainname
        172, 173, 174, 175, 176, 177,  # iopl, ioperm, create_module, init_module, delete_module, get_kernel_syms
        178,  # query_module
        179, 180, 212, 227,  # quotactl, nfsservctl, lookup_dcookie, clock_settime
        246, 248, 249, 250, 272,  # kexec_load, add_key, request_key, keyctl, unshare
        298, 303, 304, 305, 308,  # perf_event_open, name_to_handle_at, open_by_handle_at, clock_adjtime, setns
        313, 320, 321, 323,  # finit_module, kexec_file_load, bpf, userfaultfd
    ),
)  # fmt: skip

AARCH64 = Machine(
    audit=0xC00000B7,
    socket=198,
    clone=220,
    clone3=435,
    ioctl=29,
    refused=(
        *_MODERN,
        18, 39, 40, 41, 42, 51, 58,  # lookup_dcookie, umount2, mount, pivot_root, nfsservctl, chroot, vhangup
        60, 89, 97, 104, 105, 106,  # quotactl, acct, unshare, kexec_load, init_module, delete_module
        112, 116, 142, 161, 162,  # clock_settime, syslog, reboot, sethostname, setdomainname
        170, 171,  # settimeofday, adjtimex
        217, 218, 219, 224, 225,  # add_key, request_key, keyctl, swapon, swapoff
        241, 264, 265, 266, 268,  # perf_event_open, name_to_handle_at, open_by_handle_at, clock_adjtime, setns
        273, 280, 282, 294,  # finit_module, bpf, userfaultfd, kexec_file_load
    ),
)  # fmt: skip

MACHINES = {"x86_64": X86_64, "aarch64": AARCH64}
"""Machine by the name that ``os.uname().machine`` gives it."""

PRIVATE_NETWORK_FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)
"""Families that are harmless where the network namespace is the sandbox's own."""

SHARED_NETWORK_FAMILIES = (socket.AF_INET, socket.AF_INET6)
"""Families for a network that is the host's: without local sockets, behind which are the host's services."""


class _Step(NamedTuple):
    """One instruction. A test goes to the block named `then` or `otherwise`; without a name, to the next step."""

    code: int
    operand: int
    then: str | None = None
    otherwise: str | None = None


def seccomp_filter(machine: Machine, socket_families: Iterable[int]) -> bytes:
    """Return the filter for one architecture, as an array of ``struct sock_filter``.

    Args:
        machine: Whose call numbers to use.
        socket_families: Address families that ``socket`` may open; ``socketpair`` is not limited.
    """
    return _assembled(_blocks(machine, socket_families))


def _blocks(machine: Machine, families: Iterable[int]) -> dict[str, list[_Step]]:
    """The program in named blocks, in order; every block but the last ones ends in a jump or a return."""
    x32 = [_Step(_JUMP_AT_LEAST, _X32_CALLS, "unknown call")] if machine.has_x32 else []
    return {
        "start": [
            _Step(_LOAD, _ARCHITECTURE),
            _Step(_JUMP_EQUAL, machine.audit, otherwise="unknown call"),
            _Step(_LOAD, _NUMBER),
            *x32,
            _Step(_JUMP_EQUAL, machine.clone3, "unknown call"),
            _Step(_JUMP_EQUAL, machine.clone, "clone"),
            _Step(_JUMP_EQUAL, machine.socket, "socket"),
            _Step(_JUMP_EQUAL, machine.ioctl, "ioctl"),
            *(_Step(_JUMP_EQUAL, number, "refuse") for number in machine.refused),
            _Step(_RETURN, _ALLOW),
        ],
        "clone": [_Step(_LOAD, _argument(0)), _Step(_JUMP_ANY_BIT, _NEW_NAMESPACE_FLAGS, "refuse", "allow")],
        "socket": [
            _Step(_LOAD, _argument(0)),
            *(_Step(_JUMP_EQUAL, family, "allow") for family in families),
            _Step(_RETURN, _ERRNO | errno.EAFNOSUPPORT),
        ],
        "ioctl": [
            _Step(_LOAD, _argument(1)),
            _Step(_JUMP_EQUAL, _TIOCSTI, "refuse"),
            _Step(_JUMP_EQUAL, _TIOCLINUX, "refuse", "allow"),
        ],
        "refuse": [_Step(_RETURN, _ERRNO | errno.EPERM)],
        "unknown call": [_Step(_RETURN, _ERRNO | errno.ENOSYS)],
        "allow": [_Step(_RETURN, _ALLOW)],
    }


def _argument(index: int) -> int:
    """Offset of the low word of a call's argument, on a little-endian machine."""
    return 16 + 8 * index


def _assembled(blocks: dict[str, list[_Step]]) -> bytes:
    starts: dict[str, int] = {}
    steps: list[_Step] = []
    for name, block in blocks.items():
        starts[name] = len(steps)
        steps += block

    def distance(position: int, label: str | None) -> int:
        return 0 if label is None else starts[label] - position - 1

    return b"".join(
        struct.pack("=HBBI", step.code, distance(at, step.then), distance(at, step.otherwise), step.operand)
        for at, step in enumerate(steps)
    )
