"""Opening files that settings name: opening must never wait, and what isn't a regular file is refused. And writing.

To open a FIFO waits until somebody opens its other end, which may be never; a device or a terminal may do as it likes.
"""

from __future__ import annotations

import errno
import stat
from contextlib import suppress
from typing import Final

from nbcache.process import closing, os

WRITER_SECONDS: Final = 5.0
"""How long it may take until something comes out of a FIFO [s]."""
_APPEND: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def open_to_append(path: str, mode: int) -> int:
    """Open a regular file to append to, making it if it doesn't exist; return the descriptor. Raises OSError.

    A link that somebody else put into a directory like ``/tmp`` isn't followed, and a file there that has a second name
    isn't written: it may be any of one's own, where others may link to these (``fs.protected_hardlinks`` is 0).
    """
    try:
        try:
            fd = os.open(path, _APPEND | os.O_NOFOLLOW, mode)
        except OSError as error:
            if error.errno != errno.ELOOP or _is_strangers(path):
                raise
            fd = os.open(path, _APPEND, mode)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket, or a FIFO that nobody reads from
            raise _refusal(path) from error
        raise
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        os.close(fd)
        raise _refusal(path)
    if status.st_nlink > 1 and _is_shared(os.path.realpath(path)):
        os.close(fd)
        raise OSError(errno.EMLINK, "it has a second name (a hard link), and others may have given it this one", path)
    return fd


def append(path: str, data: bytes, mode: int) -> None:
    """Add to a regular file in one write, so that any number of processes may. Raises OSError."""
    with closing(open_to_append(path, mode)) as fd:
        write(fd, data)


def open_to_read(path: str) -> int:
    """Open a regular file to read it; return the descriptor. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise _refusal(path)
    return fd


def open_to_read_or_pipe(path: str) -> int:
    """The same where a pipe will do as well. Of a FIFO something has to come within :data:`WRITER_SECONDS`."""
    import select  # programs have no pipes that are read

    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    problem: OSError | None = None
    if stat.S_ISFIFO(os.fstat(fd).st_mode):
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        # A shell's pipe has no name, and a writer. What has one may have none, ever.
        if stat.S_ISFIFO(os.lstat(path).st_mode) and not poll.poll(WRITER_SECONDS * 1000):
            silent = f"it is a FIFO that nobody has written to for {WRITER_SECONDS:g} s"
            problem = OSError(errno.ENXIO, silent, path)
        os.set_blocking(fd, True)
    elif not stat.S_ISREG(os.fstat(fd).st_mode):
        problem = _refusal(path)
    if problem is not None:
        os.close(fd)
        raise problem
    return fd


def write(fd: int, data: bytes | memoryview, at: int | None = None) -> int:
    """Write to a regular file's end, or *at* a place in it. What RLIMIT_FSIZE forbids is an error and no signal.

    The kernel would send SIGXFSZ as well. Python ignores that; but a program may have a handler, and one that only
    embeds Python ends of it: because of a file that it knows nothing of. Raises OSError (EFBIG).
    """
    with suppress(ImportError):  # a process may have given up its right to read Python's library
        import resource

        most = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        if most != resource.RLIM_INFINITY and (os.fstat(fd).st_size if at is None else at) + len(data) > most:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return os.write(fd, data) if at is None else os.pwrite(fd, data, at)


def _is_strangers(link: str) -> bool:
    """Whether this is a link that the kernel doesn't follow either where it is told so (fs.protected_symlinks).

    Many are; containers may not be. Who owns one that is all right is the only one who could replace it.
    """
    above = os.stat(os.path.dirname(link) or ".").st_uid
    return _is_shared(link) and os.lstat(link).st_uid not in {os.geteuid(), above}


def _is_shared(path: str) -> bool:
    """Whether what has this name lies in a directory like ``/tmp``."""
    mode = os.stat(os.path.dirname(path) or ".").st_mode
    return bool(mode & stat.S_ISVTX and mode & stat.S_IWOTH)


def _refusal(path: str) -> OSError:
    return OSError(errno.EINVAL, "it is not a regular file", path)
