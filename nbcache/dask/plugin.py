"""Switching the cache on in all workers of a Dask cluster, those that come later included."""

from __future__ import annotations

import os
from typing import Any, Final

from distributed import Worker, WorkerPlugin

from nbcache import config
from nbcache.client import hook
from nbcache.client.logs import once
from nbcache.secret import revealed
from nbcache.setting_syntax import READERS, SECRET, read

_SOURCE: Final = "nbcache.dask.CachePlugin"


class CachePlugin(WorkerPlugin):  # type: ignore[misc]  # distributed has no types for it
    """Has each worker use the cache in a directory::

        client.register_plugin(CachePlugin("/shared/nbcache"))

    It holds for the workers that are there and for those that come: also after ``client.restart()``, and with or
    without a nanny. A worker that has compiled already caches what it compiles from then on.

    In a worker that doesn't have the directory, Numba works as without nbcache, and the log says so in one line. It
    isn't made there: where it isn't mounted, it would be one of that host alone.
    """

    name = "nbcache"
    idempotent = False
    """Registered again, it counts with the settings that it has then."""

    def __init__(self, dir: str | os.PathLike[str], **settings: object) -> None:  # noqa: A002  the setting's own name
        """Use the cache in *dir*, absolute, with other *settings* as a file of settings has them: ``on_miss="wait"``.

        What isn't named, each worker reads as usual from its environment and files. Raises ValueError for what is no
        setting, or no value of it.
        """
        path = os.fspath(dir)
        if not os.path.isabs(path):
            raise ValueError(f"CachePlugin: {path!r} is relative; workers have working directories of their own")
        given = {**settings, "dir": path}
        self._settings: dict[str, Any] = {name: _read(name, value) for name, value in given.items()}

    def __getstate__(self) -> dict[str, Any]:
        """Return the settings for the workers, and what is secret in them as well: they connect to the same servers."""
        return {name: revealed(value) if name in SECRET else value for name, value in self._settings.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Read that again."""
        self._settings = {name: read(name, value) if name in SECRET else value for name, value in state.items()}

    def setup(self, worker: Worker) -> None:  # noqa: ARG002  Dask's signature
        """Switch the cache on in the process of a worker. Never raises for what the filesystem does."""
        path = self._settings["dir"]
        settings = config.load()
        sources = {**settings.sources, **dict.fromkeys(self._settings, _SOURCE)}
        settings = settings._replace(**self._settings, sources=sources)
        if not os.path.isdir(path):
            once("nbcache stays off in this Dask worker: there is no directory %s", path)
            return
        hook.arm(settings)


def _read(name: str, value: object) -> object:
    if name not in READERS:
        raise ValueError(f"CachePlugin: {name!r} is not a setting; known are {', '.join(config.NAMES)}")
    try:
        # A tuple is what Python has for a list.
        return read(name, list(value) if isinstance(value, (tuple, set, frozenset)) else value)
    except ValueError as error:
        given, accepted = error.args
        msg = f"CachePlugin: {name}={given} is not understood: {accepted} is accepted"
    raise ValueError(msg)
