"""The switch: has the client called once Numba is imported.

Every Python that starts with ``NBCACHE_DIR`` or ``NBCACHE_COUNT`` set imports this module and, until it imports Numba,
nothing else of nbcache. It lies beside the package, so that not even that has to be found, and imports nothing itself,
not even annotations from `__future__`, which is a file as well.
"""

import sys

_AT_SECURE = 23  # getauxval(3), <linux/auxvec.h>
TYPE_CHECKING = False  # importing typing for it would cost every process milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType
    from typing import Any


def switch(environ: "Mapping[str, str]") -> None:
    """What the line in ``nbcache.pth`` calls: wait for Numba if the environment says so, and may."""
    if is_wanted(environ):
        watch(_load_client)


def is_wanted(environ: "Mapping[str, str]") -> bool:
    """Whether the environment asks for nbcache, and may."""
    return bool(environ.get("NBCACHE_DIR") or environ.get("NBCACHE_COUNT")) and heeds_environment()


def heeds_environment() -> bool:
    """Whether ``NBCACHE_*`` in the environment counts for this process.

    Not where Python was told to ignore its own variables (``-I``, ``-E``), and not where the process has rights that
    whoever started it, and wrote the environment, may not have.
    """
    return not (sys.flags.isolated or sys.flags.ignore_environment or has_rights_of_its_own())


def has_rights_of_its_own() -> bool:
    """Whether this process has rights that whoever started it may not have."""
    import os  # `site` has done so before

    global _secure  # noqa: PLW0603  it stays what it was when the program was executed
    if os.getuid() != os.geteuid() or os.getgid() != os.getegid():
        return True
    if _secure is None:
        _secure = _is_secure()
    return _secure


_secure: "bool | None" = None


def _is_secure() -> bool:
    """Whether the kernel gave rights to this process when its program was executed, capabilities among them."""
    try:
        with open("/proc/self/auxv", "rb") as file:
            vector = file.read()
    except OSError:
        # No /proc; or it is closed to this process, as after setuid(2) by a server that gave up root.
        try:
            import ctypes  # takes milliseconds, which is why it isn't the first way

            return bool(ctypes.CDLL(None).getauxval(_AT_SECURE))
        except (ImportError, OSError, AttributeError):  # it can't be known
            return True
    word = 8 if sys.maxsize > 1 << 32 else 4
    at = 0
    while (entry := vector[at : at + 2 * word]) and not entry.startswith(_AT_SECURE.to_bytes(word, sys.byteorder)):
        at += 2 * word
    return any(entry[word:])


class nothing_collected:  # noqa: N801  named as what it is like
    """Around importing, which makes thousands of objects that all stay.

    A full collection amid them, which looks at all that Numba is made of, would be a third of what waking costs.
    """

    def __enter__(self) -> None:
        """Begin."""
        import gc

        # Another thread may have Python collect nothing meanwhile, for good; nobody could tell our doing from its.
        threading = sys.modules.get("threading")
        self.ours = gc.isenabled() and (threading is None or threading.active_count() == 1)
        if self.ours:
            gc.disable()

    def __exit__(self, *_raised: object) -> None:
        """End."""
        import gc

        if self.ours:
            gc.enable()


def watch(imported: "Callable[[], None]") -> None:
    """Have *imported* called when Numba's own import is over, instead of what was to be called."""
    _finder.imported = imported
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def unwatch() -> None:
    """Call nothing."""
    for finder in (_finder, _cuda_finder):
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)


def watch_cuda(imported: "Callable[[], None]") -> None:
    """Have *imported* called when the import of ``numba.cuda``'s dispatchers is over, whoever brings them."""
    _cuda_finder.imported = imported
    if _cuda_finder not in sys.meta_path:
        sys.meta_path.insert(0, _cuda_finder)


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
    except Exception as error:  # noqa: BLE001  a package that is broken must not keep a program from importing Numba
        tell("nbcache stays off: it can't be imported", error)


def extend() -> None:
    """Numba's own extension point (``numba_extensions``): the way in where no ``.pth`` is processed.

    Numba warns of an extension that can't be imported, so it is this module that it imports.
    """
    try:
        from nbcache.client import hook

        hook.init_extension()
    except Exception as error:  # noqa: BLE001  as above
        tell("nbcache stays off: it can't be imported", error)


_told: "set[str]" = set()


def tell(what: str, error: Exception) -> None:
    """Say in one line, once, what doesn't work and why: a traceback in a program's output would pass for its own."""
    if what not in _told:
        _told.add(what)
        import logging

        log = logging.getLogger("nbcache")
        # Its text may hold anything, and what makes it printable may be what can't be imported.
        text = str(error).encode("unicode_escape").decode("ascii")
        line = f"{what} ({type(error).__name__}: {text})"
        log.warning("%s", line)
        log.debug("%s", what, exc_info=error)


class _Finder:
    """Finds a module the way it would be found without it, and calls `imported` after the import."""

    imported: "Callable[[], None]"

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(self, name: str, path: "Any" = None, target: "ModuleType | None" = None) -> "Any":
        spec = spec_of_others(self, name, path, target) if name == self.name else None
        if spec is not None:
            self._follow(spec.loader)
        return spec

    def _follow(self, loader: "Any") -> None:
        execute = getattr(loader, "exec_module", None)
        # numba-cuda asks all finders again, for its own files, and comes by here twice.
        if execute is None or "exec_module" in getattr(loader, "__dict__", {}):
            return

        def exec_module(module: "ModuleType") -> None:
            del loader.exec_module
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            execute(module)
            self.imported()

        try:
            loader.exec_module = exec_module
        except AttributeError:  # a loader with slots: the extension point is the second way in
            return


_finder = _Finder("numba")
_cuda_finder = _Finder("numba.cuda.dispatcher")
