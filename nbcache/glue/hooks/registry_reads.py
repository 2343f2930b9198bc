"""Notes what a compilation asks Numba's registries for: what the seams on them do.

All of this runs hundreds of times in a compilation, and does nothing but add to a set: of what is asked for most often,
once (`Names.noted`).  Names are explained in asked_names.py. What can't be noted is none of the program's business.
"""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from numba.core import types

from nbcache.glue.identity import asked_names
from nbcache.glue.identity.marked_packages import runners
from nbcache.glue.identity.ownership import HEAP_TYPE, is_numba_type, is_toolchain_definition
from nbcache.glue.identity.registration import is_native
from nbcache.passing_exceptions import let_pass
from nbcache.store import reasons

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nbcache.glue.hooks.policy import Session
    from nbcache.glue.identity.asked_names import Names
    from nbcache.glue.keys.choices import Choices

_foreign_classes: dict[type, tuple[bytes, ...]] = {}
_numbas: set[type] = set()
"""Those of them that have no names, which are nearly all: nothing is noted of a type of these."""
_plain_classes: set[type] = set()
"""Classes of values of Python's own, in C, of which nothing is noted."""
_foreign_value_classes: WeakKeyDictionary[type, tuple[bytes, ...]] = WeakKeyDictionary()
_CONTAINERS = tuple, list, set
"""Classes of values that are typed by their items."""
_inside: dict[int, tuple[bytes, ...]] = {}
"""By the number that Numba gives a type: the names of all that a value of it consists of."""
_answered: list[tuple[type, Any]] = [(object, None)]
"""The template that answered last, and its answer."""


def _names_of(cls: type) -> tuple[bytes, ...]:
    """The names of a class of types and its bases, as far as they aren't Numba's."""
    names = _foreign_classes.get(cls)
    if names is None:
        bases = _foreign_bases(cls)
        names = _foreign_classes[cls] = tuple(map(asked_names.type_class, bases))
        for name, base in zip(names, bases, strict=True):
            runners.setdefault(name, set()).add(base.__module__)  # its methods may be called
        if not names and types.Type in cls.__mro__:
            _numbas.add(cls)
    return names


def _foreign_bases(cls: type) -> list[type]:
    return [base for base in cls.__mro__ if issubclass(base, types.Type) and not is_toolchain_definition(base)]


def _note_types(names: set[bytes], found: Sequence[Any]) -> None:
    if not _numbas.issuperset(map(type, found)):
        for typ in found:
            if is_numba_type(typ):
                names.update(_names_of(type(typ)))


def _types_in(thing: object) -> list[Any]:
    """The types among a type's or a data model's attributes."""
    found = []
    for value in vars(thing).values():
        each = value.values() if isinstance(value, dict) else value if isinstance(value, tuple | list) else (value,)
        found += [part for part in each if isinstance(part, types.Type)]
    return found


def _types_inside(typ: Any, models: Any) -> list[Any]:
    """All types that a value of *typ* consists of, by its fields and by those of its data model."""
    seen: dict[int, Any] = {}
    pending = [typ]
    while pending:
        each = pending.pop()
        if each._code not in seen:
            seen[each._code] = each
            model = models._cache.get(each)
            pending += _types_in(each) + ([] if model is None else _types_in(model))
    return [*seen.values()]


def _names_inside(typ: Any, models: Any) -> tuple[bytes, ...]:
    """The names of these types.

    Here Numba's own classes have names as well: numba-cuda gives a model of its own to one of them, for all targets.
    """
    classes = {type(each) for each in _types_inside(typ, models)}
    found = ((asked_names.model_of(cls),) if is_toolchain_definition(cls) else _names_of(cls) for cls in classes)
    return tuple({name for names in found for name in names})


def unnoted(session: Session, raised: Exception) -> None:
    """What is compiled asks for something that can't be noted, so it is for this process alone."""
    let_pass(raised)
    frame = session.frames.top()
    if frame is not None:
        frame.taint = frame.taint or reasons.INTERNAL


def choices_of(session: Session) -> Choices | None:
    """What notes answers of choosers; None where it can't be imported, for want of descriptors, say."""
    try:
        return session.maker.choices
    except Exception as raised:  # noqa: BLE001  whatever it is, the program goes on
        unnoted(session, raised)
        return None


def _noting(note: Callable[..., None], *, of_context: bool = False) -> Callable[[Any, Session], Any]:
    """A seam at which *note* adds to the names that are asked for, from the arguments, before all goes on as before.

    *of_context*: what is asked is one of Numba's contexts.
    """

    def replace(original: Any, session: Session) -> Any:
        asked, index = session.frames.asked, session.maker.extensions

        def call(*args: Any, **named: Any) -> Any:
            names = asked(index.generation)
            if names is not None:
                try:
                    note(names, *args)
                except Exception as raised:  # noqa: BLE001  whatever it is, the program goes on
                    unnoted(session, raised)
            elif of_context:
                session.maker.fills()
            return original(*args, **named)

        return call

    return replace


def data_models(original: Any, session: Session) -> Any:
    """`DataModelManager.lookup`, which keeps the model of a type, and so asks for what is inside it once."""
    asked, index = session.frames.asked, session.maker.extensions

    def lookup(self: Any, fetype: Any) -> Any:
        names = asked(index.generation)
        # What is lowered asks for the models of a few types thousands of times.
        this = self, getattr(fetype, "_code", None)
        if names is None or this in names.noted:
            if names is None and type(fetype) not in self._handlers:
                session.maker.fills()
            return original(self, fetype)
        _note_inside(session, names, self, fetype)  # before somebody's code makes it
        if fetype in self._cache:
            _note_kept(session, self, fetype)
            names.noted.add(this)
            return original(self, fetype)
        model = _made(session, self, fetype, original)
        _note_inside(session, names, self, fetype)
        return model

    return lookup


def _note_inside(session: Session, names: set[bytes], models: Any, fetype: Any) -> None:
    try:
        inside = _inside.get(fetype._code)
        if inside is None:
            inside = _names_inside(fetype, models)
            if fetype in models._cache:  # without its model, not all of it is known
                _inside[fetype._code] = inside
        names.update(inside)
    except Exception as raised:  # noqa: BLE001  whatever it is, the program goes on
        unnoted(session, raised)


def _note_kept(session: Session, models: Any, fetype: Any) -> None:
    """What ran to make the model of a type, which Numba keeps, counts for all who use it."""
    from nbcache.glue.capture.code_that_ran import running

    known = _kept.get(fetype._code, _UNKNOWN)
    if known.codes is None and _is_others_model(fetype, models):
        running.miss()
    consulted_so_far = session.frames.top().consulted  # type: ignore[union-attr]
    consulted_so_far.codes.update(known.codes or ())
    consulted_so_far.agree(known.under)


def _made(session: Session, models: Any, fetype: Any, original: Any) -> Any:
    """The model of a type, made now: what runs meanwhile is noted by itself."""
    from nbcache.glue.capture.code_that_ran import running

    session.frames.top().consulted.codes.update(running.take())  # type: ignore[union-attr]
    model = original(models, fetype)
    codes = running.take()
    running.give_back(codes)  # to whatever it is a part of
    names = _inside[fetype._code] = _names_inside(fetype, models)
    if codes and not _is_others_model(fetype, models):  # to a profiler, what was called before and goes on has run
        codes = set()
    made = _kept[fetype._code] = asked_names.KeptModel(names, None if running.missed else codes)
    session.maker.models_made.append(made)
    return model


def _is_others_model(fetype: Any, models: Any) -> bool:
    """Whether somebody's code makes the model of a type, or that of a type inside."""
    inside = _types_inside(fetype, models)
    return not all(is_toolchain_definition(type(each)) for typ in inside for each in (typ, models._cache.get(typ, typ)))


_kept: dict[int, asked_names.KeptModel] = {}
"""By the number that Numba gives a type: its model."""
_UNKNOWN = asked_names.KeptModel((), None)
"""Of a model that was made when nobody noted it."""


def answering(original: Any, session: Session) -> Any:
    """`apply` of a kind of template."""
    # It is called for every template that might answer: hundreds of times for a function.
    asked_again = session.maker.extensions.asked_for_types

    def apply(self: Any, args: Any, kws: Any) -> Any:
        frame = session.frames.top() if type(self) in asked_again else None
        if frame is not None and (choices := choices_of(session)) is not None:
            sig = choices.signature(original, self, args, kws, frame)
        else:
            sig = original(self, args, kws)
        if sig is not None:
            _answered[0] = (type(self), sig)
        return sig

    return apply


def _settled(sig: Any) -> bool:
    """Whether a template that nobody can get ahead of answered just now."""
    template, answer = _answered[0]
    return answer is sig and is_native(template)


def _note_answer(session: Session, names: set[bytes], key: object, sig: Any) -> None:
    """Note how a call was typed: *sig* is None where that raised."""
    try:
        if sig is None or not _settled(sig):
            names.add(asked_names.typed(key))
        if sig is not None:
            _note_types(names, (sig.return_type,))
    except Exception as raised:  # noqa: BLE001  whatever it is, the program goes on
        unnoted(session, raised)


def typing_of_calls(original: Any, session: Session) -> Any:
    """`BaseFunction.get_call_type`: Numba's way from a function and argument types to a signature."""
    asked, index = session.frames.asked, session.maker.extensions

    def get_call_type(self: Any, context: Any, args: Any, kws: Any) -> Any:
        names = asked(index.generation)
        if names is None:
            session.maker.fills()
            return original(self, context, args, kws)
        return _typed(session, names, self.typing_key, args, lambda: original(self, context, args, kws))

    return get_call_type


def _typed(session: Session, names: Any, key: Any, args: Any, ask: Callable[[], Any]) -> Any:
    """Have something typed by *ask*, and note what it was and what came of it."""
    try:
        names.add(asked_names.called(key))
        _note_types(names, args)
    except Exception as raised:  # noqa: BLE001  whatever it is, the program goes on
        unnoted(session, raised)
    sig = None
    try:
        sig = ask()
    finally:
        _note_answer(session, names, key, sig)
    return sig


def typing_of_builtins(original: Any, session: Session) -> Any:
    """`BaseContext._resolve_builtin_function_type`: the same for what has no value in Python, such as `getiter`."""
    asked, index = session.frames.asked, session.maker.extensions

    def _resolve_builtin_function_type(self: Any, func: Any, args: Any, kws: Any) -> Any:
        names = asked(index.generation)
        if names is None or isinstance(func, types.Type):
            # Numba looks there first, where there was nothing yet.
            is_new = names is None and session.maker.fills()
            found = self._resolve_user_function_type(func, args, kws) if is_new else None
            return original(self, func, args, kws) if found is None else found
        return _typed(session, names, func, args, lambda: original(self, func, args, kws))

    return _resolve_builtin_function_type


def attributes(type_at: int, name_at: int) -> Callable[[Any, Session], Any]:
    """What looks for an attribute: the type and the attribute's name are at these positions after ``self``."""

    def note(names: Names, _self: Any, *args: Any) -> None:
        name, owner = args[name_at], args[type_at]
        if name not in names.noted:
            names.add(asked_names.attribute(name))
            names.noted.add(name)
        if type(owner) not in _numbas:
            owners = (owner,) if is_numba_type(owner) else owner.args
            _note_types(names, owners)
            for cls in {type(each) for each in owners if _names_of(type(each))}:
                names.update(asked_names.attribute_of(base, name) for base in _foreign_bases(cls))

    return _noting(note, of_context=True)


def installing(original: Any, session: Session) -> Any:
    """`install_registry` of a context: what others install comes after what Numba has of its own."""

    def install_registry(self: Any, registry: Any) -> None:
        if not str(sys._getframe(1).f_globals.get("__name__")).startswith("numba."):
            session.maker.fills()
        original(self, registry)

    return install_registry


def interning(original: Any, _session: Session) -> Any:
    """`_TypeMetaclass._intern`: where types are made."""

    def _intern(cls: Any, inst: Any) -> Any:
        found = original(cls, inst)
        if found is inst and not cls._is_internal:
            asked_names.as_made.note(inst)
        return found

    return _intern


def lowering(original: Any, session: Session) -> Any:
    """`BaseContext.get_function`: the code for a call."""

    def get_function(self: Any, fn: Any, sig: Any, *rest: Any, **named: Any) -> Any:
        frame = session.frames.top()
        if frame is not None and not isinstance(fn, types.Dispatcher):
            try:
                names = frame.consulted.asked_at[session.maker.extensions.generation]
                key = fn.get_impl_key(sig) if isinstance(fn, types.Callable) else fn
                asked = {asked_names.called(key)}
                _note_types(asked, sig.args)
                names.update(asked)
                session.maker.before(frame, asked)
            except Exception as raised:  # noqa: BLE001  whatever it is, the program goes on
                unnoted(session, raised)
        return original(self, fn, sig, *rest, **named)

    return get_function


def types_at(start: int, stop: int) -> Callable[[Any, Session], Any]:
    """What handles values whose types are its arguments from *start* to *stop*, and nothing else that has a name."""

    def replace(original: Any, session: Session) -> Any:
        note = _noting(lambda names, *args: _note_types(names, args[start:stop]))(original, session)

        def call(*args: Any, **named: Any) -> Any:
            # Nearly all are Numba's own.
            return (original if _numbas.issuperset(map(type, args[start:stop])) else note)(*args, **named)

        return call

    return replace


def boxing(original: Any, session: Session) -> Any:
    """`_Registry.lookup` of what boxes, unboxes and reflects values of a class of types."""

    def lookup(self: Any, typeclass: Any, default: Any = None) -> Any:
        frame = session.frames.top()
        if frame is not None:
            try:
                asked = _names_of(typeclass)
                frame.consulted.asked_at[session.maker.extensions.generation].update(asked)
                session.maker.before(frame, asked)
            except Exception as raised:  # noqa: BLE001  whatever it is, the program goes on
                unnoted(session, raised)
        return original(self, typeclass, default)

    return lookup


def _names_of_classes(cls: type) -> tuple[bytes, ...]:
    """The names of a value's class and its bases, as far as they aren't the toolchain's."""
    names = _foreign_value_classes.get(cls)
    if names is None:
        foreign = [base for base in cls.__mro__ if not is_toolchain_definition(base)]
        names = _foreign_value_classes[cls] = tuple(map(asked_names.value_class, foreign))
        if not names and not cls.__flags__ & HEAP_TYPE and not issubclass(cls, _CONTAINERS):
            _plain_classes.add(cls)
    return names


def _names_of_value(value: object) -> Iterator[bytes]:
    """The same with those of the items by which a container is typed."""
    yield from _names_of_classes(type(value))
    items = value if isinstance(value, tuple) else itertools.islice(value, 1) if isinstance(value, _CONTAINERS) else ()
    for item in items:
        yield from _names_of_value(item)


def _note_value(names: Names, _context: Any, value: Any) -> None:
    cls = type(value)
    if cls not in _plain_classes and cls not in names.noted:
        names.update(_names_of_value(value))
        if not issubclass(cls, _CONTAINERS):
            names.noted.add(cls)


def _note_annotation(names: set[bytes], _registry: Any, kind: Any) -> None:
    names.update((asked_names.annotation(kind), asked_names.ANY_ANNOTATION))


values = _noting(_note_value, of_context=True)
"""`BaseContext.resolve_value_type`: the type of a global, a default or a closure's value."""
annotated = _noting(_note_annotation)
"""`AsNumbaTypeRegistry.infer`: the type that a class stands for in ``isinstance``."""
