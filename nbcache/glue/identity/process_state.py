"""What code that runs while compiling asks the toolchain's functions about this process.

A function of Python's library or of NumPy is identified by its name, and the versions are in every key. That isn't all
where it answers from the state of the process: ``np.geterr()``, ``gc.isenabled()``. Code that may run while compiling
and names such a function isn't cached. But for classes that are named for ``isinstance``: what they would tell counts.

They are found where code names them. What a function of the toolchain asks on its own, as ``str(array)`` does
for the print options, shows nowhere, and isn't looked for.
"""

from __future__ import annotations

import abc
import collections.abc
import gc
import hashlib
import os
import pickle
import random
import sys
import threading
import warnings
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from nbcache.glue import own_attributes
from nbcache.glue.identity.node import Node, Unidentifiable
from nbcache.glue.identity.ownership import is_toolchain_module, toolchain_name
from nbcache.glue.identity.watched import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def _decimal() -> object:
    context = sys.modules["decimal"].getcontext()
    traps = sorted(signal.__name__ for signal, trapped in context.traps.items() if trapped)
    return *attrgetter("prec", "rounding", "Emin", "Emax", "capitals", "clamp")(context), traps


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


_ASKS: dict[str, tuple[str, ...]] = {
    "what time it is": (
        "time:time", "time:time_ns", "time:localtime", "time:gmtime", "time:ctime", "time:asctime", "time:strftime",
        "time:mktime", "time:strptime",
    ),
    "which process or thread it is": (
        "posix:getpid", "posix:getppid", "threading:current_thread", "threading:currentThread",
        "multiprocessing.process:current_process", "multiprocessing.process:parent_process",
    ),
    "what other threads do": ("threading:enumerate", "threading:active_count", "sys:_current_frames"),
    "how busy the machine is": ("os:getloadavg", "posix:getloadavg", "posix:times"),
    "which machine it is": (
        "posix:uname", "posix:cpu_count", "posix:sched_getaffinity", "os:process_cpu_count",
        *(f"platform:{name}" for name in ("node", "release", "version", "machine", "platform", "processor")),
        "platform:uname",
    ),
    "who runs it": ("posix:getuid", "posix:geteuid", "posix:getgid", "posix:getegid", "posix:getgroups"),
    "what context it runs in": ("_contextvars:copy_context",),
    "what numbers will be drawn": ("numpy.random:get_state", "random:getstate"),
    "how the process is set up": (
        "signal:getsignal", "resource:getrlimit", "resource:getrusage", "posix:umask", "posix:nice",
        "posix:getpriority", "_ctypes:get_errno", "_thread:stack_size", "gc:isenabled", "gc:get_threshold",
        "gc:get_debug", "sys:getrecursionlimit", "sys:getswitchinterval", "sys:get_int_max_str_digits",
        "sys:gettrace", "sys:getprofile", "sys:stdin", "sys:stdout", "sys:stderr", "faulthandler:is_enabled",
        "_tracemalloc:is_tracing", "tempfile:gettempdir", "tempfile:gettempdirb", "_socket:getdefaulttimeout",
        *(f"multiprocessing{at}:get_{what}" for at in ("", ".context") for what in ("start_method", "context")),
    ),
    "what is logged": (
        "logging:getLogger", "logging:getLoggerClass", "logging:getHandlerByName", "logging:getLevelName",
        "logging:getLevelNamesMapping", "logging:root", "logging:Logger",
    ),
    "how numbers and texts are written": (
        *(f"numpy:{what}_printoptions" for what in ("get", "set")), "numpy:printoptions", "numpy:array2string",
        "numpy:array_repr", "numpy:array_str", "_csv:field_size_limit", "_csv:get_dialect", "_csv:list_dialects",
        "_csv:reader", "_csv:writer",
        *(
            f"locale:{name}"
            for name in (
                "atof", "atoi", "currency", "delocalize", "format_string", "getencoding", "getlocale",
                "getpreferredencoding", "localeconv", "localize", "setlocale", "str",
            )
        ),
        *(f"_locale:{name}" for name in ("getencoding", "localeconv", "nl_langinfo", "strcoll", "strxfrm")),
    ),
    "how numbers are computed": (
        *(f"numpy:{what}" for what in ("geterr", "seterr", "geterrcall", "seterrcall", "getbufsize", "setbufsize")),
        "decimal:getcontext", "decimal:localcontext",
        *(f"numba.np.ufunc.parallel:get_{what}" for what in ("num_threads", "parallel_chunksize", "thread_count")),
    ),
}  # fmt: skip
"""What can be asked, and by which names of `ownership.toolchain_name`."""
_TELLERS: dict[str, Callable[[], object]] = {
    **dict.fromkeys(_ABSTRACT, _registered_by_others), "decimal:Decimal": _decimal,
}  # fmt: skip
"""What code names without asking, in ``isinstance``, and by what it would tell if it were asked it counts."""
_OPAQUE = {name: what for what, names in _ASKS.items() for name in names}
_SPELLINGS = frozenset(name.rpartition(":")[2] for name in (*_OPAQUE, *_TELLERS))


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
    # The other module for locales is written in Python, and says None of what it doesn't know.
    named = ("atexit", "builtins", "logging", "signal", "_locale", "decimal")
    atexit, builtins, logging, signals, locale, _decimals = map(import_module, named)
    return (
        generators(), np.geterr(), np.geterrcall(), [(name, repr(it)) for name, it in np.get_printoptions().items()],
        gc.isenabled(), gc.get_threshold(), gc.get_debug(), _decimal(), locale.setlocale(locale.LC_ALL),
        sys.getrecursionlimit(), sys.getswitchinterval(), getattr(sys, "get_int_max_str_digits", int)(),
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


LISTENED_TO = ("warn", "warn_explicit")
"""What of `warnings` is listened to while something is compiled (diagnostics.py)."""


def who_warns(node: Node, name: str) -> object:
    """Return what of `warnings` is called so, whether or not somebody listens."""
    function = own_attributes.unheard(vars(warnings).get(name, MISSING))
    node.check(_still_warns, (name, function))
    return function


def _still_warns(warner: tuple[str, object]) -> bytes:
    name, function = warner
    return b"1" if own_attributes.unheard(vars(warnings).get(name, MISSING)) is function else b"0"


def tells(name: str | None) -> bool:
    """Whether the toolchain's function of that *name* tells more than its name does."""
    name = _as_listed(name)
    return name in _OPAQUE or name in _TELLERS


def _as_listed(name: str | None) -> str | None:
    """The *name* that a function has in the tables: some releases name it by the module in C in which it is."""
    return name[1:] if name is not None and name.startswith("_") and name not in _OPAQUE else name


def tell(node: Node, label: str, name: str | None) -> None:
    """Add to a *node* what the toolchain's function *name*, which its code has, tells.  Raises Unidentifiable."""
    name = _as_listed(name)
    if name in _OPAQUE:
        msg = f"{name.replace(':', '.')}, by which code that may run while compiling asks {_OPAQUE[name]}"
        raise Unidentifiable(msg)
    if name in _TELLERS:
        told = node.check(_told_by, name)
        node.part(label, told, f"{name} tells {told.decode()[:100]}")


def tell_imported(node: Node, label: str, module: str, reads: Iterable[tuple[tuple[str, ...], bool]]) -> None:
    """Add what is told by what code reads off a *module* of the toolchain, which it imports when it runs."""
    chains = {chain[:end] for chain, _handed_on in reads for end in range(1, len(chain) + 1)}
    for chain in sorted(chains):
        if chain[-1] in _SPELLINGS:
            try:
                teller = attrgetter(".".join(chain))(import_module(module))
            except (ImportError, AttributeError):  # what isn't there tells nothing
                continue
            tell(node, f"{label}.{'.'.join(chain)} tells", toolchain_name(teller))


def _told_by(name: str) -> bytes:
    return repr(_TELLERS[name]()).encode("utf-8", "surrogatepass")
