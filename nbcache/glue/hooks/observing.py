"""Hooks where a compilation has to do with others: what it chooses, uses and adds to them is noted.

Numba keeps overloads and loops, subroutines, what its own choosers answered, and what couldn't be typed. Whoever uses
that later asks for none of what was asked for then, and depends on it: so that is kept as well. What was kept while
nobody noted that makes what uses it opaque.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from operator import attrgetter
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from numba.core import config
from numba.core.dispatcher import Dispatcher
from numba.core.targetconfig import ConfigStack
from numba.core.typing import templates

from nbcache.glue import own_attributes
from nbcache.glue.capture.compilations import Effect
from nbcache.glue.hooks.registry_reads import choices_of, unnoted
from nbcache.glue.identity.dispatcher_past import Question, past_of
from nbcache.glue.identity.marked_packages import is_installed
from nbcache.glue.identity.ownership import is_toolchain_file
from nbcache.glue.identity.registration import chooser_of
from nbcache.glue.overloads import effects, loops
from nbcache.glue.overloads.inherited_flags import inherited
from nbcache.glue.overloads.loops import find_loop, kernel_of
from nbcache.passing_exceptions import let_pass, suppressed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nbcache.glue.capture.compilations import Frame
    from nbcache.glue.capture.diagnostics import Asking
    from nbcache.glue.hooks.policy import Session
    from nbcache.glue.identity.asked_names import Consulted

_answers: WeakKeyDictionary[type, dict[Any, list[tuple[Consulted | None, Asking | None]]]] = WeakKeyDictionary()
"""By the class of a template of Numba's own, and by what Numba keeps an answer under: what its chooser asked for, and
whoever made sure that its choice compiles, None if nothing; and how it was asked, None if it warned of nothing."""


def noting_loops(original: Any, session: Session) -> Any:
    """Note the loops that a ufunc gains."""

    def compile_for_argtys(self: Any, argtys: Any, return_type: Any = None) -> Any:
        dispatcher, args = kernel_of(self), tuple(argtys)
        own_attributes.show_as(self, dispatcher)
        before = len(dispatcher.overloads)
        given = inherited(dispatcher.targetdescr, dispatcher.targetoptions)
        if len(session.frames) and find_loop(self, args) is None:
            session.frames.note(Effect("ufunc", self, args, return_type, given, return_type is None))
        elif len(session.frames):
            self.find_ewise_function(args)  # what calls that is given the loop that there is, as by `ufunc.at`
        compiled = original(self, argtys, return_type)
        if len(dispatcher.overloads) > before:
            loops.made(session.history, dispatcher, given, return_type)
        return compiled

    return compile_for_argtys


def known_kernels(original: Any, session: Session) -> Any:
    """Note which gufunc a kernel is compiled for, and what it is made from."""

    def add(self: Any, fty: Any) -> Any:
        dispatcher = kernel_of(self)
        own_attributes.show_as(self, dispatcher)
        before = len(dispatcher.overloads)
        original(self, fty)
        if len(dispatcher.overloads) > before:
            given = inherited(dispatcher.targetdescr, dispatcher.targetoptions)
            loops.made(session.history, dispatcher, given, None)

    return add


def known_choosers(original: Any, session: Session) -> Any:
    """Note what a template asks of a chooser."""

    def _get_impl(self: Any, args: Any, kws: Any) -> Any:
        choices = choices_of(session)
        if choices is None:
            return original(self, args, kws)
        with _decorating(session):
            if not choices.concerns(self):
                return _overload(original, self, args, kws, session)
            vars(self)[own_attributes.QUESTION] = Question(type(self), tuple(args), tuple(kws.items()))
            return choices.overload(original, self, args, kws, session.frames.top())

    return _get_impl


@contextmanager
def _jitting() -> Iterator[None]:
    before, config.DISABLE_JIT = config.DISABLE_JIT, 0
    try:
        yield
    finally:
        config.DISABLE_JIT = before


def _decorating(session: Session) -> AbstractContextManager[None]:
    """Have what a template chooses decorated, also while a program does without that for functions of its own.

    In plain Numba the template has kept what it chose for what is a hit here. Where it has nothing, Numba fails.
    """
    return _jitting() if config.DISABLE_JIT and session.has_hits else _AS_IT_IS


_AS_IT_IS: AbstractContextManager[None] = nullcontext()


def inlined_choices(original: Any, session: Session) -> Any:
    """Note what a template inlines."""

    def run_pass(self: Any, state: Any) -> Any:
        choices = choices_of(session)
        if choices is None:
            return original(self, state)
        with choices.inlining(session.frames.top()):
            return original(self, state)

    return run_pass


def marked_choices(original: Any, _session: Session) -> Any:
    """Mark the dispatcher of what was chosen with who chose it."""

    def _get_jit_decorator(self: Any) -> Any:
        decorator, question = original(self), vars(self).get(own_attributes.QUESTION)
        if question is None:
            return decorator

        def jit(**options: Any) -> Callable[[Any], Any]:
            def dispatcher_for(implementation: Any) -> Any:
                dispatcher = decorator(**options)(implementation)
                vars(dispatcher)[own_attributes.CHOOSER] = question
                return dispatcher

            return dispatcher_for

        return jit

    return _get_jit_decorator


def known_intrinsics(original: Any, session: Session) -> Any:
    """Note what an intrinsic answers."""

    def generic(self: Any, args: Any, kws: Any) -> Any:
        choices = choices_of(session)
        if choices is None:
            return original(self, args, kws)
        if not choices.concerns(self):
            return _intrinsic(original, self, args, kws, session)
        return choices.intrinsic(original, self, args, kws, session.frames.top())

    return generic


def with_loops(original: Any, session: Session) -> Any:
    """A caller uses a loop that is there already: so it depends on what the loop was made from, and asked for."""

    def find_ewise_function(self: Any, ewise_types: Any) -> Any:
        found = original(self, ewise_types)
        if len(session.frames) and found[0] is not None:
            dispatcher, args = kernel_of(self), tuple(found[0].args)
            use_kept(session, past_of(dispatcher).consulted.get(args))
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

    def _stencil_wrapper(
        self: Any, result: Any, sigret: Any, return_type: Any, typemap: Any, calltypes: Any, *args: Any
    ) -> Any:
        with own_attributes.finding_neighborhood(self):
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


def use_kept(session: Session, known: Consulted | None) -> None:
    """What is being compiled uses what Numba has kept, for which *known* was asked, None if nobody knows."""
    frame = session.frames.top()
    if known is not None:
        session.frames.include(known)
    elif frame is not None:
        frame.taint = frame.taint or "it uses a function that was compiled before the cache was switched on"


def list_warnings(session: Session, known: Consulted) -> None:
    """What is being compiled uses an overload that is there: it lists what that one's compilation warned of."""
    if known.caveats:
        from nbcache.glue.capture.diagnostics import listen_again

        listen_again(known.caveats, session.frames)


_told: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
"""By context of Numba's: at which reading of the registries (`ExtensionIndex.readings`) a hit last had it look."""


def refreshed(session: Session, target_context: Any) -> None:
    """A hit amid a compilation has Numba look for what was registered meanwhile, as a compilation does that begins.

    What a chooser has imported just now may say how the rest of the caller is typed.
    """
    if not len(session.frames):
        return
    try:
        session.maker.extensions.refresh()
    except Exception as raised:  # noqa: BLE001  whatever it is, the program goes on
        unnoted(session, raised)
    reading = session.maker.extensions.readings
    if _told.get(target_context) != reading:
        target_context.refresh()
        _told[target_context] = reading


def failed(dispatcher: Any, args: tuple[Any, ...], return_type: Any, closed: Consulted | None) -> None:
    """A compilation failed, if *closed*: who asks next is told so by Numba, and asks for none of what this one did."""
    if closed is not None and has_failed(dispatcher, args, return_type):
        before = past_of(dispatcher).consulted.get(args)
        if before is not None:  # and this one was told so
            closed.include(before)
        past_of(dispatcher).consulted[args] = closed


def has_failed(dispatcher: Any, args: tuple[Any, ...], return_type: Any) -> bool:
    """Whether Numba fails to compile that without trying."""
    return (args, return_type) in getattr(getattr(dispatcher, "_compiler", None), "_failed_cache", ())


@contextmanager
def _part(session: Session, frame: Frame) -> Iterator[Consulted]:
    """While this is entered, what is asked for is noted by itself; then it is a part of what the *frame* asked for."""
    outer = frame.consulted
    frame.consulted = part = session.maker.new_part(outer)
    try:
        yield part
    finally:
        session.maker.end_part(part)
        frame.consulted = outer
        outer.include(part)


def _overload(original: Callable[..., Any], template: Any, args: Any, kws: Any, session: Session) -> Any:
    """`_OverloadFunctionTemplate._get_impl` for a chooser of Numba's own, which may ask what classes stand for."""
    key = template.context, tuple(args), tuple(kws.items()), ConfigStack.top_or_none()
    return _asked(original, template, args, kws, key, session)


def _intrinsic(original: Callable[..., Any], template: Any, args: Any, kws: Any, session: Session) -> Any:
    """`_IntrinsicTemplate.generic` for an intrinsic of Numba's own, which may ask its context: `hasattr` does."""
    return _asked(original, template, args, kws, (template.context, args, tuple(kws.items())), session)


def _asked(original: Callable[..., Any], template: Any, args: Any, kws: Any, key: Any, session: Session) -> Any:
    """What *original* answers, and Numba keeps under *key*."""
    frame = session.frames.top()
    if frame is None:
        return original(template, args, kws)
    # Hashing the flags in a key takes longer than all else here.
    known = _answers.setdefault(type(template), {}).setdefault(key, [])
    if not known:
        from nbcache.glue.capture.diagnostics import Asking  # it is there by now: frames have a watch

        is_kept = key in template._impl_cache
        asking = Asking(lambda: _question(type(template), key), session.frames, is_kept=is_kept)
        with _part(session, frame) as asked, asking:
            if is_kept and not _forgotten(template, key):
                _ask_once_more(template, args, kws)
            answer = original(template, args, kws)
        known[:] = [(None if asked.is_empty else asked, asking if asking.said else None)]
        return answer
    ((part, warned),) = known
    if part is not None:
        frame.consulted.include(part)
    if warned is not None:
        warned.again()
    return original(template, args, kws)


def _question(template: type, key: tuple[Any, ...]) -> str:
    """What identifies in all processes what Numba keeps under *key*, which begins with the context."""
    from nbcache.glue.capture.diagnostics import ASKED
    from nbcache.glue.keys.flags import flag_components

    chooser: Any = chooser_of(template)
    _context, args, kws, *flags = key
    given = [None if each is None else flag_components(each) for each in flags]
    words = (chooser.__module__, chooser.__qualname__, chooser.__code__.co_firstlineno, str(args), str(kws), given)
    return ASKED + hashlib.blake2b(repr(words).encode(), digest_size=16).hexdigest()


def asked_before() -> Iterator[str]:
    """What Numba's own choosers were asked in this process, also while nobody noted it."""
    for base in templates._OverloadFunctionTemplate, templates._IntrinsicTemplate:
        for template in base.__subclasses__():
            kept, code = vars(template).get("_impl_cache"), getattr(chooser_of(template), "__code__", None)
            if kept and code is not None and is_toolchain_file(code.co_filename):
                yield from (_question(template, key) for key in [*kept])


def _forgotten(template: Any, key: Any) -> bool:
    """Have Numba make anew what it keeps under *key*, if that was compiled when nobody noted what it asked for."""
    kept = template._impl_cache[key]
    callee = kept[0] if isinstance(kept, tuple) else None
    made = vars(callee).get("overloads", ()) if isinstance(callee, Dispatcher) else ()
    if all(args in past_of(callee).consulted for args in made):
        return False
    del template._impl_cache[key]
    return True


def _ask_once_more(template: Any, args: Any, kws: Any) -> None:
    """Numba asked when nobody noted it, and keeps the answer: have the chooser ask for the same again."""
    chooser: Any = chooser_of(type(template))
    first = () if hasattr(template, "_overload_func") else (template.context,)
    with suppressed(Exception):  # it has asked for the same until then
        chooser(*first, *args, **kws)


_of_the_caller = attrgetter("fastmath", "enable_boundscheck", "enable_debuginfo", "auto_parallel")
"""What a subroutine has from whoever has it compiled, though Numba's key of it doesn't say so."""


def subroutines(original: Any, session: Session) -> Any:
    """`BaseContext.compile_subroutine`, which keeps what it has compiled for the next caller."""

    def compile_subroutine(self: Any, *args: Any, **named: Any) -> Any:
        frame = session.frames.top()
        if frame is None:
            return original(self, *args, **named)
        kept, code = self.cached_internal_func, (args[1] if len(args) > 1 else named["impl"]).__code__
        for key, made in list(kept.items()):
            if own_attributes.CONSULTED not in vars(made.library) and is_toolchain_file(key[0].co_filename):
                del kept[key]  # compiled when nobody noted what was asked for: once more, from the same text
            elif key[0] == code and _of_the_caller(made.target_context) != _of_the_caller(self):
                del kept[key]  # for another one's options: who loads it in another process may have none of these
        before = set(map(id, kept.values()))
        with _part(session, frame) as part:
            cres = original(self, *args, **named)
        library = vars(cres.library)
        if id(cres) in before:
            use_kept(session, library.get(own_attributes.CONSULTED))
        else:
            library[own_attributes.CONSULTED] = part
        return cres

    return compile_subroutine


def code_that_is_read(original: Any, session: Session) -> Any:
    """`ByteCode.__init__`: all code comes by there to be compiled, also what somebody lowers a call to."""
    top = session.frames.top

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
