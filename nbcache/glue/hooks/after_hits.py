"""Stand-ins for what plain Numba would have done at its first compilation: a hit leaves that for later (deferring.py).

Who asks for it is answered as after a compilation.
"""

from __future__ import annotations

import functools
import importlib
import weakref
from typing import TYPE_CHECKING, Any

from numba.core import compiler_lock, entrypoints, types
from numba.core.registry import cpu_target
from numba.core.typing.typeof import typeof_impl

from nbcache.glue import marks
from nbcache.glue.hooks import deferring
from nbcache.glue.identity.declared import declares_extensions
from nbcache.passing import suppressed

if TYPE_CHECKING:
    from nbcache.glue.hooks.policy import Session


def loaded_whole(original: Any, session: Session) -> Any:
    """Where a compilation begins to load what Numba is made of, load all that a hit has put off."""

    def fill() -> None:
        """Who asks Numba's contexts after a hit, by hand or in a chooser, is answered as after a compilation."""
        if session.maker.extensions.settled_at is not None:
            session.frames.fill = None
            deferring.load()
            with compiler_lock.global_compiler_lock._lock:
                cpu_target.target_context.refresh()

    session.frames.fill = fill

    @functools.wraps(original)
    def load_additional_registries(self: Any) -> None:
        session.frames.fill = None
        deferring.load()
        with suppressed(Exception):
            from nbcache.glue.hooks import linear_algebra, reading_order  # a process that only hits asks for neither

            linear_algebra.presume()
            reading_order.keep(session.maker.extensions)
        original(self)
        deferring.put_off_linear_algebra()

    return load_additional_registries


def typing_after_hits(original: Any, session: Session) -> Any:
    """Refresh typing contexts when something is typed, and not whenever a dispatcher is called."""

    @functools.wraps(original)
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

    @functools.wraps(original)
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

    @functools.wraps(original)
    def _init_guard(self: Any) -> None:
        if not self._init and session.has_hits:
            self.initialize(cpu_target.target_context)
        original(self)

    return _init_guard


def lowered_later(original: Any, _session: Session) -> Any:
    """Import what lowers arrays when something is lowered."""

    @functools.wraps(original)
    def initialize(self: Any, ufunc: Any) -> None:
        this = weakref.ref(self)

        def make_ufunc_kernel(context: Any, builder: Any, sig: Any, args: Any, ufunc: Any, _kernel: None) -> Any:
            lowerer: Any = this()
            libraries = lowerer.libs
            original(lowerer, ufunc)
            lowerer.libs = libraries
            return lowerer(context, builder, sig, args)

        self.ufunc, self.kernel, self.make_ufunc_kernel_fn, self.libs = ufunc, None, make_ufunc_kernel, []

    return initialize


def extensions(original: Any, _session: Session) -> Any:
    """Leave out Numba's search for extensions where none is installed."""

    @functools.wraps(original)
    def init_all() -> None:
        if not entrypoints._already_initialized:
            entrypoints._already_initialized = not declares_extensions()
        original()

    return init_all


def before_types(original: Any, session: Session) -> Any:
    """Load extensions before types are made of arguments."""

    @functools.wraps(original)
    def _compilation_chain_init_hook(_self: Any) -> None:
        """As Numba's, which loads every package that extends it before it looks at an argument."""
        session.maker.installed.prepare()

    return _compilation_chain_init_hook


def deferred_after_hits(original: Any, session: Session) -> Any:
    """Define a template's overloads when somebody asks for them."""

    @functools.wraps(original)
    def get_type(self: Any) -> Any:
        found = original(self)
        if found.is_opaque and session.has_hits and not vars(self).get(marks.DEFINING):
            # Lowering the code that was loaded instead would have defined it; without a size LLVM ends the process.
            vars(self)[marks.DEFINING] = True
            try:
                self._define()
            finally:
                vars(self)[marks.DEFINING] = False
        return found

    return get_type
