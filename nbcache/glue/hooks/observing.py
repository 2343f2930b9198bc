"""Hooks where a compilation has to do with others: what it chooses, uses and adds to them is noted."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from nbcache.glue import marks
from nbcache.glue.capture.compilations import Effect
from nbcache.glue.hooks.consulting import choices_of
from nbcache.glue.identity.idle import is_installed
from nbcache.glue.identity.past import Question, past_of
from nbcache.glue.overloads import effects, loops
from nbcache.glue.overloads.inherited import inherited
from nbcache.glue.overloads.loops import find_loop, kernel_of
from nbcache.passing import let_pass

if TYPE_CHECKING:
    from nbcache.glue.hooks.policy import Session


def noting_loops(original: Any, session: Session) -> Any:
    """Note the loops that a ufunc gains."""

    @functools.wraps(original)
    def compile_for_argtys(self: Any, argtys: Any, return_type: Any = None) -> Any:
        dispatcher, args = kernel_of(self), tuple(argtys)
        marks.show_as(self, dispatcher)
        before = len(dispatcher.overloads)
        given = inherited(dispatcher.targetdescr, dispatcher.targetoptions)
        if len(session.frames) and find_loop(self, args) is None:
            session.frames.note(Effect("ufunc", self, args, return_type, given, return_type is None))
        compiled = original(self, argtys, return_type)
        if len(dispatcher.overloads) > before:
            loops.made(session.history, dispatcher, given, return_type)
        return compiled

    return compile_for_argtys


def known_kernels(original: Any, session: Session) -> Any:
    """Note which gufunc a kernel is compiled for, and what it is made from."""

    @functools.wraps(original)
    def add(self: Any, fty: Any) -> Any:
        dispatcher = kernel_of(self)
        marks.show_as(self, dispatcher)
        before = len(dispatcher.overloads)
        original(self, fty)
        if len(dispatcher.overloads) > before:
            given = inherited(dispatcher.targetdescr, dispatcher.targetoptions)
            loops.made(session.history, dispatcher, given, None)

    return add


def known_choosers(original: Any, session: Session) -> Any:
    """Note what a template asks of a chooser."""

    @functools.wraps(original)
    def _get_impl(self: Any, args: Any, kws: Any) -> Any:
        choices = choices_of(session)
        if choices is None or not choices.concerns(self):
            return original(self, args, kws)
        vars(self)[marks.QUESTION] = Question(type(self), tuple(args), tuple(kws.items()))
        return choices.overload(original, self, args, kws, session.frames.top())

    return _get_impl


def inlined_choices(original: Any, session: Session) -> Any:
    """Note what a template inlines."""

    @functools.wraps(original)
    def run_pass(self: Any, state: Any) -> Any:
        choices = choices_of(session)
        if choices is None:
            return original(self, state)
        with choices.inlining(session.frames.top()):
            return original(self, state)

    return run_pass


def marked_choices(original: Any, _session: Session) -> Any:
    """Mark the dispatcher of what was chosen with who chose it."""

    @functools.wraps(original)
    def _get_jit_decorator(self: Any) -> Any:
        decorator, question = original(self), vars(self).get(marks.QUESTION)
        if question is None:
            return decorator

        def jit(**options: Any) -> Callable[[Any], Any]:
            def dispatcher_for(implementation: Any) -> Any:
                dispatcher = decorator(**options)(implementation)
                vars(dispatcher)[marks.CHOOSER] = question
                return dispatcher

            return dispatcher_for

        return jit

    return _get_jit_decorator


def known_intrinsics(original: Any, session: Session) -> Any:
    """Note what an intrinsic answers."""

    @functools.wraps(original)
    def generic(self: Any, args: Any, kws: Any) -> Any:
        choices = choices_of(session)
        if choices is None or not choices.concerns(self):
            return original(self, args, kws)
        return choices.intrinsic(original, self, args, kws, session.frames.top())

    return generic


def with_loops(original: Any, session: Session) -> Any:
    """A caller uses a loop that is there already: so it depends on what the loop was made from, and asked for."""

    @functools.wraps(original)
    def find_ewise_function(self: Any, ewise_types: Any) -> Any:
        found = original(self, ewise_types)
        if len(session.frames) and found[0] is not None:
            dispatcher, args = kernel_of(self), tuple(found[0].args)
            session.frames.include(past_of(dispatcher).consulted.get(args))
            session.frames.note(*effects.remembered(dispatcher, args))
            use = loops.used(session.history, self, dispatcher, args)
            session.frames.note(Effect("ufunc", self, tuple(ewise_types), None, *use))
        return found

    return find_ewise_function


def complete_overloads(_original: Any, session: Session) -> Any:
    """Whoever looks at a dispatcher's overloads sees those that are owed to it."""
    return effects.Overloads(session.frames)


def noting_neighborhoods(original: Any, session: Session) -> Any:
    """Note the neighborhood that a stencil is given."""

    @functools.wraps(original)
    def _stencil_wrapper(
        self: Any, result: Any, sigret: Any, return_type: Any, typemap: Any, calltypes: Any, *args: Any
    ) -> Any:
        with marks.finding_neighborhood(self):
            compiled = original(self, result, sigret, return_type, typemap, calltypes, *args)
        # Also where it was known by now: whoever loads the caller may be the first of its process.
        if self.options.get("neighborhood") is None:
            session.frames.note(Effect("stencil", self, (), self.neighborhood, (), True))
        return compiled

    return _stencil_wrapper


def reading_settings(original: Any, session: Session) -> Any:
    """`config.reload_config`, which reads all of the environment for each compilation, and for Numba alone."""
    conditions = session.maker.conditions

    def read() -> None:
        conditions.reading()
        original()
        conditions.have_read()

    @functools.wraps(original)
    def reload_config() -> None:
        if not len(session.frames):
            read()
            return
        if conditions.has_read_all():  # when the key was made
            return
        try:
            from nbcache.glue.capture.witness import looking_away  # it is there by now: frames have a witness

            looks_away: AbstractContextManager[None] = looking_away()
        except Exception as raised:  # noqa: BLE001  a program may refuse imports
            let_pass(raised)
            looks_away = nullcontext()
        with looks_away:
            read()

    return reload_config


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


def subroutines(original: Any, session: Session) -> Any:
    """`BaseContext.compile_subroutine`, which keeps what it has compiled for the next caller."""

    @functools.wraps(original)
    def compile_subroutine(self: Any, *args: Any, **named: Any) -> Any:
        frame = session.frames.top()
        if frame is None:
            return original(self, *args, **named)
        outer = frame.consulted
        frame.consulted = session.maker.new_part(outer)
        try:
            cres = original(self, *args, **named)
            kept = vars(cres.library).setdefault(marks.CONSULTED, frame.consulted)
        except BaseException:
            kept = frame.consulted
            raise
        finally:
            session.maker.end_part(frame.consulted)
            if kept is not frame.consulted:
                outer.codes |= frame.consulted.codes
            frame.consulted = outer
            outer.include(kept)
        return cres

    return compile_subroutine


def code_that_is_read(original: Any, session: Session) -> Any:
    """`ByteCode.__init__`: all code comes by there to be compiled, also what somebody lowers a call to."""
    top = session.frames.top

    @functools.wraps(original)
    def __init__(self: Any, func_id: Any) -> None:  # noqa: N807  its name
        frame = top()
        if frame is not None:
            try:
                if is_installed(func_id.code.co_filename):
                    frame.consulted.codes.add(func_id.code)
            except Exception as raised:  # noqa: BLE001  whatever it is, the program goes on
                let_pass(raised)
                frame.consulted.blind = True
        original(self, func_id)

    return __init__
