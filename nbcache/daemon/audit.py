"""What a daemon put into the store, and took out of it, for whom: one JSON object a line, in its own directory.

::

    audit.jsonl      time [Unix s] · event · key · function · asked (uid: whom it is, or was, built for) · reason
      published, refused: signature · built (uid) · host · nbcache · wanted (the key that the job was for) · build ·
        bytes · replaced (whether it took the place of one's own, which one's own programs crashed with)
      quarantined, removed, rebuilding: caused (the uids whose programs crashed with it)
      evicted: bytes
    audit-UID.jsonl  the same about what is another user's than the owner's
    audit.1.jsonl, audit-UID.1.jsonl …  older ones

A file is put aside at :data:`MAX_SIZE`, and :data:`KEPT` of those are kept. Each user has files of his own, so that
nobody's thousand entries push out the lines about what became of somebody else's. Text of others is cut off, and
escaped as JSON is: no line can be made to look like two. Nothing is written into a directory that others could have
made, or may write. Nothing here raises; what can't be written is said once.
"""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from contextlib import suppress
from typing import Final

from nbcache.file_trust import Trust
from nbcache.one_line import log
from nbcache.process import closing
from nbcache.store import first_askers, opened

MAX_SIZE: Final = 8 << 20
"""How large the newest file grows [bytes]."""
KEPT: Final = 4
"""How many older ones there are."""
MAX_TEXT: Final = 300
"""How much of a text is kept [characters]."""
_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class Audit:
    """The log in one directory. Threads may share it."""

    def __init__(self, directory: str) -> None:
        """Nothing is made before there is something to write; nor is the directory. "" for no log."""
        self._directory = directory
        self._lock = threading.Lock()
        self._told = False

    def record(self, event: str, **fields: object) -> None:
        """Add a line."""
        if not self._directory:
            return
        cut = {name: value[:MAX_TEXT] if isinstance(value, str) else value for name, value in fields.items()}
        line = json.dumps({"time": round(time.time(), 3), "event": event, **cut}).encode("ascii") + b"\n"
        with self._lock:
            try:
                self._write(_name(fields.get("asked")), line)
            except OSError as error:
                if not self._told:
                    self._told = True
                    log.warning("the audit log in %s can't be written: %s", self._directory, error.strerror or error)

    def _write(self, name: str, line: bytes) -> None:
        # Each time, and by the path that was judged: in a directory of somebody else's, such a file may be any of ours.
        trust = Trust()
        os.stat(self._directory)
        try:
            directory = opened.real_path(self._directory, trust)
            problem = trust.path_problem(directory)
        except ValueError as error:
            problem = str(error)
        if problem is not None:
            raise PermissionError(errno.EACCES, f"it {problem}")
        newest = f"{directory}/{name}.jsonl"
        with closing(os.open(newest, _FLAGS, 0o600)) as fd:
            # One write: a reader sees whole lines.
            os.write(fd, line)
            full = os.fstat(fd).st_size >= MAX_SIZE
        if full:
            names = [newest, *(f"{directory}/{name}.{number}.jsonl" for number in range(1, KEPT + 1))]
            for older, newer in zip(reversed(names), reversed(names[:-1]), strict=False):
                with suppress(FileNotFoundError):
                    os.replace(newer, older)


def _name(asked: object) -> str:
    """Return the name of the files about what is built for a uid."""
    owners = not isinstance(asked, int) or asked < 0 or first_askers.named(asked) == first_askers.OWNER
    return "audit" if owners else f"audit-{asked}"
