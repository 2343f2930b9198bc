"""What a process that hits may never need: hooks that put it off, and loading it in time.

A hit takes a hundredth of what it takes to import the two hundred modules that the first compilation of a process
imports, so these stay unloaded. In plain Numba they are there from the first call on. So they are loaded, all at once,

* when something is compiled after all;
* before the process gives up what it could open them with, other user or group, ``chroot`` or limits (`_GIVING_UP`):
  the functions of `os` and `resource` for it have stand-ins meanwhile. A few descriptors are kept in reserve, since
  a program that runs out of them doesn't say so before;
* before `mock.patch.dict` is used for `sys.modules`, which it puts back without what was imported meanwhile;
* when somebody reads an attribute off a package of Numba's that isn't there, and which such a module would be.

Not seen: who gives up rights past `os`, by `ctypes` say, or the files themselves change; and who looks at `sys.modules`
or at ``vars`` of a package. A thread that loads the rest was left: it takes half a second of a processor's time, which
is more than a short program has, forks meet it in the middle of an import, and it helps nobody who is faster.
"""

from __future__ import annotations

import errno
import functools
import importlib
import os
import sys
from types import FrameType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from numba.core import compiler_lock, entrypoints, types
from numba.core.registry import cpu_target
from numba.core.typing.typeof import typeof_impl

import _nbcache
from nbcache import process
from nbcache.glue import own_attributes
from nbcache.glue.identity.entry_points import declares_extensions
from nbcache.glue.keys.conditions import SettingsOfThen
from nbcache.glue.keys.installed_extensions import warning_as_numba
from nbcache.passing_exceptions import let_pass, suppressed

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbcache.glue.hooks.policy import Session
    from nbcache.glue.keys.key_maker import KeyMaker

_LAST: Final = "numba.core.boxing"
"""What a compilation imports last."""
_ONLY_FOR_MISSES: Final = (
    "numba.core.runtime.context",
    _LAST,
    *("nbcache.glue.capture." + name for name in ("diagnostics", "placeholders", "witness")),
    "nbcache.glue.identity.kinds",
    *("nbcache.glue." + name for name in ("entries.pack", "keys.choices", "requests.requested")),
)
"""What a process that hits never loads, beside what filling Numba's registries does."""
_GIVING_UP: Final = frozenset({
    "setuid", "seteuid", "setreuid", "setresuid", "setgid", "setegid", "setregid", "setresgid", "setgroups",
    "initgroups", "chroot", "unshare", "setns", "setrlimit", "prlimit",
})  # fmt: skip
"""Functions of `os` and `resource` after which a file that could be opened before may be closed to the process."""
_LIMITER: Final = "threadpoolctl"
"""What sets the number of threads of each library for linear algebra that is loaded when it is asked to."""
_MOCK, _PATCHES = "unittest.mock", "_patch_dict"
"""Where `patch.dict` is, and what its class and the method are called that begins it."""
_PACKAGES: Final = (
    *("numba." + name for name in ("core", "cpython", "experimental", "misc", "np", "typed")),
    *("numba.core." + name for name in ("runtime", "typing", "unsafe")),
    *("numba." + name for name in ("cpython.unsafe", "experimental.jitclass", "np.types", "np.unsafe")),
)
"""Those that compiling adds modules to."""
_SPARE: Final = 3
"""How many descriptors are in reserve: an import has one open at a time, and a lease is another one."""


class _Rest:
    """What is to be loaded in this process, and what stands in places of others' until it is."""

    def __init__(self, load_it: Callable[[], None], packages: tuple[str, ...] = (), first: Any = None) -> None:
        self._load_it = load_it
        self.first: Callable[[], object] = first or (lambda: None)  # before that, without Numba's lock
        self._then = SettingsOfThen()
        self._package_names = packages
        self.is_loading = False
        self._spare: list[int] = []
        self._file = (0, 0)
        self._stand_ins: list[tuple[Any, str, Any, Any]] = []
        self._packages: list[ModuleType] = []

    def put_off(self) -> None:
        """Stand in the places."""
        if process.os.geteuid() == 0 and _is_bound_elsewhere():
            load_whole()
            return
        _once_imported(_LIMITER, _load_limited)
        self._stand_in(os)
        if "resource" in sys.builtin_module_names:
            self._attend_limits()
        else:
            _once_imported("resource", self._attend_limits)
        _once_imported(_MOCK, self._attend_patches)
        for name in self._package_names:
            package = sys.modules.get(name)
            if type(package) is ModuleType:
                package.__class__ = _Package
                self._packages.append(package)
        with suppressed(OSError, ValueError):
            self._reserve()

    def _attend_limits(self) -> None:
        if self in (_rest, _linear_algebra):
            self._stand_in(importlib.import_module("resource"))

    def _attend_patches(self) -> None:
        patcher = getattr(sys.modules[_MOCK], _PATCHES, None)
        original = vars(patcher).get(_PATCHES) if isinstance(patcher, type) else None
        if self in (_rest, _linear_algebra) and type(original) is FunctionType:
            stand_in = _loading_first(original, _patches_modules)
            setattr(patcher, _PATCHES, stand_in)
            self._stand_ins.append((patcher, _PATCHES, original, stand_in))

    def _stand_in(self, module: Any) -> None:
        for name in _GIVING_UP:
            original = getattr(module, name, None)
            if type(original) is type(len):  # else it is somebody's already, a mock's say
                stand_in = _loading_first(original, _gives_up)
                setattr(module, name, stand_in)
                self._stand_ins.append((module, name, original, stand_in))

    def _reserve(self) -> None:
        """Keep descriptors, of a file that is no other's, so that they can be told from what a program opens later."""
        here, other = process.os.pipe()
        try:
            status = process.os.fstat(here)
            self._file = status.st_dev, status.st_ino
            while len(self._spare) < _SPARE:
                self._spare.append(process.out_of_the_way(here))
        finally:
            process.os.close(here)
            process.os.close(other)

    @staticmethod
    def has_room() -> bool:
        """Whether there are descriptors for a compilation: besides what is imported, for a lease and for records."""
        opened: list[int] = []
        try:
            while len(opened) <= _SPARE:
                opened.append(process.os.open(os.devnull, process.os.O_RDONLY))
        except OSError as raised:
            let_pass(raised)
            return raised.errno != errno.EMFILE
        finally:
            for fd in opened:
                process.os.close(fd)
        return True

    def make_room(self) -> None:
        """Close what is kept in reserve, unless the program did, and opened its own under that number."""
        for fd in self._spare:
            with suppressed(OSError):
                status = process.os.fstat(fd)
                if (status.st_dev, status.st_ino) == self._file:
                    process.os.close(fd)
        self._spare.clear()

    def load(self) -> None:
        """Import it, and take the stand-ins out of the places."""
        self.is_loading = True
        self.make_room()
        try:
            with self._then:
                self._load_it()
        except Exception as raised:  # noqa: BLE001  who compiles meets it again, as without nbcache
            let_pass(raised)
        finally:
            self.is_loading = False
        self._give_back()

    def _give_back(self) -> None:
        for module, name, original, stand_in in self._stand_ins:
            if vars(module).get(name) is stand_in:
                setattr(module, name, original)
        for package in self._packages:
            if type(package) is _Package:
                package.__class__ = ModuleType  # type: ignore[assignment]  # as it was


_rest: _Rest | None = None
"""None while there is nothing that was put off."""
_linear_algebra: _Rest | None = None
"""The same for SciPy's, which no compilation loads that doesn't call it."""


def put_off(maker: KeyMaker, needed: tuple[str, ...]) -> None:
    """The first hit of this process: what compiling would have loaded is loaded later, or never.

    *needed*: modules that the client needs then.
    """

    def load_it() -> None:
        load_all(maker.installed.load)
        for name in needed:
            importlib.import_module(name)
        # A key reads files of Numba's that was loaded late: unreadable ones would make it another key.
        maker.conditions.digest()

    global _rest
    if _rest is None and _LAST not in sys.modules:
        _rest = _Rest(load_it, _PACKAGES, maker.installed.prepare_all)
        _rest.put_off()


def load() -> None:
    """Load what was put off by hits, as a compilation does."""
    global _rest
    if _rest is None:
        return
    _rest.first()
    cpu_target.target_context  # noqa: B018  made under a lock of its own, so never within the compiler's
    with compiler_lock.global_compiler_lock._lock:
        rest = _rest
        if rest is None or rest.is_loading:  # further up in this thread
            return
        rest.load()
        _rest = None
        _put_off_linear_algebra()


def wait(seconds: float) -> None:
    """Let another thread load what was put off, before a fork.

    A child would find half of it, and locks of imports that nobody gives back.
    """
    rest, lock = _rest, compiler_lock.global_compiler_lock._lock
    if rest is not None and rest.is_loading and lock.acquire(timeout=seconds):
        lock.release()


def load_whole() -> None:
    """Load all that was put off: later it may not be possible any more."""
    global _linear_algebra
    load()
    with compiler_lock.global_compiler_lock._lock:
        rest = _linear_algebra
        if rest is not None and not rest.is_loading:
            rest.load()
            _linear_algebra = None


def _load_limited() -> None:
    """Load SciPy's library: threads that a program set limits to are there by now in plain Numba."""
    from nbcache.glue.hooks import linear_algebra  # as below

    linear_algebra.load()


def _put_off_linear_algebra() -> None:
    """Numba was told that it is there; once something has imported it, nothing stands in anybody's place any more."""
    global _linear_algebra
    with suppressed(Exception):  # a program may refuse all further imports
        from nbcache.glue.hooks import linear_algebra  # a process that only hits asks for none

        is_missing = linear_algebra.is_missing()
        if _linear_algebra is not None and not is_missing:
            load_whole()
        elif _rest is None and _linear_algebra is None and is_missing:
            _linear_algebra = _Rest(linear_algebra.load)
            _linear_algebra.put_off()


def make_room() -> None:
    """Something may be compiled now: where the program has nearly used up its descriptors, load all before that."""
    rest = _rest or _linear_algebra
    if rest is not None and not rest.is_loading and not rest.has_room():
        load_whole()


def load_all(load_extensions: Callable[[], None]) -> None:
    """Import Numba whole and fill its registries, as the first compilation of a process would; and what nbcache needs.

    Compiles nothing but Numba's runtime. Raises what importing raises.
    """
    load_extensions()
    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()
    for name in _ONLY_FOR_MISSES:
        importlib.import_module(name)


class _Package(ModuleType):
    """A package of Numba's some modules of which aren't loaded yet."""

    def __getattr__(self, name: str) -> Any:
        # Who imports a module asks the package for it first, and what is being imported isn't its attribute yet.
        by_import = sys._getframe(1).f_code.co_filename == "<frozen importlib._bootstrap>"
        if not (name.startswith("__") or by_import or f"{self.__name__}.{name}" in sys.modules):
            load()
        return ModuleType.__getattribute__(self, name)

    def __dir__(self) -> Any:
        load()
        return ModuleType.__dir__(self)


def _once_imported(name: str, attend: Callable[[], None]) -> None:
    """Call *attend* now, where a module is loaded, or else when it has been imported."""
    if name in sys.modules:
        attend()
    else:
        _nbcache.watch(name, attend)


def _loading_first(original: Any, has_to: Callable[..., bool]) -> Callable[..., Any]:
    @functools.wraps(original)
    def stand_in(*args: Any, **kwargs: Any) -> Any:
        if has_to(*args):
            load_whole()
        return original(*args, **kwargs)

    return stand_in


def _gives_up(*_args: object) -> bool:
    """Whether this isn't what `subprocess` calls in a child (``preexec_fn``), which compiles nothing any more."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_name != "_execute_child":
        frame = frame.f_back
    return frame is None


def _patches_modules(patch: Any) -> bool:
    return patch.in_dict is sys.modules or (isinstance(patch.in_dict, str) and patch.in_dict == "sys.modules")


def _is_bound_elsewhere() -> bool:
    """Whether somebody has a function of `os` under a name of his own, by ``from os import setuid`` say."""
    # Nobody has all of them. To look into all modules takes as long as a fifth of a hit.
    return len({sys.getrefcount(getattr(os, name)) for name in _GIVING_UP if hasattr(os, name)}) > 1


def loaded_whole(original: Any, session: Session) -> Any:
    """Where a compilation begins to load what Numba is made of, load all that a hit has put off."""

    def fill() -> None:
        """Who asks Numba's contexts after a hit, by hand or in a chooser, is answered as after a compilation."""
        if session.maker.extensions.settled_at is not None:
            session.maker.fill = None
            load()
            with compiler_lock.global_compiler_lock._lock:
                cpu_target.target_context.refresh()

    session.maker.fill = fill

    def load_additional_registries(self: Any) -> None:
        session.maker.fill = None
        # Before Numba's own is read, as in plain Numba: a hit may come here, in a chooser, while they still wait.
        if session.maker.installed.waiting:
            session.maker.installed.load()
        load()
        with suppressed(Exception):
            from nbcache.glue.hooks import linear_algebra, registry_order  # as above

            linear_algebra.presume()
            registry_order.keep(session.maker.extensions)
        original(self)
        _put_off_linear_algebra()

    return load_additional_registries


def typing_after_hits(original: Any, session: Session) -> Any:
    """Refresh typing contexts when something is typed, and not whenever a dispatcher is called."""

    def typeof_pyval(self: Any, val: Any) -> Any:
        typ = original(self, val)
        if typ is types.pyobject and session.maker.installed.waiting:
            session.maker.installed.load()
            typ = original(self, val)
        return typ

    return typeof_pyval


def typeof_after_hits(original: Any, session: Session) -> Any:
    """Where nothing says what type a value has, import what would say so after a compilation."""
    unknown = typeof_impl.dispatch(object)

    def _typeof_buffer(val: Any, c: Any) -> Any:
        typ = original(val, c)
        if typ is None and session.has_hits:
            session.maker.installed.load()
            importlib.import_module("numba.experimental.function_type")  # for a CFunc
            known = typeof_impl.dispatch(type(val))
            typ = None if known is unknown else known(val, c)
        return typ

    return _typeof_buffer


def runtime_after_hits(original: Any, session: Session) -> Any:
    """Initialise Numba's runtime when somebody asks for it who relies on a compilation to have done that."""

    def _init_guard(self: Any) -> None:
        if not self._init and session.has_hits:
            self.initialize(cpu_target.target_context)
        original(self)

    return _init_guard


def extensions(original: Any, _session: Session) -> Any:
    """Leave out Numba's search for extensions where none is installed."""

    def init_all() -> None:
        if not entrypoints._already_initialized:
            entrypoints._already_initialized = not declares_extensions()
        with warning_as_numba(), process.only_young_collected():
            original()

    return init_all


def before_types(_original: Any, session: Session) -> Any:
    """Load extensions before types are made of arguments."""

    def _compilation_chain_init_hook(_self: Any) -> None:
        """As Numba's, which loads every package that extends it before it looks at an argument."""
        session.maker.installed.prepare()

    return _compilation_chain_init_hook


def deferred_after_hits(original: Any, session: Session) -> Any:
    """Define a template's overloads when somebody asks for them."""

    def get_type(self: Any) -> Any:
        found = original(self)
        if found.is_opaque and session.has_hits and not vars(self).get(own_attributes.DEFINING):
            # Lowering the code that was loaded instead would have defined it; without a size LLVM ends the process.
            vars(self)[own_attributes.DEFINING] = True
            try:
                self._define()
            finally:
                vars(self)[own_attributes.DEFINING] = False
        return found

    return get_type
