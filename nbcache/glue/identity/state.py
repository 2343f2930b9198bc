"""What of this process the toolchain's functions tell whoever calls them.

A function of Python's library or of NumPy is identified by its name, and the versions are in every key. That isn't all
where it answers from the state of the process: ``np.geterr()``, ``gc.isenabled()``. To code that runs while
compiling, such a *teller* counts by its name and by what it would tell now. What is another thing each time, and what
can't be put into words, makes the function uncacheable.

Tellers are found where code names them. What a function of the toolchain asks on its own, as ``str(array)`` does
for the print options, shows nowhere, and isn't looked for.
"""

from __future__ import annotations

import abc
import collections.abc
import hashlib
import os
import pickle
import platform
import random
import sys
import threading
import time
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from nbcache.glue.identity.node import Unidentifiable
from nbcache.glue.identity.ownership import is_toolchain_module, toolchain_name
from nbcache.glue.identity.watched import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from nbcache.glue.identity.node import Node


def _print_options() -> object:
    options = np.get_printoptions()
    return sorted((name, repr(value)) for name, value in options.items())


def _collector() -> object:
    gc = sys.modules["gc"]
    return gc.isenabled(), gc.get_threshold(), gc.get_debug()


def _thread() -> object:
    thread = threading.current_thread()
    return thread.name, thread.daemon, type(thread).__qualname__


def _process() -> object:
    process = sys.modules["multiprocessing.process"].current_process()
    return process.name, process.daemon, type(process).__qualname__


def _start_method() -> object:
    return sys.modules["multiprocessing"].get_start_method(allow_none=True)


def _loggers() -> object:
    """What decides what is logged, but for nbcache's own: a name leads to all settings above and below it."""
    logging = sys.modules["logging"]
    named = logging.root.manager.loggerDict
    loggers = [logging.root, *(named[name] for name in sorted(named) if name.partition(".")[0] != "nbcache")]
    return logging.root.manager.disable, [*_settings_of_loggers(logging, loggers)]


def _settings_of_loggers(logging: Any, loggers: list[Any]) -> Iterator[tuple[object, ...]]:
    for logger in loggers:
        if isinstance(logger, logging.Logger):
            handlers = [each for each in logger.handlers if type(each) is not logging.NullHandler]
            kinds = [(type(each).__module__, type(each).__qualname__, each.level) for each in handlers]
            said = (logger.level, logger.disabled, logger.propagate, len(logger.filters), kinds)
            if logger is logging.root or said != (0, False, True, 0, []):
                yield (logger.name, type(logger).__qualname__, *said)


def _decimal() -> object:
    context = sys.modules["decimal"].getcontext()
    traps = sorted(signal.__name__ for signal, trapped in context.traps.items() if trapped)
    return *attrgetter("prec", "rounding", "Emin", "Emax", "capitals", "clamp")(context), traps


def _locale() -> object:
    locale = import_module("_locale")  # the other one is written in Python, and says None of what it doesn't know
    return locale.setlocale(locale.LC_ALL)


def _zone() -> object:
    """How local time differs from UTC, at two moments of each year, and in which words days are told."""
    locale = import_module("_locale")
    offsets = [time.localtime(moment).tm_gmtoff for moment in range(0, 1 << 31, 1 << 24)]
    return os.environ.get("TZ"), time.tzname, locale.setlocale(locale.LC_TIME), offsets


def _limits() -> object:
    return sys.getrecursionlimit(), sys.getswitchinterval(), getattr(sys, "get_int_max_str_digits", int)()


def _tracing() -> object:
    tracers = (sys.gettrace(), sys.getprofile())
    return [None if each is None else repr(type(each)) for each in tracers]


def _streams() -> object:
    return [
        [*(repr(getattr(each, name, None)) for name in ("encoding", "errors", "line_buffering")), _is_terminal(each)]
        for each in (sys.stdin, sys.stdout, sys.stderr)
    ]


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):  # there is none, or it is closed
        return False


def _diagnosing() -> object:
    faults, memory = sys.modules.get("faulthandler"), sys.modules.get("tracemalloc")
    return faults is not None and faults.is_enabled(), memory is not None and memory.is_tracing()


def registered_below(cls: type) -> list[type]:
    """The classes that were registered with an abstract one, or with one that is derived from it."""
    found: dict[type, None] = {}
    pending = [cls]
    while pending:
        each = pending.pop()
        pending += type.__subclasses__(each)
        found.update(dict.fromkeys(known for known in (ref() for ref in _registry_of(each)[0]) if known is not None))
    return sorted(found, key=lambda each: (each.__module__, each.__qualname__))


_registry_of = import_module("_abc")._get_dump  # nothing says what types it has


def _registered_by_others() -> object:
    """Whose classes were registered with the abstract classes of Python's library; looked through once for each number.

    Cython registers classes of its own wherever it is used.
    """
    from nbcache.glue.identity.instances import is_native

    number = abc.get_cache_token()  # another one with each class that is registered anywhere
    if number not in _registered:
        _registered.clear()
        _registered[number] = [
            (name, f"{each.__module__}:{each.__qualname__}")
            for name in _ABSTRACT
            for each in registered_below(_abstract_class(name))
            if not is_toolchain_module(each.__module__) and not is_native(each)
        ]
    return _registered[number]


_registered: dict[object, list[tuple[str, str]]] = {}


def _abstract_class(name: str) -> Any:
    module, _, qualname = name.partition(":")
    return getattr(import_module(module), qualname)


_ABSTRACT = (
    *(f"collections.abc:{name}" for name in collections.abc.__all__),
    *(f"numbers:{name}" for name in ("Number", "Complex", "Real", "Rational", "Integral")),
)


def _dialects() -> object:
    csv = sys.modules["_csv"]
    known = {name: csv.get_dialect(name) for name in sorted(csv.list_dialects())}
    return [(name, [getattr(each, part) for part in dir(each) if part[0] != "_"]) for name, each in known.items()]


def _sockets() -> object:
    return sys.modules["_socket"].getdefaulttimeout()


def _longest_field() -> object:
    return sys.modules["_csv"].field_size_limit()


def _who() -> object:
    return os.getuid(), os.geteuid(), os.getgid(), os.getegid(), os.getgroups()


def _processors() -> object:
    return os.cpu_count(), sorted(os.sched_getaffinity(0))


def _numbas_threads() -> object:
    """What Numba's own functions would tell, which start its threads."""
    parallel = sys.modules["numba.np.ufunc.parallel"]
    launched = parallel._is_initialized
    threads = parallel.get_num_threads() if launched else parallel.NUM_THREADS
    return parallel.get_thread_count(), threads, parallel.get_parallel_chunksize() if launched else 0


def _levels() -> object:
    return sorted(sys.modules["logging"]._levelToName.items())


_TELLERS: dict[str, Callable[[], object]] = {
    **dict.fromkeys(("numpy:geterr", "numpy:seterr"), np.geterr),
    **dict.fromkeys(("numpy:geterrcall", "numpy:seterrcall"), lambda: repr(np.geterrcall())),
    **dict.fromkeys(("numpy:getbufsize", "numpy:setbufsize"), np.getbufsize),
    **dict.fromkeys(
        ("numpy:get_printoptions", "numpy:set_printoptions", "numpy:printoptions", "numpy:array2string",
         "numpy:array_repr", "numpy:array_str"), _print_options,
    ),
    **dict.fromkeys(("gc:isenabled", "gc:get_threshold", "gc:get_debug"), _collector),
    **dict.fromkeys(("threading:current_thread", "threading:currentThread"), _thread),
    "threading:active_count": threading.active_count,
    **dict.fromkeys(("multiprocessing.process:current_process", "multiprocessing.process:parent_process"), _process),
    **dict.fromkeys(
        ("logging:getLogger", "logging:getLoggerClass", "logging:getHandlerByName", "logging:root", "logging:Logger"),
        _loggers,
    ),
    **dict.fromkeys(
        (f"multiprocessing{module}:get_{what}" for module in ("", ".context") for what in ("start_method", "context")),
        _start_method,
    ),
    **dict.fromkeys(("decimal:getcontext", "decimal:localcontext", "decimal:Decimal"), _decimal),
    **dict.fromkeys(
        (
            *(
                f"locale:{name}"
                for name in (
                    "atof", "atoi", "currency", "delocalize", "format_string", "getencoding", "getlocale",
                    "getpreferredencoding", "localeconv", "localize", "setlocale", "str",
                )
            ),
            *(f"_locale:{name}" for name in ("getencoding", "localeconv", "nl_langinfo", "strcoll", "strxfrm")),
        ), _locale,
    ),
    **dict.fromkeys(("datetime:datetime", "datetime:date", "time:mktime", "time:strptime"), _zone),
    **dict.fromkeys(("sys:getrecursionlimit", "sys:getswitchinterval", "sys:get_int_max_str_digits"), _limits),
    **dict.fromkeys(("sys:gettrace", "sys:getprofile"), _tracing),
    **dict.fromkeys(("posix:getuid", "posix:geteuid", "posix:getgid", "posix:getegid", "posix:getgroups"), _who),
    **dict.fromkeys(("posix:nice", "posix:getpriority"), lambda: os.getpriority(os.PRIO_PROCESS, 0)),
    "_socket:getdefaulttimeout": _sockets,
    "_csv:field_size_limit": _longest_field,
    **dict.fromkeys(("_csv:get_dialect", "_csv:list_dialects", "_csv:reader", "_csv:writer"), _dialects),
    **dict.fromkeys(("tempfile:gettempdir", "tempfile:gettempdirb"), lambda: sys.modules["tempfile"].tempdir),
    **dict.fromkeys(_ABSTRACT, _registered_by_others),
    **dict.fromkeys(("posix:cpu_count", "posix:sched_getaffinity", "os:process_cpu_count"), _processors),
    # One by one: a system and a machine are those of many hosts, a name is not.
    **{
        f"platform:{name}": getattr(platform, name)
        for name in ("node", "system", "release", "version", "machine", "platform")
    },
    "platform:processor": platform.machine,  # which starts no process to find out
    **dict.fromkeys(("posix:uname", "platform:uname"), lambda: tuple(os.uname())),
    **dict.fromkeys(("sys:stdin", "sys:stdout", "sys:stderr"), _streams),
    **{
        f"numba.np.ufunc.parallel:get_{what}": _numbas_threads
        for what in ("num_threads", "parallel_chunksize", "thread_count")
    },
    **dict.fromkeys(("logging:getLevelName", "logging:getLevelNamesMapping"), _levels),
    **dict.fromkeys(("faulthandler:is_enabled", "_tracemalloc:is_tracing"), _diagnosing),
}  # fmt: skip
"""By `ownership.toolchain_name`: what is told.  Each is asked where whoever names it has imported its module."""
_UNTOLD = {
    **dict.fromkeys(
        ("time:time", "time:time_ns", "time:localtime", "time:gmtime", "time:ctime", "time:asctime", "time:strftime"),
        "what time it is",
    ),
    **dict.fromkeys(("threading:enumerate", "sys:_current_frames"), "what other threads do"),
    **dict.fromkeys(("posix:getpid", "posix:getppid"), "which process it is"),
    **dict.fromkeys(
        (
            "signal:getsignal",
            "resource:getrlimit",
            "resource:getrusage",
            "posix:umask",
            "_ctypes:get_errno",
            "_thread:stack_size",
        ),
        "how the process is set up",
    ),
    **dict.fromkeys(("os:getloadavg", "posix:getloadavg", "posix:times"), "how busy the machine is"),
    "_contextvars:copy_context": "what context it runs in",
    **dict.fromkeys(("numpy.random:get_state", "random:getstate"), "what numbers will be drawn"),
}
"""What can't be compared."""


_SPELLINGS = frozenset(name.rpartition(":")[2] for name in (*_TELLERS, *_UNTOLD))


def generators() -> bytes:
    """The states of the generators of random numbers that Python's library and NumPy keep for everybody."""
    states = random.getstate(), _state_of_numpys(legacy=False)
    return hashlib.blake2b(pickle.dumps(states), digest_size=16).digest()


_state_of_numpys = np.random.get_state


def _where() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # somebody has removed it
        return None


def settings() -> tuple[object, ...]:
    """What this process is set to, as far as one part of a program sets it for all others: equal while it is the same.

    But for what most packages add to when they are imported: filters of warnings, finders of modules, loggers.
    """
    atexit, builtins, logging, signals = map(import_module, ("atexit", "builtins", "logging", "signal"))
    import_module("decimal")
    return (
        generators(), np.geterr(), np.geterrcall(), _print_options(), _collector(), _decimal(), _locale(), _limits(),
        [*map(signals.getsignal, signals.valid_signals())], sys.gettrace(), sys.getprofile(),
        sys.excepthook, sys.displayhook, sys.unraisablehook, threading.excepthook, sys.stdin, sys.stdout, sys.stderr,
        [*sys.path], dict(os.environ), _where(), logging.root.level,
        {**vars(builtins), "_": None}, atexit._ncallbacks(), threading.active_count(),
    )  # fmt: skip


def describe_environment(node: Node, label: str, names: frozenset[str]) -> None:
    """Code that runs while compiling may read environment variables, of which it must know the names."""
    store = os.environ._data  # type: ignore[attr-defined]
    for name in sorted(names):
        key = os.environ.encodekey(name)
        value = store.get(key, MISSING)
        node.watch_item(store, key, value)
        if value is not MISSING:
            node.value(f"{label}.environ[{name!r}]", os.environ[name])


def tells(name: str | None) -> bool:
    """Whether the toolchain's function of that *name* tells more than its name does."""
    name = _as_listed(name)
    return name in _TELLERS or name in _UNTOLD


def _as_listed(name: str | None) -> str | None:
    """The *name* that a function has in the tables: some releases name it by the module in C in which it is."""
    if name is not None and name.startswith("_") and name not in _TELLERS and name not in _UNTOLD:
        return name[1:]
    return name


def tell(node: Node, label: str, name: str | None, *, certainly: bool) -> None:
    """Add to a *node* what the toolchain's function *name* would tell now, if it is a teller.

    *certainly*: the code does call it. Names of attributes are collected, whatever they are read off; that is no reason
    to refuse what can't be compared. Raises Unidentifiable.
    """
    name = _as_listed(name)
    if certainly and name in _UNTOLD:
        msg = f"{name.replace(':', '.')}, by which code that may run while compiling asks {_UNTOLD[name]}"
        raise Unidentifiable(msg)
    if name in _TELLERS:
        told = node.check(_told_by, name)
        node.part(label, told, f"{name} tells {told.decode()[:100]}")


def tell_imported(node: Node, label: str, module: str, reads: Iterable[tuple[tuple[str, ...], bool]]) -> None:
    """Add what tellers would tell that code reads off a *module* of the toolchain, which it imports when it runs."""
    chains = {chain[:end] for chain, _handed_on in reads for end in range(1, len(chain) + 1)}
    for chain in sorted(chains):
        if chain[-1] in _SPELLINGS:
            try:
                teller = attrgetter(".".join(chain))(import_module(module))
            except (ImportError, AttributeError):  # what isn't there tells nothing
                continue
            tell(node, f"{label}.{'.'.join(chain)} tells", toolchain_name(teller), certainly=True)


def _told_by(name: str) -> bytes:
    return repr(_TELLERS[name]()).encode("utf-8", "surrogatepass")
