"""Whether this process uses the cache: switching it on and off, and what it counted."""

from __future__ import annotations

import atexit
import importlib.util
import sys
from typing import TYPE_CHECKING, Any

from nbcache import config, path_syntax, pythons
from nbcache.client import logs
from nbcache.client.logs import log
from nbcache.client.session import ClientSession
from nbcache.config import Settings
from nbcache.counting import Counters
from nbcache.process import os
from nbcache.store.directory import Store
from nbcache.store.opened import Refusal

if TYPE_CHECKING:
    from nbcache.protocol.profiles import Profile

_active: ClientSession | None = None


def activate(settings: Settings | None, store: Store | None = None) -> None:
    """Start using the store that the settings name, or the one given.  Numba must be imported."""
    global _active  # noqa: PLW0603  one process, one session
    settings = config.load() if settings is None else settings
    if _active is not None and _active.enabled:
        if _active.settings.dir == settings.dir:
            return
        deactivate()
    logs.configure(settings)
    for problem in settings.problems:
        log.warning("%s", problem)
    if settings.disable_all:
        _disable_all(settings)
    if settings.disable or settings.disable_all or settings.dir is None:
        return
    found = Store.open(settings) if store is None else store
    if isinstance(found, Refusal):
        log.warning("nbcache stays off: %s", found.reason)
        return
    from nbcache.glue import releases

    # Before anything that needs Numba's internals, which a newer release may not have.
    reason = None if settings.unverified else pythons.problem() or releases.problem()
    if reason is None:
        from nbcache.glue.identity import roots

        reason = roots.problem()
    if reason is None:
        from nbcache.glue.hooks import forks, seams

        _choose_processor(settings)
        config.tell_namespace(settings.namespace)
        session = ClientSession(settings, found)
        reason = seams.install(session)
    if reason is not None:
        log.warning("nbcache stays off: %s", reason)
        return
    _active = session
    attend_kernels()
    forks.protect(_in_child, _finish)
    atexit.register(_end)


def attend_kernels() -> None:
    """Take part in numba-cuda, if the program has imported it."""
    if _active is None or not _active.enabled or "numba.cuda.dispatcher" not in sys.modules or not _is_numba_cuda():
        return
    from nbcache.client.cuda_session import Kernels
    from nbcache.glue.cuda import seams

    reason = seams.install(Kernels(_active))
    if reason is not None:
        log.warning("kernels aren't cached: %s", reason)


def _is_numba_cuda() -> bool:
    """Whether ``numba.cuda`` is numba-cuda's, and not Numba's own, which is left alone."""
    file = getattr(sys.modules.get("numba.cuda"), "__file__", None) or ""
    package = importlib.util.find_spec("numba_cuda")
    roots = (package.submodule_search_locations or ()) if package is not None else ()
    return any(file.startswith(os.path.join(root, "")) for root in roots)


def _choose_processor(settings: Settings) -> None:
    if settings.cpu == path_syntax.HOST:
        return
    from nbcache.glue.keys import targets

    reason = targets.choose(settings.cpu)
    if reason is not None:
        log.warning("NBCACHE_CPU=%s: %s; code is compiled for this host's processor", settings.cpu, reason)


def _disable_all(settings: Settings) -> None:
    """Have ``cache=True`` mean nothing, so that not even Numba's own cache is used."""
    from nbcache.glue import releases

    reason = None if settings.unverified else releases.problem()
    if reason is None:
        from nbcache.glue.hooks import seams

        seams.forbid_files()
    else:
        log.warning("NBCACHE_DISABLE_ALL: Numba's own cache stays on: %s", reason)


def _in_child() -> None:
    if _active is not None:
        _active.frames.restart()


def _finish() -> None:
    if _active is not None:
        _active.finish()
        if _active.settings.stats_log is not None:
            from nbcache.client import recording  # few ask for it

            recording.sum_up(_active.settings.stats_log, _active.counters)


def _end() -> None:
    _finish()
    if _active is not None:
        _active.maker.engine.forget()


def forget() -> None:
    """Before this process ends without its exit functions: it leaves no record, and blames nothing that it used."""
    if _active is not None:
        _active.counters = Counters()
        _active.finish()


def deactivate() -> None:
    """Stop using the store in this process."""
    if _active is not None and _active.enabled:
        from nbcache.glue.hooks import seams

        _active.leave()
        _active.enabled = False
        seams.remove()
        config.tell_namespace("")
        kernel_seams = sys.modules.get("nbcache.glue.cuda.seams")
        if kernel_seams is not None:
            kernel_seams.remove()
        _active.finish()
        atexit.unregister(_end)


def session() -> ClientSession | None:
    """The session of this process, or None while the cache is off."""
    return _active if _active is not None and _active.enabled else None


def share(profile: Profile) -> None:
    """From now on, divide with others who compile it what a profile lists."""
    if _active is not None:
        from nbcache.client.elsewhere import Elsewhere

        _active.elsewhere = Elsewhere(_active.settings._replace(on_miss="auto"), _active.store, _active.counters)
        _active.elsewhere.share(profile)


def stats() -> dict[str, Any]:
    """This process's counts, or those of an unused cache."""
    return (_active.counters if _active is not None else Counters()).snapshot()
