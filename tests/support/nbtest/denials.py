"""Interpreters in whose processes the kernel denies what keeps a daemon's jobs in, as some distributions and containers do."""

from __future__ import annotations

import mmap
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from nbtest import proc

_FILTER = """
import ctypes, os, struct, sys
lines = {lines}
program = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *line) for line in lines))
libc = ctypes.CDLL(None)
libc.prctl(38, 1, 0, 0, 0)
if libc.prctl(22, 2, struct.pack("<H6xQ", len(lines), ctypes.addressof(program)), 0, 0):
    sys.exit("no filter can be had")
"""
_REFUSE, _ALLOW = 0x50000, 0x7FFF0000
_MMAP = {"x86_64": 9, "aarch64": 222}.get(os.uname().machine, -1)
NO_LANDLOCK = _FILTER.format(lines=[(0x20, 0, 0, 0), (0x15, 0, 1, 444), (6, 0, 0, _REFUSE | 38), (6, 0, 0, _ALLOW)])
"""landlock_create_ruleset(2) is ENOSYS, as where the kernel was built without it."""
NO_SHARED_MAPPING = _FILTER.format(
    lines=[
        *((0x20, 0, 0, 0), (0x15, 0, 3, _MMAP)),
        *((0x20, 0, 0, 40), (0x45, 0, 1, mmap.MAP_SHARED)),
        *((6, 0, 0, _REFUSE | 1), (6, 0, 0, _ALLOW)),
    ]
)
"""mmap(2) with MAP_SHARED is EPERM, as gVisor's is of a file that is sealed, and Linux's was before 6.7."""
WAYS = ("namespaces", "landlock", "neither")


def pythons(place: Path) -> dict[str, str]:
    """For each of WAYS, a Python in whose processes the kernel gives jobs no better, as some distributions' don't."""
    limit = "/proc/sys/user/max_user_namespaces"
    stub = place / "stub.py"
    stub.write_text(f"{NO_LANDLOCK}os.execv(sys.executable, [sys.executable, *sys.argv[1:]])\n")
    found = {"namespaces": sys.executable}
    for name, first in (("landlock", ""), ("neither", stub)):
        script = place / f"python-{name}"
        script.write_text(
            f'#!/bin/sh\nexec unshare -Ur sh -c \'echo 0 >{limit} && exec "$0" "$@"\' {sys.executable} {first} "$@"\n'
        )
        script.chmod(0o755)
        if subprocess.run([script, "-c", "pass"], check=False).returncode:
            pytest.skip("no namespace can be made here, so it can't be taken away either")
        found[name] = str(script)
    return found


GIVES_UIDS = """#!{python}
import ctypes, os, sys
ours, theirs = os.pipe()
if os.fork() == 0:
    # Outside, to write what root may: all ids, so that there are uids to give.
    os.read(ours, 1)
    for name in ("uid_map", "gid_map"):
        with open(f"/proc/{{os.getppid()}}/{{name}}", "w") as file:
            file.write("0 0 4294967295")
    os._exit(0)
if ctypes.CDLL(None).unshare(0x10000000):
    sys.exit("no namespace of users can be made")
os.write(theirs, b"!")
os.wait()
with open("/proc/sys/user/max_user_namespaces", "w") as file:
    file.write("0")
if {user}:
    os.setgroups([])
    os.setgid({user})
    os.setuid({user})
{more}
os.execv("{python}", ["{python}", *sys.argv[1:]])
"""


def with_users(place: Path, *, user: int = 0, landlock: bool = True) -> tuple[str, str]:
    """A Python whose processes get no namespaces, where users are who they are; and one that *user* may execute."""
    python = proc.interpreter_for(54321)
    if python is None:
        pytest.skip("no interpreter that an unprivileged user may execute")
    script = place / "python"
    script.write_text(GIVES_UIDS.format(python=python, user=user, more="" if landlock else NO_LANDLOCK))
    script.chmod(0o755)
    if subprocess.run([script, "-c", "pass"], check=False).returncode:
        pytest.skip("no namespace can be made here, so it can't be taken away either")
    return str(script), python


NEW = (
    b"memfd_create", b"MFD_CLOEXEC", b"MFD_ALLOW_SEALING", b"pidfd_open", b"pidfd_send_signal",
    b"F_ADD_SEALS", b"F_GET_SEALS", b"F_SEAL_SEAL", b"F_SEAL_SHRINK", b"F_SEAL_GROW", b"F_SEAL_WRITE",
)  # fmt: skip
"""What Python has only where the C library and the kernel's headers that it was built with were younger than 2018."""


def _without_what_is_new(source: Path, target: Path) -> None:
    """Copy a part of Python, with other names for what is new."""
    data = source.read_bytes()
    for name in NEW:
        data = data.replace(b"%b\0" % name, b"%b\0" % name.replace(b"_", b"-", 1))
    # Where libpython is a library of its own, it is that beside the copy.
    ours = f"{sys.base_prefix}/lib\0".encode()
    data = data.replace(ours, b"$ORIGIN/../lib".ljust(len(ours), b"\0"))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    shutil.copymode(source, target)


def linked_environment(place: Path, executable: Path | None = None) -> str:
    """An environment like this one, whose packages lie behind a link; of another Python, if *executable* is one."""
    behind = executable or Path(os.path.realpath(sys.executable))
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    (place / "bin").mkdir(parents=True)
    for name in ("python", "python3"):
        (place / "bin" / name).symlink_to(behind)
    (place / "lib" / version).mkdir(parents=True)
    (place / "lib" / version / "site-packages").symlink_to(sysconfig.get_path("purelib"))
    (place / "pyvenv.cfg").write_text(f"home = {behind.parent}\ninclude-system-site-packages = false\n")
    return str(place / "bin/python")


def older_python(place: Path) -> str:
    """This Python, in an environment like this one, as conda's are that were built with a C library of 2012."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    base, environment = place / "base", place / "environment"
    standard = Path(sysconfig.get_path("stdlib"))
    # Copied, since a daemon's jobs may read in the folders of their Python alone.
    beyond = shutil.ignore_patterns("test", "site-packages", "idlelib", "tkinter", "ensurepip", "lib2to3", "config-*")
    shutil.copytree(standard, base / "lib" / version, ignore=beyond)
    for each in (base / "lib" / version / "lib-dynload").glob("fcntl.*"):
        _without_what_is_new(standard / "lib-dynload" / each.name, each)
    for each in Path(sys.base_prefix, "lib").glob("libpython*.so*"):
        _without_what_is_new(each, base / "lib" / each.name)
    _without_what_is_new(Path(os.path.realpath(sys.executable)), base / "bin" / version)
    python = linked_environment(environment, base / "bin" / version)
    asks = "import fcntl, os, signal; print({*dir(fcntl), *dir(os), *dir(signal)} & set(%r))"
    assert proc.run(["-c", asks % [each.decode() for each in NEW]], python=python).stdout == "set()\n"
    return python
