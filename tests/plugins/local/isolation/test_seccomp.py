"""The filter, run by a small interpreter of the kernel's instruction set."""

from __future__ import annotations

import errno
import socket
import struct

import pytest

from ai4j_sandbox_local.isolation.seccomp import (
    AARCH64,
    MACHINES,
    PRIVATE_NETWORK_FAMILIES,
    X86_64,
    Machine,
    seccomp_filter,
)

ALLOW = "allow"
I386 = 0x40000003


def decide(program: bytes, number: int, *arguments: int, audit: int) -> str:
    """Return what the kernel would do: ``"allow"``, or the name of the error."""
    data = struct.pack("=iIQ6Q", number, audit, 0, *arguments, *([0] * (6 - len(arguments))))
    steps = list(struct.iter_unpack("=HBBI", program))
    position = accumulator = 0
    while True:
        code, then, otherwise, operand = steps[position]
        position += 1
        if code == 0x20:  # load a word
            (accumulator,) = struct.unpack_from("=I", data, operand)
        elif code == 0x06:  # return
            return ALLOW if operand == 0x7FFF0000 else errno.errorcode[operand & 0xFFFF]
        else:
            holds = {0x15: accumulator == operand, 0x35: accumulator >= operand, 0x45: bool(accumulator & operand)}[
                code
            ]
            position += then if holds else otherwise


@pytest.fixture(params=MACHINES.values(), ids=MACHINES.keys())
def machine(request: pytest.FixtureRequest) -> Machine:
    return request.param


def test_every_refused_call_is_refused_and_its_neighbours_are_not(machine: Machine) -> None:
    program = seccomp_filter(machine, PRIVATE_NETWORK_FAMILIES)
    special = {machine.clone3: "ENOSYS", machine.socket: "EAFNOSUPPORT"}

    for number in range(500):
        expected = special.get(number, "EPERM" if number in machine.refused else ALLOW)
        assert decide(program, number, audit=machine.audit) == expected, number


@pytest.mark.parametrize(
    ("name", "x86_64", "aarch64"),
    [
        ("mount", 165, 40),
        ("umount2", 166, 39),
        ("pivot_root", 155, 41),
        ("chroot", 161, 51),
        ("unshare", 272, 97),
        ("setns", 308, 268),
        ("bpf", 321, 280),
        ("keyctl", 250, 219),
        ("add_key", 248, 217),
        ("request_key", 249, 218),
        ("userfaultfd", 323, 282),
        ("perf_event_open", 298, 241),
        ("open_by_handle_at", 304, 265),
        ("init_module", 175, 105),
        ("finit_module", 313, 273),
        ("delete_module", 176, 106),
        ("kexec_load", 246, 104),
        ("kexec_file_load", 320, 294),
        ("reboot", 169, 142),
        ("swapon", 167, 224),
        ("settimeofday", 164, 170),
        ("clock_settime", 227, 112),
        ("io_uring_setup", 425, 425),
        ("open_tree", 428, 428),
        ("mount_setattr", 442, 442),
    ],
)
def test_call_is_refused_by_its_number_on_both_architectures(name: str, x86_64: int, aarch64: int) -> None:
    assert (x86_64 in X86_64.refused, aarch64 in AARCH64.refused) == (True, True)


@pytest.mark.parametrize("flag", [0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000])
def test_clone_into_a_new_namespace_is_refused(machine: Machine, flag: int) -> None:
    program = seccomp_filter(machine, ())

    assert decide(program, machine.clone, flag | 17, audit=machine.audit) == "EPERM"


def test_clone_of_threads_and_processes_is_allowed(machine: Machine) -> None:
    program = seccomp_filter(machine, ())

    for flags in (17, 0x003D0F00, 0x01200011):  # fork, a thread, vfork as the C library does it
        assert decide(program, machine.clone, flags, audit=machine.audit) == ALLOW


def test_only_the_given_families_of_sockets_are_allowed(machine: Machine) -> None:
    program = seccomp_filter(machine, (socket.AF_INET,))

    assert decide(program, machine.socket, socket.AF_INET, audit=machine.audit) == ALLOW
    for family in (socket.AF_UNIX, socket.AF_NETLINK, socket.AF_PACKET, 38, 40):
        assert decide(program, machine.socket, family, audit=machine.audit) == "EAFNOSUPPORT"


def test_characters_cannot_be_put_into_a_terminal_s_input(machine: Machine) -> None:
    program = seccomp_filter(machine, ())

    assert decide(program, machine.ioctl, 0, 0x5412, audit=machine.audit) == "EPERM"  # TIOCSTI
    assert decide(program, machine.ioctl, 0, 0x541C, audit=machine.audit) == "EPERM"  # TIOCLINUX
    assert decide(program, machine.ioctl, 0, 0x5413, audit=machine.audit) == ALLOW  # TIOCGWINSZ


def test_numbers_of_another_convention_are_unknown_calls(machine: Machine) -> None:
    program = seccomp_filter(machine, ())

    assert decide(program, 1, audit=I386) == "ENOSYS"


def test_x32_call_is_unknown() -> None:
    assert decide(seccomp_filter(X86_64, ()), 0x40000000 | 165, audit=X86_64.audit) == "ENOSYS"
