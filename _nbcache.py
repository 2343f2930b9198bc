"""The switch: has the client called once Numba is imported.

Every Python that starts with ``NBCACHE_DIR`` or ``NBCACHE_COUNT`` set imports this module and, until it imports Numba,
nothing else of nbcache. It lies beside the package, so that not even that has to be found, and imports nothing itself,
not even annotations from `__future__`, which is a file as well.
"""

import sys

TYPE_CHECKING = False  # importing typing for it would cost every process milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType
    from typing import Any


def switch(environ: "Mapping[str, str]") -> None:
    """What the line in ``nbcache.pth`` calls: wait for Numba if the environment says so."""
    if environ.get("NBCACHE_DIR") or environ.get("NBCACHE_COUNT"):
        watch(_load_client)


def watch(imported: "Callable[[], None]") -> None:
    """Have *imported* called when Numba's own import is over, instead of what was to be called."""
    _finder.imported = imported
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def unwatch() -> None:
    """Call nothing."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)


def spec_of_others(mine: object, name: str, path: "Any", target: "ModuleType | None") -> "Any":
    """What the finders of ``sys.meta_path`` other than *mine* find; None if it is nothing."""
    for finder in sys.meta_path:
        find_spec = getattr(finder, "find_spec", None)
        if finder is mine or find_spec is None:
            continue
        spec = find_spec(name, path, target)
        if spec is not None:
            return spec
    return None


def _load_client() -> None:
    try:
        from nbcache.client import hook

        hook.numba_imported()
    except Exception:  # a package that is broken must not keep a program from importing Numba
        import logging

        logging.getLogger("nbcache").warning("nbcache stays off: it can't be imported", exc_info=True)


class _NumbaFinder:
    """Finds Numba the way it would be found without it, and calls `imported` after the import."""

    imported: "Callable[[], None]"

    def find_spec(self, name: str, path: "Any" = None, target: "ModuleType | None" = None) -> "Any":
        spec = spec_of_others(self, name, path, target) if name == "numba" else None
        if spec is not None:
            self._follow(spec.loader)
        return spec

    def _follow(self, loader: "Any") -> None:
        execute = getattr(loader, "exec_module", None)
        if execute is None:
            return

        def exec_module(module: "ModuleType") -> None:
            del loader.exec_module
            unwatch()
            execute(module)
            self.imported()

        try:
            loader.exec_module = exec_module
        except AttributeError:  # a loader with slots: the extension point is the second way in
            return


_finder = _NumbaFinder()
