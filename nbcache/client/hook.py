"""Hooks Numba once it is there, and used: what `_nbcache`, the switch, and the package's functions come down to."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import _nbcache
from nbcache import process, pythons

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from nbcache.config import Settings

_INTERFACE = 2
_state: dict[str, Any] = {"armed": False, "activated": False, "disarmed": False, "settings": None}


def arm(settings: Settings | None = None) -> None:
    """Hook Numba now if it is imported, else when it is.  Idempotent; never raises."""
    if not _fits():
        return
    if settings is not None:
        _state.update(settings=settings, activated=False)
    numba = sys.modules.get("numba")
    _state.update(armed=True, disarmed=False)
    if numba is not None and not getattr(getattr(numba, "__spec__", None), "_initializing", False):
        _watch_cuda()
        _activate()
    else:
        _nbcache.watch("numba", numba_imported)


def _fits() -> bool:
    """Whether the switch, which was loaded when Python started, is of this release."""
    if getattr(_nbcache, "INTERFACE", 1) == _INTERFACE:
        return True
    _nbcache.tell("nbcache stays off: it was upgraded while this Python ran", RuntimeError("start it anew"))
    return False


def disarm() -> None:
    """Put Numba back as it was.  What is loaded stays loaded."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _nbcache.Finder)]
    _state.update(armed=False, activated=False, disarmed=True, settings=None)
    activation = sys.modules.get("nbcache.client.activation")
    if activation is not None:
        activation.deactivate()


def settings() -> Settings:
    """The settings that count in this process: those that it was given, else those of its environment and files."""
    from nbcache import config

    found: Settings = _state["settings"] or config.load()
    return found


def is_decided(found: Settings) -> bool:
    """Whether the program, or the environment of what was `found`, said where the cache is or that there is none."""
    said = _state["settings"] is not None or _state["disarmed"]
    return said or found.sources["dir"].startswith("environment ") or not process.heeds_environment()


def init_extension() -> None:
    """Numba is about to compile, and nobody may have noticed that it was imported: see `_nbcache.extend`."""
    import os

    # It comes with the first compilation, which may be after somebody switched the cache off.
    if _state["armed"] or (not _state["disarmed"] and process.is_wanted(os.environ)):
        arm()


def switched_on() -> None:
    """Numba was just imported, and the environment asks for nbcache: hook it, if the environment counts here."""
    if _state["armed"] or process.heeds_environment():
        numba_imported()
    else:
        _state["disarmed"] = True  # it stays so, whatever rights the process has later


def numba_imported() -> None:
    """Hook Numba, which was just imported, when it is used; what the environment says counts as of now."""
    import os

    if _state["disarmed"] or not _fits():
        return
    _state["armed"] = True
    _watch_cuda()
    if pythons.problem() is not None:
        _activate()
        return
    try:
        with process.nothing_collected():
            from nbcache.glue import releases
            from nbcache.glue.hooks import waking

            environ = dict(os.environ) if process.heeds_environment() else {}
            asleep = _is_patient(environ) and waking.sleep(lambda: _activate(environ))
            if releases.problem() is None:
                from nbcache.glue.identity import compiler_files, numba_copies, unregistered

                # Behind the tripwires, which are in Numba's classes: whoever looks for patches needn't look at those.
                unregistered.listen(just_imported=True)
                compiler_files.note_compiler()
                _parts.watch(numba_copies.note_part)
    except Exception as raised:  # noqa: BLE001  as below
        _let_pass(raised)
        asleep = False
    if not asleep:
        _activate()


def _watch_cuda() -> None:
    """Wait for numba-cuda, if it is installed: then this is there, from when Python started."""
    if "_numba_cuda_redirector" in sys.modules and "numba.cuda.dispatcher" not in sys.modules:
        _nbcache.watch("numba.cuda.dispatcher", cuda_imported)


class _Parts(_nbcache.Finder):
    """The same for each module of Numba's that is imported later than Numba itself."""

    def __init__(self) -> None:
        super().__init__("numba.", lambda: None)
        self.note: Callable[[ModuleType], None]

    def watch(self, note: Callable[[ModuleType], None]) -> None:
        """Have *note* called with each of them."""
        self.note = note
        if all(finder is not self for finder in sys.meta_path):  # others' finders aren't asked whether they equal it
            sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> Any:
        # numba-cuda has files of its own for its modules, and a finder.
        if not name.startswith(self.name) or name.startswith("numba.cuda"):
            return None
        return self.followed(_nbcache.spec_of_others(self, name, path, target))

    def is_over(self, module: ModuleType) -> None:
        try:
            self.note(module)
        except Exception as raised:  # noqa: BLE001  the cache must never be the reason that a program fails
            _let_pass(raised)


_parts = _Parts()


def cuda_imported() -> None:
    """numba-cuda, or Numba's own target, was just imported: hook it now if the cache is on, else when it is used."""
    try:
        activation = sys.modules.get("nbcache.client.activation")
        if activation is not None and activation.session() is not None:
            activation.attend_kernels()
        elif _state["armed"] and not _state["activated"]:
            from nbcache.glue.hooks import waking

            waking.sleep_again()
    except Exception as raised:  # noqa: BLE001  the cache must never be the reason that a program fails
        _let_pass(raised)
        _nbcache.tell("kernels aren't cached: nbcache failed to start", raised)


def _is_patient(environ: dict[str, str]) -> bool:
    """Whether nothing is lost by waiting: not what a relative path means, nor what is counted or recorded."""
    return environ.get("NBCACHE_DIR", "").startswith("/") and not (
        environ.get("NBCACHE_COUNT") or environ.get("NBCACHE_RECORD")
    )


def _let_pass(raised: Exception) -> None:
    # Late: importing Numba wakes nobody, and loads nothing for it.
    try:
        from nbcache.passing_exceptions import let_pass
    except (ImportError, OSError):  # a program that has no descriptor left can't open nbcache's modules, and goes on
        return
    let_pass(raised)


def _activate(environ: dict[str, str] | None = None) -> None:
    # Once: Numba's extension point comes by again, and a refusal is not to be said twice.
    if _state["activated"] or not _state["armed"]:
        return
    _state["activated"] = True
    try:
        with process.nothing_collected():
            from nbcache import config

            settings = _state["settings"] or config.load(environ)
            # A file may name the directory for the commands; that alone switches no process on, whatever else armed it.
            if not settings.sources.get("dir", "").startswith("file ") and _may_be_tried(settings):
                from nbcache.client import activation

                activation.activate(settings)
    except Exception as raised:  # noqa: BLE001  the cache must never be the reason that a program fails
        _let_pass(raised)
        _nbcache.tell("nbcache stays off: it failed to start", raised)
    else:
        _count(settings)


def _may_be_tried(settings: Settings) -> bool:
    """Whether nbcache may run under this Python; that it may not is said if it was to run."""
    problem = None if settings.unverified else pythons.problem()
    if problem is not None and settings.dir is not None and not settings.disable:
        from nbcache.client import logs

        logs.configure(settings)
        logs.log.warning("nbcache stays off: %s", problem)
    return problem is None


def _count(settings: Settings) -> None:
    if settings.count is None:
        return
    try:
        import os

        from nbcache.glue import compile_counter

        if os.path.lexists(settings.count) and not os.path.isdir(settings.count):
            import logging

            logging.getLogger("nbcache").warning(
                "NBCACHE_COUNT=%s is not a directory; compilations are not counted", settings.count
            )
            return
        compile_counter.count_into(settings.count)
    except Exception as raised:  # noqa: BLE001  nor must counting
        _let_pass(raised)
        _nbcache.tell("NBCACHE_COUNT: counting failed to start; compilations are not counted", raised)
