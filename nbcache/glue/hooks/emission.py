"""Hooks where something of this process would go into code: names, locations, addresses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from numba.core import cgutils, ir, types
from numba.core.dispatcher import Dispatcher

from nbcache.glue import own_attributes
from nbcache.glue.capture.compilations import FrameStack
from nbcache.glue.entries import externals
from nbcache.passing_exceptions import let_pass, suppressed

if TYPE_CHECKING:
    from nbcache.glue.capture.compilations import Frame
    from nbcache.glue.hooks.policy import Session


def generator_names(original: Any, _session: Session) -> Any:
    """Give a generator's resuming function a name that no other build has."""

    def from_generator_fndesc(cls: Any, func_ir: Any, fndesc: Any, gentype: Any, mangler: Any) -> Any:
        descriptor = original(cls, func_ir, fndesc, gentype, mangler)
        # Numba leaves the unique id out, and the generator's type is named by its function's address.
        descriptor.mangled_name = f"{descriptor.mangled_name}.{fndesc.uid}"
        return descriptor

    return from_generator_fndesc


def kept_objects(original: Any, session: Session) -> Any:
    """Have the object of each library kept: a caller's entry may need it (callees.py)."""

    def create_library(self: Any, name: Any, **kwargs: Any) -> Any:
        library = original(self, name, **kwargs)
        if len(session.frames):
            library.enable_object_caching()
        return library

    return create_library


_written: list[str] = [""]
"""The text of the module that was written last, under the lock of Numba's compiler."""


def written_modules(original: Any, _session: Session) -> Any:
    """Keep the text that Numba writes to have it parsed: to have LLVM print it takes three times as long."""

    def normalize_ir_text(text: Any) -> Any:
        normalized = original(text)
        # It is asked about names of modules as well.
        if text.startswith("; ModuleID"):
            _written[0] = normalized
        return normalized

    return normalize_ir_text


def noted_modules(original: Any, _session: Session) -> Any:
    """Note what the front end made, before it is optimised (front_end.py)."""

    def add_llvm_module(self: Any, ll_module: Any) -> None:
        with suppressed(Exception):  # its entry has no digest then
            from nbcache.glue.entries import front_end

            text, _written[0] = _written[0], ""
            is_its_own = text.startswith(f'; ModuleID = "{ll_module.name}"\n')
            front_end.note(self, text if is_its_own else str(ll_module))
        original(self, ll_module)

    return add_llvm_module


def unique_ids(original: Any, session: Session) -> Any:
    """Take the number in symbol names from the compilation that is open.

    Numba's own is taken as well: others may have put theirs in the place of its counter, before or since, and what they
    count doesn't say which build a name belongs to.
    """

    def identified(cls: Any, pyfunc: Any) -> Any:
        identity = original(cls, pyfunc)
        identity.unique_id = session.frames.next_unique_id()
        identity.unique_name = f"{identity.func_qualname}${identity.unique_id}"
        return identity

    return identified


class _Pickles:
    """Stands in for the module ``serialize`` where Numba puts pickles into code.

    Other callers of that module pickle for somebody else: who sends a dispatcher to another process
    may do so while something is compiled.
    """

    def __init__(self, original: Any, frames: FrameStack) -> None:
        self._original = original
        self._frames = frames
        # The second is how it was spelt before 0.67.
        name = "is_serializable" if hasattr(original, "is_serializable") else "is_serialiable"
        self._is_serializable = getattr(original, name)
        setattr(self, name, self._can_be_written_down)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def dumps(self, obj: Any) -> bytes:
        frame = self._frames.top()
        if frame is None or not frame.portable:
            return self._original.dumps(obj)
        try:
            from nbcache.glue.entries import pickling

            return pickling.dumps(obj, frame)
        except Exception as exc:  # noqa: BLE001  what plain Numba can pickle must go on compiling
            let_pass(exc)
            pickled = self._original.dumps(obj)
            frame.taint = frame.taint or f"it holds something that can't be written down ({exc})"
            return pickled

    def _can_be_written_down(self, obj: Any) -> bool:
        if self._is_serializable(obj):  # before 0.67 this raises for some objects, and a program gets to see that
            return True
        frame = self._frames.top()
        if frame is not None and frame.portable:
            with suppressed(Exception):
                from nbcache.glue.entries import pickling

                pickling.dumps(obj, frame)
                return True
        return False


def with_pickles(original: Any, session: Session) -> Any:
    """Pickle what goes into code with placeholders."""
    return _Pickles(original, session.frames)


def _give_up(frame: Frame, raised: Exception) -> None:
    """What is compiled has something of this process in it, and is for this process alone."""
    let_pass(raised)
    frame.taint = frame.taint or f"it could not be freed of what is this process's ({raised})"


def excinfo(original: Any, session: Session) -> Any:
    """Keep exceptions' places as placeholders, also in what they say."""

    def build_excinfo_struct(self: Any, exc: Any, exc_args: Any, loc: Any, func_name: Any) -> Any:
        exc, exc_args, location = original(self, exc, exc_args, loc, func_name)
        frame = session.frames.top()
        if frame is not None and frame.portable:
            try:
                from nbcache.glue.capture import placeholders

                if location is not None:
                    location = placeholders.live_location(frame, location)
                elif exc_args:
                    # No statement of the program's: what Numba raises for it may say in words where, for arrays whose
                    # sizes differ.
                    exc_args = tuple(
                        placeholders.live_text(frame, each) if isinstance(each, str) else each for each in exc_args
                    )
            except Exception as raised:  # noqa: BLE001  what plain Numba can compile must go on compiling
                _give_up(frame, raised)
        return exc, exc_args, location

    return build_excinfo_struct


def dynamic_addresses(original: Any, session: Session) -> Any:
    """Put a symbol where an address of this process would be compiled in."""

    def add_dynamic_addr(self: Any, builder: Any, intaddr: int, info: Any) -> Any:
        frame = session.frames.top()
        symbol, whose = None, ""
        if frame is not None and frame.portable:
            try:
                from nbcache.glue.capture import addresses, placeholders

                symbol = placeholders.live_address(frame, intaddr)
                if symbol is None and not frame.refusal and frame.reach is not None:
                    whose = addresses.owners_in_words(intaddr, frame.reach)
            except Exception as raised:  # noqa: BLE001  as above
                _give_up(frame, raised)
        if symbol is None:
            externals.note_address(intaddr, whose or re.sub(_ADDRESS, "", str(info)))
            return original(self, builder, intaddr, info)
        variable = builder.module.globals.get(symbol)
        if variable is None:
            variable = cgutils.add_global_variable(builder.module, self.get_value_type(types.voidptr), symbol)
        loaded = builder.load(variable)
        if intaddr:
            # As LLVM knows of an address that is compiled in: code that asks Python for one is left out then.
            loaded.set_metadata("nonnull", builder.module.add_metadata([]))
        return loaded

    return add_dynamic_addr


def with_recipe(original: Any, _session: Session) -> Any:
    """Note what a function was made of that Numba made of a closure."""

    def _create_function_from_code_obj(fcode: Any, func_env: str, func_arg: str, func_clo: str, glbls: Any) -> Any:
        function = original(fcode, func_env, func_arg, func_clo, glbls)
        vars(function)[own_attributes.RECIPE] = (fcode, func_env, func_arg, func_clo)
        return function

    return _create_function_from_code_obj


def known_closures(original: Any, session: Session) -> Any:
    """Note the dispatchers that Numba made of closures in what is compiled."""

    def run_pass(self: Any, state: Any) -> Any:
        mutated = original(self, state)
        frame = session.frames.top()
        if mutated and frame is not None:
            assignments = (stmt for block in state.func_ir.blocks.values() for stmt in block.find_insts(ir.Assign))
            values = [stmt.value.value for stmt in assignments if isinstance(stmt.value, ir.Global)]
            frame.closures += [
                value
                for value in values
                if isinstance(value, Dispatcher) and own_attributes.RECIPE in vars(value.py_func)
            ]
        return mutated

    return run_pass


_ADDRESS = r"\s*(at )?0x[0-9a-fA-F]+"


def cfunc_class() -> Any:
    """`numba.core.ccallback.CFunc`, whose module isn't imported before it is needed."""
    from numba.core.ccallback import CFunc

    return CFunc


def stencil_class() -> Any:
    """`numba.stencils.stencil.StencilFunc`, likewise."""
    from numba.stencils.stencil import StencilFunc

    return StencilFunc


def without_placeholders(original: Any, _session: Session) -> Any:
    """Keep no code in files that a package names which was linked with some of nbcache's, of an older callee."""

    def check_cachable(self: Any, cres: Any) -> bool:
        from nbcache.glue.capture.placeholders import tokens_in

        return original(self, cres) and not tokens_in(cres.library._get_compiled_object())

    return check_cachable
