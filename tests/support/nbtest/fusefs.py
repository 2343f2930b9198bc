"""A file server in a process of its own: a folder seen through FUSE, which fails, hangs or changes owners on command.

Needs root, /dev/fuse, Debian's package libfuse3-3 and ``pip install mfusepy``.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nbtest import daemons

if TYPE_CHECKING:
    from collections.abc import Iterator

NOBODY = 65534


class Server:
    """What is behind a mount. A command holds until the next one."""

    def __init__(self, point: Path, commands: Path) -> None:
        """Of what is mounted at *point*."""
        self.point = point
        self._commands = commands

    def be(self, command: str) -> None:
        """Be ``well``; ``hang``; fail with an ``errno`` by its name; or show files as those of ``uid N``."""
        beside = self._commands.with_suffix(".new")
        beside.write_text(command)
        beside.replace(self._commands)


@contextmanager
def mounted(folder: Path, source: Path) -> Iterator[Server]:
    """Mount what lies in *source* at ``folder/mount``, for all users; skip the test where that can't be."""
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
        pytest.skip("needs root and /dev/fuse")
    try:
        import mfusepy  # noqa: F401
    except (ImportError, OSError) as error:
        pytest.skip(f"needs libfuse3-3 and mfusepy: {error}")
    point, commands = folder / "mount", folder / "commands"
    point.mkdir()
    made = Server(point, commands)
    made.be("well")
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    log = (folder / "server.log").open("w")
    process = subprocess.Popen([sys.executable, __file__, source, point, commands], stdout=log, stderr=log, env=env)
    try:
        daemons.wait_for(lambda: os.path.ismount(point) or process.poll() is not None)
        if process.poll() is not None:
            pytest.skip(f"can't mount: {(folder / 'server.log').read_text()}")
        yield made
    finally:
        made.be("well")
        subprocess.run(["umount", "-l", point], check=False, capture_output=True)
        process.kill()
        process.wait()
        log.close()


def _serve(source: str, point: str, commands: str) -> None:
    import mfusepy as fuse

    def commanded(operation):
        """Have an operation do what the command says, on what it names in the folder."""

        def call(self, path, *args, **named):
            while (command := Path(commands).read_text()) == "hang":
                time.sleep(0.02)
            if hasattr(errno, command):
                raise fuse.FuseOSError(getattr(errno, command))
            self.uid = int(command.partition(" ")[2]) if command.startswith("uid") else None
            try:
                return operation(self, source + path, *args, **named)
            except OSError as error:
                raise fuse.FuseOSError(error.errno) from error

        return call

    class Folder(fuse.Operations):
        def __init_subclass__(cls):
            for name, each in vars(cls.__base__).items():
                if callable(each) and not name.startswith("_"):
                    setattr(cls, name, commanded(each))

        def access(self, path, mode):
            return 0

        def getattr(self, path, fh=None):
            status = os.lstat(path)
            names = ("atime", "ctime", "mtime", "gid", "mode", "nlink", "size", "uid")
            found = {f"st_{name}": getattr(status, f"st_{name}") for name in names}
            if self.uid is not None:
                found["st_uid"] = found["st_gid"] = self.uid
            return found

        def readdir(self, path, fh):
            return [".", "..", *os.listdir(path)]

        def opendir(self, path):
            return 0

        def releasedir(self, path, fh):
            return 0

        def _opened(self, path, flags, mode=0o600):
            return os.open(path, flags & ~(os.O_NOFOLLOW | os.O_APPEND), mode)

        def open(self, path, flags):
            return self._opened(path, flags)

        def create(self, path, mode, fi=None):
            return self._opened(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)

        def read(self, path, size, offset, fh):
            return os.pread(fh, size, offset)

        def write(self, path, data, offset, fh):
            return os.pwrite(fh, data, offset)

        def truncate(self, path, length, fh=None):
            os.truncate(path, length)

        def flush(self, path, fh):
            return 0

        def release(self, path, fh):
            os.close(fh)

        def fsync(self, path, datasync, fh):
            os.fsync(fh)

        def fsyncdir(self, path, datasync, fh):
            return 0

        def mkdir(self, path, mode):
            os.mkdir(path, mode)

        def rmdir(self, path):
            os.rmdir(path)

        def unlink(self, path):
            os.unlink(path)

        def rename(self, old, new, flags=0):
            os.rename(old, source + new)

        def chmod(self, path, mode):
            os.chmod(path, mode)

        def chown(self, path, uid, gid):
            if self.uid is None:
                os.lchown(path, uid, gid)

        def utimens(self, path, times=None):
            os.utime(path, times)

        def link(self, target, name):
            os.link(source + name, target)

        def readlink(self, path):
            return os.readlink(path)

        def symlink(self, target, name):
            os.symlink(name, target)

        def statfs(self, path):
            found = os.statvfs(path)
            return {name: getattr(found, name) for name in dir(found) if name.startswith("f_") and name != "f_fsid"}

        def getxattr(self, path, name, position=0):
            raise OSError(errno.ENOTSUP, name)

        def listxattr(self, path):
            return []

    class Commanded(Folder):
        pass

    fuse.FUSE(Commanded(), point, foreground=True, nothreads=False, allow_other=True, default_permissions=True)


if __name__ == "__main__":
    _serve(*sys.argv[1:])
