"""The switch: has the client called once Numba is imported.

Every Python that starts with ``NBCACHE_DIR``, ``NBCACHE_COUNT`` or ``NBCACHE_DISABLE_ALL`` set imports this module and,
until it imports Numba, nothing else of nbcache. It lies beside the package, so that not even that has to be found, and
imports nothing that is a file itself, not even annotations from `__future__`.
"""

import gc
import sys
from _thread import get_ident  # built into Python

FROZEN = gc.get_freeze_count()
"""How many objects the collector leaves alone since Python started: 3.12 begins with some."""
INTERFACE = 2
"""Of this module with `nbcache.client.hook`, which is another release's where nbcache was upgraded under a program."""
TYPE_CHECKING = False  # importing typing for it would cost every process milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any


def switch(*_: object) -> None:
    """What the line in ``nbcache.pth``, which may be another release's, calls where the environment says so.

    Whether it may say so is only asked when Numba is imported: most processes never do.
    """
    watch("numba", _load_client)


def watch(name: str, imported: "Callable[[], None]") -> None:
    """Have *imported* called when the import of a module is over, instead of what was to be called."""
    for finder in sys.meta_path:
        if type(finder) is Finder and finder.name == name:
            finder.imported = imported
            return
    sys.meta_path.insert(0, Finder(name, imported))


def spec_of_others(mine: object, name: str, path: "Any", target: "ModuleType | None") -> "Any":
    """What the finders of ``sys.meta_path`` that come after *mine* find, all if it isn't there; None if it is nothing.

    Those before it have been asked. And of two that look at what others find, each would ask the other without end: so
    it is if one of others asks all (slipcover's does), which therefore finds nothing here.
    """
    question = get_ident(), id(mine), name
    if question in _asked:
        return None
    finders = sys.meta_path
    for number, finder in enumerate(finders, 1):
        if finder is mine:
            finders = finders[number:]
            break
    _asked.add(question)
    try:
        for finder in finders:
            find_spec = getattr(finder, "find_spec", None)
            spec = None if find_spec is None else find_spec(name, path, target)
            if spec is not None:
                return spec
    finally:
        _asked.discard(question)
    return None


_asked: "set[tuple[int, int, str]]" = set()
"""What is being asked: by which thread, on whose behalf, for which module."""


def extend() -> None:
    """Numba's own extension point (``numba_extensions``): the way in where no ``.pth`` is processed.

    Numba warns of an extension that can't be imported, so it is this module that it imports.
    """
    _load_client("init_extension")


def _load_client(entered: str = "switched_on") -> None:
    try:
        from nbcache.client import hook

        getattr(hook, entered)()
    except Exception as error:  # noqa: BLE001  a package that is broken must not keep a program from importing Numba
        tell("nbcache stays off: it can't be imported", error)


def _only_young_collected() -> "Any":
    """What keeps Python from looking, time and again, at the 100,000 objects that Numba's import makes and keeps.

    That saves about what hooking Numba costs. Nothing is done where this process is to be left alone, or nbcache is
    broken.
    """
    from contextlib import nullcontext  # which Numba imports, too

    try:
        from nbcache import process

        return process.only_young_collected() if process.heeds_environment() else nullcontext()
    except Exception:  # noqa: BLE001  as above, where it is said
        return nullcontext()


_told = {""}  # an annotation would cost each process a dictionary


def tell(what: str, error: Exception) -> None:
    """Say in one line, once, what doesn't work and why: a traceback in a program's output would pass for its own."""
    if what not in _told:
        _told.add(what)
        import logging

        log = logging.getLogger("nbcache")
        # Its text may hold anything, and what makes it printable may be what can't be imported.
        line = f"{what} ({type(error).__name__}: {ascii(str(error))[1:-1]})"
        log.warning("%s", line)
        log.debug("%s", what, exc_info=error)


class Finder:
    """Finds a module the way it would be found without it, and calls `imported` after the import."""

    def __init__(self, name: str, imported: "Callable[[], None]") -> None:
        self.name = name
        self.imported = imported

    def find_spec(self, name: str, path: "Any" = None, target: "ModuleType | None" = None) -> "Any":
        return self.followed(spec_of_others(self, name, path, target)) if name == self.name else None

    def is_over(self, _module: "ModuleType") -> None:
        """The import is over, without an exception."""
        self.imported()

    def followed(self, spec: "Any") -> "Any":
        """The *spec* of a module whose import will be told of; who waits for it alone waits no longer then."""
        # numba-cuda asks all finders again, for its own files, and comes by here twice.
        loader = getattr(spec, "loader", None)
        if loader is None or not hasattr(loader, "exec_module") or "exec_module" in getattr(loader, "__dict__", ()):
            return spec
        execute = loader.exec_module

        def exec_module(module: "ModuleType") -> None:
            found = getattr(module, "__spec__", None)
            if getattr(found, "name", None) != spec.name:  # another one of the same loader
                execute(module)
                return
            del loader.exec_module
            if spec.name != self.name:
                execute(module)
                self.is_over(module)
                return
            sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self]
            with _only_young_collected():
                execute(module)
                self.is_over(module)

        try:
            loader.exec_module = exec_module
        except Exception:  # noqa: BLE001  one with slots, say: the extension point is the second way in
            return spec
        return spec
