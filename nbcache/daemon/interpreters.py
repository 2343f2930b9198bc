"""Whose interpreters a daemon starts, and with what environment."""

from __future__ import annotations

import glob
import os
from typing import TYPE_CHECKING

from nbcache import config
from nbcache.trust import OPEN_FLAGS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nbcache.config import Settings
    from nbcache.trust import Trust

_PASSED_ON = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TMPDIR", "HOME", "TZ")


def problem(interpreter: str, trust: Trust) -> str | None:
    """Say why an interpreter isn't started; None if it may be.

    The rule of trust, for the file itself, for the place where it was found (a link to Python in somebody's virtual
    environment makes that environment's packages the ones that are imported) and for the packages beside it.
    """
    if not os.path.isabs(interpreter):
        return "is no absolute path"
    try:
        fd = os.open(os.path.realpath(interpreter), OPEN_FLAGS)
    except OSError as error:
        return f"can't be used: {error.strerror or error}"
    try:
        found = trust.file_problem(os.fstat(fd), fd)
    finally:
        os.close(fd)
    if found is not None:
        return found
    prefix = os.path.dirname(os.path.dirname(interpreter))
    places = [os.path.dirname(os.path.realpath(interpreter)), os.path.dirname(interpreter)]
    places += glob.glob(f"{glob.escape(prefix)}/lib*/python3*/site-packages")
    for place in dict.fromkeys(map(os.path.realpath, places)):
        found = trust.path_problem(place)
        if found is not None:
            return f"lies with {place}, which {found}"
    settings = f"{prefix}/pyvenv.cfg"
    if os.path.lexists(settings):
        try:
            found = trust.file_problem(os.lstat(settings), settings)
        except OSError as error:
            found = f"can't be examined: {error.strerror or error}"
    return found and f"has a pyvenv.cfg that {found}"


def environment(root: str, settings: Settings, numba_settings: Mapping[str, str]) -> dict[str, str]:
    """Return the environment that a daemon's interpreters get: the hook over its store, and little else.

    *numba_settings* are the client's: Numba reads some of them once, before anything is compiled.

    Leases are the daemon's; a worker that waited for one would wait for its own.
    """
    return {
        **config.inherited(_PASSED_ON),
        "NBCACHE_DIR": root,
        "NBCACHE_ON_MISS": "compile",
        "NBCACHE_TRUSTED_UIDS": ",".join(map(str, sorted(settings.trusted_uids))),
        "NBCACHE_LOG": settings.log,
        **({} if settings.umask is None else {"NBCACHE_UMASK": f"{settings.umask:03o}"}),
        **({"NBCACHE_LOG_FILE": settings.log_file} if settings.log_file else {}),
        **numba_settings,
        "PYTHONSAFEPATH": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
    }
