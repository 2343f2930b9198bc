"""Writing a file so that a reader sees the old one or the new one, never a part.

The bytes go to a temporary name in the same directory (a rename across filesystems isn't atomic), are flushed to
the disk, and only then get their name. A process killed at any point leaves at most a temporary behind, which
:func:`nbcache.store.listing.sweep` removes later.

The temporary's name holds host, pid and 64 random bits: on a shared filesystem a pid alone isn't unique, and neither is
``O_EXCL`` on old NFS. What others may do is what the process's umask leaves of the modes below, or what NBCACHE_UMASK
leaves: entries hold values of globals, and requests pickled data. None of these modes lets others write a file.

Every system call goes through :data:`SYS`, so that tests can make each of them fail or kill the process there.
"""

from __future__ import annotations

import errno
import stat
from collections.abc import Iterable
from typing import Final

from nbcache import regular_files
from nbcache.passing_exceptions import let_pass, suppressed
from nbcache.process import opened, os
from nbcache.store.layout import DIR_MODE, DROP_MODE, FILE_MODE, TEMPORARY, UMASK, unique

_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# What link(2) answers where there are no hard links: EPERM on vfat and some FUSE, the others elsewhere.
_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EXDEV, errno.EMLINK})
# What fsync(2) answers for a directory on filesystems that can't: nothing is to be done about it there.
_NO_FSYNC: Final = frozenset({errno.EINVAL, errno.EBADF, errno.ENOSYS, errno.EOPNOTSUPP, errno.EACCES, errno.EIO})


class Syscalls:
    """The system calls of writing, one method each, in the order they are made."""

    mkdir = staticmethod(os.mkdir)
    open = staticmethod(os.open)
    write = staticmethod(regular_files.write)
    fchmod = staticmethod(os.fchmod)
    fsync = staticmethod(os.fsync)
    close = staticmethod(os.close)
    link = staticmethod(os.link)
    replace = staticmethod(os.replace)
    unlink = staticmethod(os.unlink)


SYS: Syscalls = Syscalls()


def write_file(path: str, data: bytes, *, exclusive: bool = False, mode: int = FILE_MODE, durable: bool = True) -> bool:
    """Write ``data`` to ``path`` atomically; return False if ``exclusive`` and the name was taken meanwhile.

    Raises OSError as the system calls do; nothing is left behind then, unless removing it fails too. With
    ``durable``, file and directory are flushed to the disk.
    """
    directory, _, _name = path.rpartition("/")
    temporary = f"{directory}/.{unique()}{TEMPORARY}"
    placed = False
    try:
        _write_temporary(temporary, data, mode, durable=durable)
        placed = _place(temporary, path, exclusive=exclusive)
    finally:
        # After a rename the name is gone already, and unlink says so.
        with suppressed(OSError):
            SYS.unlink(temporary)
    if placed and durable:
        _flush_directory(directory)
    return placed


def flush(paths: Iterable[str]) -> None:
    """Have files that were written without ``durable``, and their names, flushed to the disk. Raises OSError."""
    directories = set()
    for path in paths:
        fd = SYS.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            SYS.fsync(fd)
        finally:
            SYS.close(fd)
        directories.add(path.rpartition("/")[0])
    for directory in sorted(directories):
        _flush_directory(directory)


def give_name(path: str, name: str, *, replace: bool = False) -> bool:
    """Have a file lie under a second name as well; return False if that was taken, and isn't to be replaced.

    Where there are no hard links it is a copy that does. Raises OSError.
    """
    directory, _, _name = name.rpartition("/")
    temporary = f"{directory}/.{unique()}{TEMPORARY}"
    try:
        SYS.link(path, temporary if replace else name)
    except FileExistsError:
        return False
    except OSError as error:
        let_pass(error)
        if error.errno not in _NO_LINKS:
            raise
        with opened(path, "rb") as file:
            return write_file(name, file.read(), exclusive=not replace, durable=False)
    if replace:
        SYS.replace(temporary, name)
    return True


def replace_named(path: str, data: bytes) -> None:
    """Write a file that somebody named, replacing a regular one. Raises OSError, also for whatever else is there.

    A link isn't followed: in a directory like /tmp, it is somebody else who says where it leads.
    """
    if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", path)
    write_file(path, data, durable=False)


def make_directory(path: str, mode: int = DIR_MODE) -> bool:
    """Make a directory with what the umask leaves of these permissions; return False if something of that name exists.

    A set-group-id bit inherited from the parent is kept where this process may set it. Raises OSError,
    FileNotFoundError when the parent is missing.
    """
    umask = UMASK.value
    try:
        SYS.mkdir(path, mode if umask is None else mode & ~umask)
    except FileExistsError:
        return False
    if umask is None and mode != DROP_MODE:
        return True
    fd = SYS.open(path, _DIRECTORY)
    try:
        has = stat.S_IMODE(os.fstat(fd).st_mode)
        wanted = has if umask is None else mode & ~umask
        if mode == DROP_MODE:
            wanted = _writable_to_readers(wanted)
        wanted |= has & stat.S_ISGID
        if has != wanted:
            try:
                SYS.fchmod(fd, wanted)
            except PermissionError:
                # systemd's RestrictSUIDSGID= denies setting that bit, inherited or not: a directory without it is
                # better than none, and the one the umask left as it should be isn't touched.
                SYS.fchmod(fd, wanted & ~stat.S_ISGID)
    finally:
        SYS.close(fd)
    return True


def _writable_to_readers(mode: int) -> int:
    # A umask of 022 says that others may use what is here: in a drop directory that is adding to it.
    for shift in (3, 0):
        if mode >> shift & 5 == 5:
            mode |= 2 << shift
    return mode


def _write_temporary(path: str, data: bytes, mode: int, *, durable: bool) -> None:
    umask = UMASK.value
    fd = SYS.open(path, _CREATE, mode if umask is None else 0o600)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[SYS.write(fd, rest) :]
        if umask is not None:
            SYS.fchmod(fd, mode & ~umask)
        if durable:
            SYS.fsync(fd)
    except BaseException:
        with suppressed(OSError):
            SYS.close(fd)
        raise
    # Not suppressed: on NFS, a full disk or quota may show up only here.
    SYS.close(fd)


def _place(temporary: str, path: str, *, exclusive: bool) -> bool:
    if not exclusive:
        SYS.replace(temporary, path)
        return True
    try:
        SYS.link(temporary, path)
    except FileExistsError:
        # An NFS server may have made the link and lost the answer; the retransmission then says EEXIST.
        return os.stat(temporary, follow_symlinks=False).st_nlink > 1
    except OSError as error:
        let_pass(error)
        if error.errno not in _NO_LINKS:
            raise
        # No hard links here. Two writers of one slot may then overwrite each other: an entry is lost, none mixed up.
        SYS.replace(temporary, path)
    return True


def _flush_directory(path: str) -> None:
    try:
        fd = SYS.open(path, _DIRECTORY)
    except OSError as raised:
        let_pass(raised)
        return
    try:
        SYS.fsync(fd)
    except OSError as error:
        let_pass(error)
        if error.errno not in _NO_FSYNC:
            raise
    finally:
        SYS.close(fd)
