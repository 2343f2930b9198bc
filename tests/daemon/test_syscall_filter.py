"""The filter of system calls, for each kind of machine: what it refuses, and that its numbers are the kernel's."""

import errno
import re
import struct
from pathlib import Path

import pytest

from nbcache.daemon import linux_calls

HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    # AArch64 has the numbers that are common to all later machines.
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
NAMES = {
    "clone": "clone", "unshare": "unshare", "socket": "socket", "socketpair": "socketpair", "prlimit": "prlimit64",
}  # fmt: skip
KEYRINGS = ("add_key", "request_key", "keyctl")
ATTRIBUTES = {
    "chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchown", "fchownat", "utime", "utimes", "utimensat",
    "futimesat", "setxattr", "lsetxattr", "fsetxattr", "setxattrat", "removexattr", "lremovexattr", "fremovexattr",
    "removexattrat",
}  # fmt: skip
NEW = {"fchmodat2": 452, "setxattrat": 463, "removexattrat": 466}
"""Those that headers may not have yet; newer calls have the same numbers everywhere."""
AUDIT = {"x86_64": 62 | 0xC0000000, "aarch64": 183 | 0xC0000000}
"""AUDIT_ARCH_*: ELF's number of the machine, 64 bits, little-endian."""
ALLOWED, REFUSED, ABSENT = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS


def numbers_of(machine):
    """The system calls in the kernel's header, by name."""
    found = re.findall(r"^#define __NR(?:3264)?_(\w+)\s+(\d+)", HEADERS[machine].read_text(), re.MULTILINE)
    return {name: int(number) for name, number in found} | NEW


def answer(program, machine, number, *arguments):
    """What a program of seccomp(2) returns for a call, by the few instructions that ours has."""
    data = struct.pack("<IIQ6Q", number, machine, 0, *arguments, *[0] * (6 - len(arguments)))
    lines = list(struct.iter_unpack("<HBBI", program))
    at = held = 0
    while True:
        code, yes, no, value = lines[at]
        if code == 0x06:
            return value
        if code == 0x20:
            (held,) = struct.unpack_from("<I", data, value)
        elif code == 0x54:
            held &= value
        else:
            meets = {0x15: held == value, 0x35: held >= value, 0x45: bool(held & value)}[code]
            at += yes if meets else no
        at += 1


@pytest.mark.parametrize("machine", HEADERS)
def test_numbers_are_the_kernels(machine):
    if not HEADERS[machine].exists():
        pytest.skip("the kernel's headers aren't installed")
    kernels, ours = numbers_of(machine), linux_calls._NUMBERS[machine]
    assert {field: getattr(ours, field) for field in NAMES} == {field: kernels[name] for field, name in NAMES.items()}
    assert ours.keyrings == tuple(kernels[name] for name in KEYRINGS)
    assert set(ours.attributes) == {kernels[name] for name in ATTRIBUTES & kernels.keys()}
    assert (kernels["io_uring_setup"], kernels["clone3"]) == (linux_calls._IO_URING_SETUP, linux_calls._CLONE3)
    assert kernels["mount_setattr"] == linux_calls._MOUNT_SETATTR


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("machine", HEADERS)
def test_what_leads_out_is_refused(machine, alone):
    ours = linux_calls._NUMBERS[machine]
    program = linux_calls._assembled(linux_calls._filter(ours, alone=alone))
    here = AUDIT[machine]

    def said(number, *arguments):
        return answer(program, here, number, *arguments)

    for number in (*ours.keyrings, linux_calls._IO_URING_SETUP):
        assert said(number) == REFUSED
    assert said(linux_calls._CLONE3) == ABSENT
    for call in (ours.clone, ours.unshare):
        assert said(call, linux_calls.NEW_PID) == ALLOWED
        assert said(call, linux_calls.NEW_USER | linux_calls.NEW_PID) == REFUSED
    assert [said(ours.socket, family) for family in (1, 2, 10, 16, 17)] == [REFUSED, *[ALLOWED] * 3, REFUSED]
    stream, datagram, not_inherited = 1, 2, 0o2000000
    assert said(ours.socketpair, 1, stream | not_inherited) == ALLOWED
    assert said(ours.socketpair, 1, datagram) == REFUSED
    assert [said(ours.prlimit, pid) for pid in (0, 1234)] == [ALLOWED, ALLOWED if alone else REFUSED]
    assert {said(number) for number in ours.attributes} == {ALLOWED if alone else REFUSED}
    # The machine's other calling conventions, and other machines', have other numbers.
    assert said(ours.foreign | 1) == REFUSED
    assert {answer(program, other, 1) for other in AUDIT.values() if other != here} == {REFUSED}
    others = set(range(500)) - {*ours.keyrings, *ours.attributes, ours.clone, ours.unshare, ours.socket}
    others -= {ours.socketpair, ours.prlimit, linux_calls._IO_URING_SETUP, linux_calls._CLONE3}
    assert {said(number) for number in others} == {ALLOWED}
