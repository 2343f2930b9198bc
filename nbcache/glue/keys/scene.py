"""What a program can see of a process before packages are loaded, and whether it is the same after that."""

from __future__ import annotations

import gc
import os
import re
import sys
import threading
import warnings
from collections.abc import Mapping
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numba.core import entrypoints
from numba.core.typing.typeof import typeof_impl

from nbcache.glue.capture.readings import digest_of_variable, reads_for_others
from nbcache.glue.identity import told
from nbcache.glue.identity.instances import dictionary_of
from nbcache.glue.identity.ownership import is_toolchain_module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from collections.abc import Set as AbstractSet

_STANDARD = sys.stdlib_module_names - {"__main__", "builtins"}
"""Python's own library keeps counters and caches in its modules; what else a program sees of it is in `_state`."""
_DEFINITIONS = (FunctionType, BuiltinFunctionType, type)
_LONG = 10_000
"""Of longer containers in others' modules only the length is looked at."""


class Scene:
    """What a program can see before the packages are loaded; `quiet` says whether it is the same after."""

    def __init__(self) -> None:
        self.modules = dict(sys.modules)
        self.typed = set(typeof_impl.registry)
        self._values = {
            name: dict(vars(module))
            for name, module in self.modules.items()
            # Numba notes there that it loads extensions.
            if isinstance(module, ModuleType) and module is not entrypoints
        }
        self._held = {name: _held_by(values) for name, values in self._values.items() if _is_others(name)}
        self._state = _state()
        self.read: dict[str, str] = {}
        """The environment variables that somebody's code asked for meanwhile, with what they held."""
        self.read_everything = False
        self._methods = (os._Environ.__getitem__, os._Environ.__iter__)
        self._watch_environment(*self._methods)
        self._streams = (sys.stdout, sys.stderr)
        self._listeners = [_Listener(stream) for stream in dict.fromkeys(self._streams)]

    def _watch_environment(self, get: Callable[..., Any], iterate: Callable[..., Any]) -> None:
        def getitem(environ: Any, key: Any) -> Any:
            value = None
            try:
                value = get(environ, key)
            finally:
                if isinstance(key, str) and key not in self.read and reads_for_others(sys._getframe(1)):
                    self.read[key] = digest_of_variable(value)
            return value

        def iter_(environ: Any) -> Any:
            self.read_everything = self.read_everything or reads_for_others(sys._getframe(1))
            return iterate(environ)

        os._Environ.__getitem__, os._Environ.__iter__ = getitem, iter_  # type: ignore[method-assign]

    def quiet(self) -> bool:
        """End the scene."""
        os._Environ.__getitem__, os._Environ.__iter__ = self._methods  # type: ignore[method-assign]
        heard = [listener.end() for listener in self._listeners]
        loaded = (_roots(sys.modules) - _roots(self.modules)) | (sys.modules.keys() - self.modules.keys())
        if any(heard) or (sys.stdout, sys.stderr) != self._streams or _state(loaded) != self._state:
            return False
        return all(map(self._is_same, self._values))

    def _is_same(self, name: str) -> bool:
        if sys.modules.get(name) is not self.modules[name]:
            return False
        before, now = self._values[name], vars(self.modules[name])
        if name.partition(".")[0] in _STANDARD:
            return all(now.get(each) is value for each, value in before.items() if isinstance(value, _DEFINITIONS))
        for attribute, value in now.items():
            known = before.get(attribute, Scene)
            # A package gets its submodules, and Numba fills tables when they are first needed; None is also what says
            # that an option isn't set.
            of_numba = name.partition(".")[0] == "numba" and name != "numba.core.config"
            harmless = isinstance(value, ModuleType) or (known is None and of_numba)
            if value is not known and not harmless and attribute != "__warningregistry__":
                return False
        held = self._held.get(name)
        return before.keys() <= now.keys() and (held is None or _same(held, _held_by(before)))


def _roots(modules: Iterable[str]) -> frozenset[str]:
    return frozenset(name.partition(".")[0] for name in modules)


def _is_others(name: str) -> bool:
    return name.partition(".")[0] not in _STANDARD and not is_toolchain_module(name)


def _held_by(values: Mapping[str, object]) -> list[object]:
    """What the values of a module hold: its tables, its classes, its objects."""
    found: list[object] = []
    for name, value in values.items():
        if name != "__builtins__" and not isinstance(value, ModuleType):
            content = _contents(value)
            found += content
            for each in content:
                if type(each) in _TABLES:
                    found += _contents(each)
    return found


_TABLES = frozenset({dict, list, set})


def _contents(value: Any) -> list[object]:
    """What is in a container, a class or an object with attributes, with its length."""
    content = vars(value) if isinstance(value, type) else value if type(value) in _TABLES else dictionary_of(value)
    if not content:
        return [0]
    if len(content) > _LONG:
        return [len(content)]
    values = content.values() if isinstance(content, Mapping) else ()
    return [len(content), *content, *values]


def _same(now: list[object], before: list[object]) -> bool:
    pairs = zip(now, before, strict=True) if len(now) == len(before) else [(0, 1)]
    return all(one is other or (type(one) is type(other) is int and one == other) for one, other in pairs)


def _state(besides: AbstractSet[str] = frozenset()) -> list[object]:
    """What a program can see of Python, its library and NumPy, *besides* what packages set up for themselves.

    That is: their own loggers, and filters of their own warnings.
    """
    import atexit
    import decimal
    import random
    import signal

    loaded = sys.modules.get
    state: list[object] = [
        dict(os.environ), os.getcwd(), list(sys.path),
        [finder for finder in sys.meta_path if not _only_finds_metadata(finder)], list(sys.path_hooks),
        sys.getrecursionlimit(), sys.getswitchinterval(), sys.excepthook, sys.displayhook, sys.unraisablehook,
        sys.gettrace(), sys.getprofile(),
        {repr(each) for each in warnings.filters if not _is_own_filter(each, besides)},
        gc.isenabled(), gc.get_threshold(), gc.callbacks[:], atexit._ncallbacks(),
        threading.enumerate(), threading.excepthook,
        [signal.getsignal(each) for each in sorted(signal.valid_signals())],
        np.geterr(), np.geterrcall(), repr(np.get_printoptions()), *_loggers(besides), len(told.options),
    ]  # fmt: skip
    state += [random.getstate(), repr(decimal.getcontext())]
    if loaded("numpy.random") is not None:
        import pickle

        state.append(pickle.dumps(np.random.get_state(legacy=False)))  # noqa: NPY002  whose state this is
    if (module := loaded("_locale")) is not None:
        state.append(module.setlocale(module.LC_ALL, None))
    return state


def _only_finds_metadata(finder: object) -> bool:
    """Whether it is what the backport of `importlib.metadata` installs, which finds no modules."""
    return type(finder).__module__.partition(".")[0] == "importlib_metadata"


def _is_own_filter(warning_filter: tuple[Any, ...], packages: AbstractSet[str]) -> bool:
    """Whether a filter of warnings only applies to warnings of these packages and modules, or to what they warn of."""
    _action, _message, category, module, _line = warning_filter
    if category.__module__ in packages or category.__module__.partition(".")[0] in packages:
        return True
    name = re.match(_NAME, getattr(module, "pattern", None) or "")
    return name is not None and name[0] in packages


_NAME = r"[A-Za-z_]\w*(?=\.|\\\.|$)"


def _loggers(besides: AbstractSet[str]) -> Iterator[object]:
    """What is set up of logging; that there is a logger, which most modules make for themselves, says nothing."""
    logging = sys.modules.get("logging")
    if logging is None:
        return
    yield logging.root.manager.disable
    for name, logger in sorted(logging.root.manager.loggerDict.items() | {("", logging.root)}):
        if isinstance(logger, logging.Logger) and name.partition(".")[0] not in besides and not _is_mute(logger):
            state = (logger.level, logger.handlers[:], logger.filters[:], logger.disabled, logger.propagate)
            if state != (0, [], [], False, True):
                yield name, state


def _is_mute(logger: Any) -> bool:
    """Whether a logger says nothing but what is fatal, as Python would without it; generated parsers bring such."""
    logging = sys.modules["logging"]
    return logger.level >= logging.CRITICAL and all(
        type(handler) is logging.StreamHandler and handler.stream is sys.stderr and handler.formatter is None
        for handler in logger.handlers
    )


class _Listener:
    """Notes whether something is written to a stream, which stays the object that it is: others may keep it."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._heard = False
        write: Any = getattr(stream, "write", None)
        self._original = write

        def listen(*args: Any, **kwargs: Any) -> Any:
            self._heard = True
            return write(*args, **kwargs)

        self._listen = listen
        try:
            stream.write = listen
        except AttributeError:  # nobody can tell what is written to it, unless there is no stream at all
            self._heard, self._stream = stream is not None, None

    def end(self) -> bool:
        """Listen no longer; whether anything was written, or may have been."""
        if self._stream is not None:
            if vars(self._stream).get("write") is not self._listen:
                return True
            del self._stream.write
            if self._stream.write != self._original:  # it was an attribute of this very stream
                self._stream.write = self._original
        return self._heard
