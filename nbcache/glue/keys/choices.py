"""Other people's choosers: what they answered, and asking them again.

The function under an ``@overload`` is called by Numba with types, and returns the function to compile for
them; the one under an ``@intrinsic`` returns a signature and a function that makes the code.  What such a
chooser reads (a flag in another module, the environment, a file) can't be known in general, so an entry
says what choosers were asked and what identifies their answers, and a hit asks them again: they run where
a compilation would have run them, and only their answers have to be the same.

Numba keeps an answer for each set of types and flags, and asks once.  So does this: what a hit was
answered, Numba is answered too when it comes to ask, and the other way round.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Protocol

from numba.core.errors import NumbaError
from numba.core.registry import cpu_target
from numba.core.targetconfig import ConfigStack
from numba.core.typing import templates

from nbcache.glue import own_attributes
from nbcache.glue.capture.compilations import Frame
from nbcache.glue.identity.asked_names import Ask
from nbcache.glue.identity.attributes import leads_to_code
from nbcache.glue.identity.bytecode import nested_codes
from nbcache.glue.identity.describe_numba import made_of, types_in
from nbcache.glue.identity.differences import changed
from nbcache.glue.identity.graph import IdentityEngine
from nbcache.glue.identity.node import ANYTHING, Scope, Unidentifiable
from nbcache.glue.identity.registration import chooser_of, foreign_parts, is_asked
from nbcache.glue.identity.registrations import ExtensionIndex
from nbcache.passing_exceptions import let_pass

NO_ANSWER = b"none"
REFUSED = b"refused"
_INLINED, _TYPED = "inlined", "typed"
"""In the place of flags: asked by the pass that inlines; for a signature, which Numba keeps for nobody."""
_Question = tuple[Any, ...]
_stand_ins: list[tuple[Any, str, Any]] = []
"""Templates whose choosers are answered for while the cache is off: the attribute, and what it holds otherwise."""


class Answer:
    """What a chooser returned in this process.

    ``raw``: just that; ``chosen``: the function in it that gets compiled, or makes code; ``types``: those in
    it; ``again``: whether Numba asks anew each time; ``runs``: whether what was chosen runs while compiling, and
    isn't compiled; ``hands_on``: whether the question's types bring modules along.
    """

    __slots__ = ("again", "chosen", "hands_on", "known", "raw", "root", "runs", "types")

    def __init__(
        self, raw: Any, chosen: Any, types: tuple[Any, ...], *, again: bool = False, runs: bool = False
    ) -> None:
        self.raw = raw
        self.runs = runs
        self.chosen = chosen
        self.types = types
        self.again = again
        self.hands_on: bool | None = None
        self.known: tuple[bytes, Scope] | None = None
        self.root = [chosen] if runs else chosen
        """What is identified; a list is nothing that Numba compiles, so what it holds counts as what runs."""


_REFUSAL = Answer(None, None, (), again=True)
"""An exception, or that the question didn't fit."""


class Identities(Protocol):
    """Who knows what things are, and what is registered."""

    extensions: ExtensionIndex
    engine: IdentityEngine

    def type_digest(self, typ: Any) -> bytes:
        """Identity of a type in a signature."""

    def type_scoped(self, typ: Any) -> tuple[bytes, Scope | None]:
        """The same with the scope that it holds in; None if it always does."""

    def hands_on(self, typ: Any) -> bool:
        """Whether a type of a signature brings a module along."""

    def together(self, root: object, types: tuple[Any, ...]) -> bytes:
        """What a function and types read off modules that one of them hands on."""


class Choices:
    """The answers of one process."""

    def __init__(self, maker: Identities) -> None:
        self._maker = maker
        self._answers: dict[_Question, Answer] = {}
        self._foreign: dict[type, bool] = {}
        self._flags: dict[Any, str] = {}
        while _stand_ins:
            template, field, original = _stand_ins.pop()
            setattr(template, field, original)

    # -- while compiling -----------------------------------------------------------------------------

    def concerns(self, template: Any) -> bool:
        """Whether *template* asks somebody else."""
        cls = type(template)
        foreign = self._foreign.get(cls)
        if foreign is None:
            foreign = self._foreign[cls] = is_asked(chooser_of(cls))
        return foreign

    def overload(self, original: Callable[..., Any], template: Any, args: Any, kws: Any, frame: Frame | None) -> Any:
        """`_OverloadFunctionTemplate._get_impl` for somebody else's chooser."""
        question = (type(template), tuple(args), tuple(kws.items()), self._words(ConfigStack.top_or_none()))
        return self._put(question, frame, original, template, args, kws, "_overload_func", _overloaded)

    def intrinsic(self, original: Callable[..., Any], template: Any, args: Any, kws: Any, frame: Frame | None) -> Any:
        """`_IntrinsicTemplate.generic` for somebody else's intrinsic."""
        question = (type(template), tuple(args), tuple(kws.items()), "")
        return self._put(question, frame, original, template, args, kws, "_definition_func", _defined)

    def _put(
        self,
        question: _Question,
        frame: Frame | None,
        original: Callable[..., Any],
        template: Any,
        args: Any,
        kws: Any,
        field: str,
        answer_of: Callable[[Any], Answer],
    ) -> Any:
        """Have Numba put the question, with a function in the chooser's place that listens.

        Noted in the order in which plain Numba asks: before what the answer asks for when it is compiled.
        """
        chooser = own_attributes.unheard(getattr(template, field))
        noted = False

        def note() -> None:
            nonlocal noted
            if not noted:
                noted = True
                self._note(frame, question)

        @functools.wraps(chooser)
        def ask(*args: Any, **kws: Any) -> Any:
            known = self._answers.get(question)
            if known is None or known.again:
                self._answers[question] = _REFUSAL
                with _looking_away():
                    raw = chooser(*args, **kws)
                known = self._answers[question] = answer_of(raw)
            note()
            return known.raw

        known = self._answers.get(question)
        if known is not None and not known.again:
            note()
        setattr(template, field, ask)
        try:
            return original(template, args, kws)
        finally:
            setattr(template, field, chooser)
            note()

    def signature(self, original: Callable[..., Any], template: Any, args: Any, kws: Any, frame: Frame) -> Any:
        """`apply` of somebody else's template that says what type a call has, and nothing else."""
        question = (type(template), tuple(args), tuple(kws.items()), _TYPED)
        answer = _REFUSAL
        try:
            with _looking_away():
                sig = original(template, args, kws)
            answer = _signed(sig)
        finally:
            self._answers[question] = answer
            self._note(frame, question)
        return sig

    @contextmanager
    def inlining(self, frame: Frame | None) -> Iterator[None]:
        """While Numba inlines overloads, for which it asks once more, without keeping the answer."""
        templates = self._maker.extensions.inlined() if frame is not None else ()
        originals = [(template, vars(template)["_overload_func"]) for template in templates]
        for template, original in originals:
            template._overload_func = staticmethod(
                self._heard(template, own_attributes.unheard(original.__func__), frame)
            )
        try:
            yield
        finally:
            for template, original in originals:
                template._overload_func = original

    def _heard(self, template: Any, chooser: Any, frame: Frame | None) -> Any:
        @functools.wraps(chooser)
        def ask(*args: Any) -> Any:
            question = (template, args, (), _INLINED)
            self._answers[question] = _REFUSAL
            try:
                with _looking_away():
                    raw = chooser(*args)
                self._answers[question] = Answer(raw, raw, (), again=True)
            finally:
                self._note(frame, question)
            return raw

        own_attributes.listen_for(chooser, ask)
        return ask

    def leave(self) -> None:
        """The cache is switched off: whoever was answered on a hit gives that answer to Numba too, without it."""
        for template in {question[0] for question, answer in self._answers.items() if not answer.again}:
            field = "_overload_func" if hasattr(template, "_overload_func") else "_definition_func"
            original = vars(template).get(field)
            if isinstance(original, staticmethod):
                _stand_ins.append((template, field, original))
                setattr(template, field, staticmethod(self._standing_in(template, field, original.__func__)))

    def _standing_in(self, template: Any, field: str, chooser: Any) -> Any:
        @functools.wraps(chooser)
        def ask(*args: Any, **kws: Any) -> Any:
            overloaded = field == "_overload_func"
            types = args if overloaded else args[1:]
            words = self._words(ConfigStack.top_or_none()) if overloaded else ""
            known = self._answers.get((template, types, tuple(kws.items()), words))
            return chooser(*args, **kws) if known is None or known.again else known.raw

        return ask

    def _words(self, flags: Any) -> str:
        if flags is None:
            return ""
        words = self._flags.get(flags)
        if words is None:
            from nbcache.glue.keys.flags import flag_components

            text = repr(flag_components(flags)).encode()
            words = self._flags[flags] = hashlib.blake2b(text, digest_size=8).hexdigest()
        return words

    def _note(self, frame: Frame | None, question: _Question) -> None:
        """Note on the frame what was asked; what nothing identifies can't become an entry.

        Nor can what asks for it: whoever calls this may have taken another way because it failed.
        """
        if frame is None or frame.consulted.conflict:
            return
        template, args, kws, flags = question
        try:
            name, position = self._maker.extensions.place(template)
            # Numba asked before nbcache was switched on, or wasn't asked at all: the types don't fit the parameters.
            chosen = self._answers.get(question, _REFUSAL)
            answer = self._digest(chosen, args, kws)
            if chosen.known is not None and chosen.known[1].ends:
                from nbcache.glue.capture.code_that_ran import running  # a process that only hits has no frame

                running.begin()
            config = ConfigStack.top_or_none()
            config = None if config is None else config.copy()
            frame.consulted.asks.setdefault(Ask(name, position, args, kws, flags, answer, config))
        except Exception as exc:  # noqa: BLE001  whatever it is, the program goes on
            let_pass(exc)
            frame.consulted.conflict = f"what {template.__name__} chose for it: {exc}"

    def _digest(self, answer: Answer, args: tuple[Any, ...], kws: tuple[tuple[str, Any], ...]) -> bytes:
        """Identity of an answer to a question about these types, of which what was chosen may read modules."""
        if answer.chosen is None:
            return REFUSED if answer is _REFUSAL else NO_ANSWER
        with self._maker.engine.steady():
            if answer.known is None or not answer.known[1].unchanged():
                answer.known = self._maker.engine.scoped_for_good(answer.root)
            asked = (*args, *(typ for _name, typ in kws))
            content = answer.known[0]
            for typ in answer.types:
                content += self._type_among(typ, asked)
            opened = [typ for typ in asked if self._maker.type_scoped(typ)[1] is not None] if answer.runs else []
            if opened:
                names = {name for scope in answer.known[1].all() for some in scope.names for name in some}
                if answer.known[1].ends:
                    names.add(ANYTHING)
                if any(leads_to_code(typ, names) for typ in types_in(opened)):
                    msg = "code that runs while compiling and reads what the types that it is given stand for"
                    raise Unidentifiable(msg)
            if answer.hands_on is None:
                # Known of a type when its digest is.
                is_open = any(self._maker.type_scoped(typ)[1] is not None for typ in asked)
                answer.hands_on = is_open and any(map(self._maker.hands_on, asked))
            if answer.hands_on or answer.known[1].hands_on:
                content += self._maker.together(answer.root, asked)
            return content if len(content) == 32 else hashlib.blake2b(content, digest_size=32).digest()

    def _type_among(self, typ: Any, asked: tuple[Any, ...]) -> bytes:
        """Identity of a type in an answer to a question about the types *asked*."""
        digest, scope = self._maker.type_scoped(typ)
        return digest if scope is None else self._maker.engine.digest(made_of(typ, asked))

    def _answered(self, ask: Ask) -> tuple[Any, Answer | None]:
        """Who was asked, and what the answer was in this process, if there was one."""
        template = self._maker.extensions.at((ask.name, ask.position))
        return template, self._answers.get((template, ask.args, ask.kws, ask.flags))

    def change(self, ask: Ask) -> str:
        """How what was answered in this process can be told apart from what it was then, or "".  Asks nobody."""
        _template, known = self._answered(ask)
        if known is None:
            return ""
        before = None if known.known is None else known.known[1]
        try:
            return "" if self._digest(known, ask.args, ask.kws) == ask.answer else changed(before)
        except Unidentifiable as exc:
            return f"{changed(before)} ({exc})"

    def now(self, asks: Iterable[Ask]) -> bytes:
        """What identifies all that was answered in this process, as it is now.  Raises Unidentifiable."""
        hasher = hashlib.blake2b(digest_size=32)
        for ask in asks:
            _template, known = self._answered(ask)
            if known is not None:
                hasher.update(self._digest(known, ask.args, ask.kws))
        return hasher.digest()

    def scope(self, ask: Ask) -> Scope | None:
        """What was read to identify what was chosen; None if nothing was."""
        _template, known = self._answered(ask)
        return None if known is None or known.known is None else known.known[1]

    def answer_to(self, ask: Ask) -> tuple[str, Any | None, bool]:
        """Who was asked, by name, the function that was chosen, None if there was none, and whether that only runs."""
        template, known = self._answered(ask)
        name = getattr(chooser_of(template), "__qualname__", "?")
        return (name, None, False) if known is None else (name, known.chosen, known.runs)

    # -- on a hit ------------------------------------------------------------------------------------

    def objection(self, ask: Ask) -> str | None:
        """Why what was asked would be answered otherwise in this process, or None.  Calls the chooser."""
        extensions = self._maker.extensions
        template = extensions.at((ask.name, ask.position))
        if template is None:  # who was asked before may have made it: some choosers make intrinsics on their first use
            extensions.refresh()
            template = extensions.at((ask.name, ask.position))
        typing = ask.flags == _TYPED and template in extensions.asked_for_types
        chooser = template if typing else chooser_of(template)
        if chooser is None:
            return None if self.is_nothing(ask.answer) else "what it was built with is not registered"
        question = (template, ask.args, ask.kws, ask.flags)
        known = self._answers.get(question)
        if known is None or known.again:
            self._answers[question] = _REFUSAL
            try:
                flags = nullcontext() if ask.config is None else ConfigStack().enter(ask.config.copy())
                with _looking_away(), flags:
                    known = self._answers[question] = self._ask(template, chooser, ask)
            except Exception as exc:  # noqa: BLE001  as Numba does with its own errors; others it will raise itself
                let_pass(exc)
                known = self._answers[question] if isinstance(exc, NumbaError) else None
        try:
            alike = known is not None and self._digest(known, ask.args, ask.kws) == ask.answer
        except Unidentifiable as exc:
            return f"{chooser.__qualname__} chooses what depends on {exc}"
        return None if alike else f"{chooser.__qualname__} chooses otherwise"

    @staticmethod
    def is_nothing(answer: bytes) -> bool:
        """Whether that identifies an answer which is none."""
        return answer in {NO_ANSWER, REFUSED}

    def _ask(self, template: Any, chooser: Any, ask: Ask) -> Answer:
        kws = dict(ask.kws)
        if chooser is template:
            if any(_looks_at_context(part.__code__) for part in foreign_parts(template)):
                cpu_target.target_context.refresh()
            return _signed(template(cpu_target.typing_context).apply(ask.args, kws))
        if templates._IntrinsicTemplate in template.__mro__:
            if _looks_at_context(chooser.__code__):
                cpu_target.target_context.refresh()
            return _defined(chooser(cpu_target.typing_context, *ask.args, **kws))
        try:
            inspect.signature(chooser).bind(*ask.args, **kws)
        except TypeError:
            return _REFUSAL
        answer = _overloaded(chooser(*ask.args, **kws))
        return Answer(answer.raw, answer.chosen, (), again=True) if ask.flags == _INLINED else answer


def _looking_away() -> Any:
    """Nothing is noted of what a chooser reads; nobody notes anything where nothing has been compiled."""
    witness = sys.modules.get("nbcache.glue.capture.witness")
    return nullcontext() if witness is None else witness.looking_away()


def _overloaded(raw: Any) -> Answer:
    """What the chooser of an overload returned: nothing, a function, or a function and the types that it wants."""
    if isinstance(raw, tuple):  # Numba keeps none of these
        return Answer(raw, raw[1], tuple(raw[0].args), again=True)
    return Answer(raw, raw, ())


def _signed(sig: Any) -> Answer:
    """What a template answered that only types: nothing, or a signature."""
    if sig is None:
        return Answer(None, None, (), again=True)
    return Answer(sig, [str(sig.pysig)], _types_of(sig), again=True)


def _defined(raw: Any) -> Answer:
    """What the typing half of an intrinsic returned: nothing, or a signature and the function that makes the code."""
    if raw is None:
        return Answer(None, None, ())
    sig, implementation = raw
    return Answer(raw, implementation, _types_of(sig), runs=True)


def _types_of(sig: Any) -> tuple[Any, ...]:
    return (sig.return_type, *sig.args, *(() if sig.recvr is None else (sig.recvr,)))


@functools.lru_cache(maxsize=256)
def _looks_at_context(code: Any) -> bool:
    """Whether what types a call uses its first argument, the typing context or a template that holds it.

    The context then has to know all that it may be asked.
    """
    name = code.co_varnames[0] if code.co_argcount else None
    name = "context" if name == "self" else name
    return any(
        name == instruction.argval or (isinstance(instruction.argval, tuple) and name in instruction.argval)
        for each in nested_codes(code)
        for instruction in dis.get_instructions(each)
    )
