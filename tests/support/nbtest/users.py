"""Real users: made, become, and removed again. All of it needs root."""

from __future__ import annotations

import errno
import os
import pickle
import pwd
import secrets
import shutil
import struct
import subprocess
import time
from contextlib import contextmanager

import pytest

NO_ID = 0xFFFFFFFF
USER_OBJ, USER, GROUP_OBJ, GROUP, MASK, OTHER = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
_ATTEMPTS = 50


class Accounts:
    """Makes accounts with names that nothing else has: a test that was killed may have left some."""

    def __init__(self):
        self.made = []

    def add(self, group=None):
        """Make a user with a group of the same name, or with ``group`` (a gid) as primary group; return the account."""
        name = f"nbt{secrets.token_hex(6)}"
        _change("useradd", "-M", *(("-U",) if group is None else ("-N", "-g", str(group))), name)
        self.made.append(name)
        return pwd.getpwnam(name)

    def remove(self):
        """Remove what was made, the last first: a group goes when it is nobody's any more."""
        for name in reversed(self.made):
            _change("userdel", name)


@contextmanager
def accounts():
    """Yield an Accounts; skip where there can be none."""
    if os.getuid() != 0:
        pytest.skip("needs root: makes users")
    if shutil.which("useradd") is None or shutil.which("userdel") is None:
        pytest.skip("needs useradd and userdel")
    made = Accounts()
    try:
        yield made
    finally:
        made.remove()


def _change(*command):
    for _ in range(_ATTEMPTS):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        # Another process of the suite holds the lock of the user database.
        if "lock" not in done.stderr:
            break
        time.sleep(0.1)
    assert done.returncode == 0, f"{command}: {done.stderr}"


def become(work, uid, gid, prepare=None):
    """Return what ``work()`` returns in a forked child of these ids; raise AssertionError with what it raises.

    ``prepare`` is called in the child first. Modules that ``work`` needs should be imported by now: the user may not be
    able to read them.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        said = (False, "nothing")
        try:
            os.close(reader)
            os.setgroups([])
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
            if prepare is not None:
                prepare()
            said = (True, work())
        except BaseException as error:
            said = (False, repr(error))
        finally:
            with open(writer, "wb") as answer:
                pickle.dump(said, answer)
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as answer:
        fine, result = pickle.load(answer)
    os.waitpid(child, 0)
    assert fine, result
    return result


def may_write(path, uid, gid):
    """Whether a process of these ids can really write to a file, or make one in a directory."""

    def write():
        try:
            if os.path.isdir(path):
                os.close(os.open(f"{path}/.tried", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                os.unlink(f"{path}/.tried")
            else:
                os.close(os.open(path, os.O_WRONLY))
        except PermissionError:
            return False
        return True

    return become(write, uid, gid)


def set_acl(path, entries, name=ACCESS):
    """Give a file an access control list: (tag, permissions, id) of each entry, in any order. Skips where there are none."""
    data = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in sorted(entries))
    try:
        os.setxattr(path, name, data)
    except OSError as error:
        if error.errno != errno.ENOTSUP:
            raise
        pytest.skip("this filesystem has no access control lists")
