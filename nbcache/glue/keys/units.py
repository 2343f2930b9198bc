"""Units: one thing to compile or to load, and its key.

An entry lists the parts of its unit's key (key_parts.py), and what they consist of in words. Not in the key: file names
and lines (placeholders.py), time stamps, host, user, working directory, hash seed, object addresses.
"""

from __future__ import annotations

import hashlib
import warnings
import weakref
from types import CodeType
from typing import TYPE_CHECKING, Any

from numba.core import compiler, sigutils
from numba.core.ccallback import CFunc
from numba.core.dispatcher import LiftedCode, LiftedLoop
from numba.core.registry import cpu_target
from numba.core.targetconfig import ConfigStack
from numba.np.ufunc.ufuncbuilder import UFuncDispatcher

from nbcache.glue.capture.compilations import Frame, FrameStack
from nbcache.glue.identity.bytecode import nested_codes
from nbcache.glue.identity.describe import is_class_of_values
from nbcache.glue.identity.describe_functions import function_name
from nbcache.glue.identity.describe_numba import types_in
from nbcache.glue.identity.node import Node, Scope, Unidentifiable
from nbcache.glue.identity.only_named import Stub
from nbcache.glue.identity.ownership import is_toolchain_definition
from nbcache.glue.keys.conditions import loops_in_turn
from nbcache.glue.keys.flags import flag_components, flag_parts, flags_of, pipeline_of
from nbcache.glue.keys.key_maker import KeyMaker
from nbcache.glue.keys.key_parts import CONDITIONS, Part, components_of, key_of_parts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from types import FunctionType

    from numba.core.types import Type

    from nbcache.glue.identity.asked_names import Ask
    from nbcache.glue.identity.counterparts import Reach

KEY_VERSION = 15
"""Raised, once for a release, when what a key covers or how it is computed changes. 0.2.0 had 3."""


class Unit:
    """One function with one signature under one set of flags.

    ``kind``: "dispatcher", "ufunc", "cfunc", or a wrapper's; ``owner``: the object whose identity
    counts; ``function``: the Python function compiled.
    """

    def __init__(
        self, maker: KeyMaker, frames: FrameStack, kind: str, owner: Any, function: FunctionType,
        args: tuple[Any, ...], return_type: Any, flags: compiler.Flags, extra: tuple[tuple[str, str], ...] = (),
        conditions: bytes = b"",
    ) -> None:  # fmt: skip
        self.maker = maker
        self.kind = kind
        # Units live as long as the code they stand for; a dispatcher dies when its last user lets go.
        self._owner = weakref.ref(owner)
        self._locals = getattr(owner, "locals", None) or getattr(getattr(owner, "_compiler", None), "locals", {})
        self._pipeline = pipeline_of(owner)  # with these it is compiled again when its owner is no more
        self.function = function
        self.args = args
        self.return_type = return_type
        self.flags = flags
        self.extra = extra
        self.frames = frames
        self.conditions = conditions or maker.conditions.digest()
        self._patched = maker.conditions.patched
        self.content = b""
        """The owner's identity, once the key is known."""
        self._scope: Scope | None = None
        self.scopes: list[Scope] = []
        """What was read to identify it and the types that it takes."""
        self.types_then = b""
        self._types: list[Type] = []
        """Of the types that it takes, when its key was made: the identity; what they consist of, if any is others'."""
        self._hands_on = False
        self.of_the_past = False
        self.bound: Collection[str] = ()
        """The tokens that who promised it to its owner was bound to."""
        self._key = ""
        self._parts: list[Part] = []
        self.registered: tuple[bytes, ...] = ()
        """The names that it asked for, and for which others have registered something."""
        self.asks: tuple[Ask, ...] = ()
        """What it asked other people's choosers, once it is compiled."""
        self._nodes: list[Node] | None = None
        self._walked: tuple[Scope, list[Node]] | None = None
        """What it took to know the owner's identity, where that was all that it reaches."""
        self._nodes_of_types: dict[Any, list[Node]] = {}
        self._reach: Reach | None = None

    @property
    def owner(self) -> Any:
        """The object whose identity counts.  Raises ReferenceError when it is no more."""
        owner = self._owner()
        if owner is None:
            raise ReferenceError(f"{self.name} is no more")
        return owner

    @property
    def name(self) -> str:
        """``module:qualname``."""
        return function_name(self.function)

    @property
    def signature_text(self) -> str:
        """The signature for people."""
        text = f"({', '.join(map(str, self.args))})"
        return text if self.return_type is None else f"{text} -> {self.return_type}"

    @property
    def key(self) -> str:
        """64 hex digits.  Raises Unidentifiable."""
        if not self._key:
            with self.maker.engine.steady(), self.maker.engine.aside():
                self._parts = self._checked_parts()
            self._key = key_of_parts(self._parts)
        return self._key

    def key_under(self, cpu: str) -> str:
        """The key that it has in a process that compiles for the processor *cpu*.  Raises Unidentifiable."""
        conditions, self.conditions = self.conditions, self.maker.conditions.under(cpu)
        try:
            key = key_of_parts(self._checked_parts())
        finally:
            self.conditions = conditions
        self.maker.elsewhere[key] = self.key
        return key

    def answers_to(self, key: str) -> bool:
        """Whether a key is its own, or the one that it has for a lower processor."""
        return key == self.key or any(self.key_under(cpu) == key for cpu in self.maker.lower)

    @property
    def has_own_pipeline(self) -> bool:
        """Whether somebody else's compiler compiles it."""
        return not is_toolchain_definition(self._pipeline)

    @property
    def _shown(self) -> str:
        """Which setting asks to see how it is compiled, in words; a kernel's are others."""
        return self.maker.conditions.shown

    def _checked_parts(self) -> list[Part]:
        if self._shown:
            raise Unidentifiable(self._shown)
        parts = self._key_parts()
        if loops_in_turn() and self.is_parallel:
            parts.append(("loops run one iteration after the other", b""))
        return parts

    def stands_for(self, key: str) -> None:
        """Ask for an entry that was made from what the owner was earlier in this process."""
        self._key, self.of_the_past = key, True

    def _key_parts(self) -> list[Part]:
        parts = [
            ("key version", b"%d" % KEY_VERSION),
            (CONDITIONS, self.conditions),
            ("kind", self.kind.encode()),
            ("name", self.name.encode("utf-8", "surrogatepass")),
            ("options", flag_parts(self.flags)),
            *self._parts_of_what_is_asked(),
        ]
        if self.flags.debuginfo or self.flags.dbg_directives_only:
            parts.append(("lines of the source", self._debug_lines()))
        return parts

    @property
    def is_parallel(self) -> bool:
        """Whether it reaches anything whose loops may be compiled to run in parallel."""
        return any(scope.parallel for scope in self.scopes)

    def _parts_of_what_is_asked(self) -> list[Part]:
        maker = self.maker
        parts = [(label, words.encode()) for label, words in self.extra]
        found = [maker.type_scoped(typ) for typ in self.args]
        parts += [(f"type of argument {i}", digest) for i, (digest, _scope) in enumerate(found)]
        open_types = [(typ, scope) for typ, (_, scope) in zip(self.args, found, strict=True) if scope is not None]
        self.types_then = self.types_then or b"".join(digest for digest, _scope in found)
        self._types = self._types or ([*types_in(self.args)] if open_types else [])
        parts.append(("type of the result", b"" if self.return_type is None else maker.type_digest(self.return_type)))
        self.content = self._content()
        self.scopes = [*(scope for _typ, scope in open_types), self._scope]  # type: ignore[list-item]
        parts.append(("all that it reaches", self.content))
        if self.args and (self._hands_on or any(map(maker.hands_on, self.args))):
            # What one of them hands on another may read, by names that a third one has.
            together = maker.engine.together((self.owner, *self.args))
            parts.append(("what is read off modules that are passed on", together))
        parts.append(("which of two that are alike is meant", maker.engine.sharing(self.owner, open_types)))
        return parts

    def types_now(self) -> bytes:
        """As `types_then`, now.  Raises Unidentifiable."""
        return b"".join(map(self.maker.type_digest, self.args))

    @property
    def ends(self) -> bool:
        """Whether it reaches code of installed packages that could run while it is compiled."""
        return any(scope.ends for scope in self.scopes)

    @property
    def may_run(self) -> bool:
        """Whether it reaches anything of others that may run while it is compiled."""
        return any(scope.may_run for scope in self.scopes)

    def change(self) -> str:
        """How the identity differs from what the key was made of, "" if it doesn't."""
        from nbcache.glue.identity.differences import changed

        before, conditions = self._scope, self.maker.conditions
        try:
            conditions.digest()
            if conditions.patched != self._patched:
                return "what somebody put into the place of Numba's own functions, which changed meanwhile"
            return "" if self._content() == self.content else changed(before)
        except Unidentifiable as exc:
            return f"{changed(before)} ({exc})"

    def _content(self) -> bytes:
        """What identifies what is compiled.  Raises Unidentifiable."""
        walked: list[Node] = []
        content, self._scope = self.maker.engine.scoped(self.owner, walked=walked)
        if walked:
            self._walked = self._scope, walked
        self._hands_on = self._scope.hands_on
        return content

    def _debug_lines(self) -> bytes:
        """Debug information holds every line of every function reached: then places are content."""
        found = [getattr(node.obj, "__code__", None) for node in self.maker.engine.nodes(self.owner)]
        codes = [each for code in found if isinstance(code, CodeType) for each in nested_codes(code)]
        lines = [(each.co_filename, list(each.co_lines())) for each in codes]
        return hashlib.blake2b(repr(lines).encode(), digest_size=32).digest()

    def reach(self) -> Reach:
        """The index over all that this unit reaches; walked when first asked for."""
        if self._reach is None:
            from nbcache.glue.identity.counterparts import Reach

            nodes = {id(node.obj): node for node in self._all_nodes()}
            beyond = (lambda: self.maker.nodes_registered(self.registered)) if self.registered else None
            self._reach = Reach(nodes.values(), beyond, lambda: self.maker.nodes_chosen(self.asks), self._types)
        return self._reach

    def unread(self, *, stubs: bool) -> list[object]:
        """The classes of which no more counts than what Numba reads to know their values, and *stubs* if asked for."""
        found = {id(node.obj): node.obj for node in self._all_nodes() if node.reached_compiled}
        classes = (each for each in found.values() if isinstance(each, type) and is_class_of_values(each))
        return [*classes, *(each.target for each in found.values() if stubs and isinstance(each, Stub))]

    def _all_nodes(self) -> Iterator[Node]:
        yield from self._own_nodes()
        for typ in self.args:
            if not self.maker.is_fixed(typ):  # it depends on code
                yield from self._type_nodes(typ)

    def reaching(self, names: Iterable[bytes]) -> Reach:
        """The same with what others have registered for *names*."""
        self.meets(self.maker.extensions.relevant_among(names))
        return self.reach()

    def meets(self, registered: tuple[bytes, ...]) -> None:
        """What others have registered for these names belongs to what the unit reaches."""
        if not set(registered) <= set(self.registered):
            self.registered = tuple(sorted({*self.registered, *registered}))
            self._reach = None

    def answered(self, asks: Iterable[Ask], *, took_more: bool = False) -> None:
        """What other people's choosers chose for these questions belongs to what the unit reaches.

        *took_more*: they filled something in, also in the types that it takes.
        """
        asks = tuple(asks)
        if took_more:
            self._nodes_of_types.clear()
        if took_more or (asks != self.asks and self._reach is not None and self._reach.went_further):
            self._reach = None
        self.asks = asks

    def referent(self, reference: tuple[int, bytes]) -> object:
        """The object of an entry's *reference*.  Raises placeholders.Unresolvable."""
        found = self.maker.engine.keeper(self.owner, reference[1])
        return self.reach().referent(reference) if found is None else found

    def forget(self) -> None:
        """Let go of what the unit reaches; it is walked again when somebody asks."""
        self._nodes = self._reach = self._scope = self._walked = None
        self._nodes_of_types.clear()

    def _own_nodes(self) -> list[Node]:
        if self._nodes is None:
            scope, nodes = self._walked or (None, [])
            if scope is None or not self.maker.engine.still(self.owner, scope):
                nodes = self.maker.engine.nodes(self.owner)
            self._nodes, self._walked = nodes, None
        return self._nodes

    def _type_nodes(self, typ: Any) -> list[Node]:
        if typ not in self._nodes_of_types:
            self._nodes_of_types[typ] = self.maker.type_nodes(typ)
        return self._nodes_of_types[typ]

    def compile_again(self, build: str) -> Any:
        """A CompileResult with the symbol names of *build*; its warnings were given before."""
        depth = len(self.frames)
        # Without its owner nothing that it reaches can be found again; then it is only looked at.
        self.frames.push(Frame(None if self._owner() is None else self, build))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return compiler.compile_extra(
                    cpu_target.typing_context, cpu_target.target_context, self.function, self.args, self.return_type,
                    self.flags.copy(), dict(self._locals), pipeline_class=self._pipeline,
                )  # fmt: skip
        finally:
            self.frames.pop_to(depth)

    def components(self) -> list[tuple[str, str]]:
        """What the key is computed from: (label, value), in words and then part by part."""
        return [*self._in_words(), *components_of(self._parts)]

    def _in_words(self) -> list[tuple[str, str]]:
        from nbcache.glue.identity.differences import node_components

        maker = self.maker
        found = [("key version", str(KEY_VERSION)), *maker.conditions.components(), ("kind", self.kind)]
        found += [*flag_components(self.flags), *self.extra]
        found.append(("signature", self.signature_text))
        for i, typ in enumerate(self.args):
            if not maker.is_fixed(typ):
                found += node_components(self._type_nodes(typ), f"argument {i} ")
        found += node_components(self._own_nodes(), "")
        found += [
            (f"registered: {each.label}", maker.extensions.words(each, maker.engine))
            for name in self.registered
            for each in maker.extensions.registered(name)
        ]
        for ask in self.asks:
            chooser, chosen, runs = maker.choices.answer_to(ask)
            if chosen is not None:
                # What a list holds counts as what runs.
                nodes = maker.engine.nodes([chosen])[1:] if runs else maker.engine.nodes(chosen)
                found += node_components(nodes, f"chosen by {chooser}: ")
        return found


class StencilUnit(Unit):
    """A stencil called from Python; ``args`` end with the type of ``out`` if there is one."""

    def __init__(self, maker: KeyMaker, frames: FrameStack, stencil: Any, args: tuple[Any, ...], *, out: bool) -> None:
        # The neighborhood is among the options, or was found when the stencil was compiled last.
        extra = (("out", str(out)), ("neighborhood", repr(stencil.neighborhood)))
        function = stencil.kernel_ir.func_id.func
        super().__init__(maker, frames, "stencil", stencil, function, args, None, compiler.DEFAULT_FLAGS, extra)

    def compile_again(self, _build: str) -> Any:
        raise RuntimeError(f"nothing links against {self.name}, a stencil that is called from Python")


class LiftedUnit(Unit):
    """An ``objmode`` block, or a loop in object mode, which Numba lifts out of a function and compiles on its own.

    ``origin``: the key of the unit it was lifted from, and its number among the pieces lifted from
    that; they determine its code. Numba's settings, and what a loop calls, may have changed since, until it is called
    first.
    """

    def __init__(
        self, maker: KeyMaker, frames: FrameStack, lifted: LiftedCode, args: tuple[Any, ...], origin: tuple[str, int]
    ) -> None:
        self._is_loop = isinstance(lifted, LiftedLoop)
        kind = "lifted loop" if self._is_loop else "objmode block"
        super().__init__(maker, frames, kind, lifted, lifted.py_func, args, None, lifted.flags)
        self._origin = origin

    def _key_parts(self) -> list[Part]:
        block = self.owner.func_ir
        lifted = f"{sorted(block.blocks)} {block.arg_names} {getattr(self.owner, 'output_types', None)}"
        parts = [
            ("key version", b"lifted %d" % KEY_VERSION),
            (CONDITIONS, self.conditions),
            ("lifted from", repr(self._origin).encode()),
            ("the lifted piece", lifted.encode()),
            ("options", flag_parts(self.flags)),
            *((f"type of argument {i}", self.maker.type_digest(typ)) for i, typ in enumerate(self.args)),
        ]
        if self._is_loop:
            self.content = self._content()
            shared = self.maker.engine.sharing(self.function)
            parts += [("all that it reaches", self.content), ("which of two that are alike is meant", shared)]
        return parts

    @property
    def is_parallel(self) -> bool:
        return True  # what a piece reaches isn't looked at for its key

    def _own_nodes(self) -> list[Node]:
        """What the function around it reaches."""
        if self._nodes is None:
            self._nodes = self.maker.engine.nodes(self.function)
        return self._nodes

    def referent(self, reference: tuple[int, bytes]) -> object:
        return self.reach().referent(reference)

    def _content(self) -> bytes:
        """A block's is that of the function it was lifted from, in its key."""
        return self.maker.engine.digest(self.function) if self._is_loop else b""

    def compile_again(self, _build: str) -> Any:
        """A CompileResult to look at: nothing links against what is called from Python."""
        lifted = self.owner
        another = type(lifted)(
            lifted.func_ir, lifted.typingctx, lifted.targetctx, lifted.flags, lifted.locals, **lifted._reduce_extras()
        )
        with self.frames.apart(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            another.compile(self.args)
        return another.overloads[self.args]

    def _in_words(self) -> list[tuple[str, str]]:
        key, number = self._origin
        origin = [("lifted from", key), ("number", str(number))]
        if self._is_loop:
            return [*origin, *super()._in_words()]
        return [*origin, ("kind", self.kind), *flag_components(self.flags), ("signature", self.signature_text)]


def unit_for(maker: KeyMaker, frames: FrameStack, owner: Any, sig: Any) -> Unit:
    """The unit that *owner* (a Dispatcher, UFuncDispatcher or CFunc) is asked to compile."""
    # Numba has looked at a tuple of types before it asks, and to look at each of them again takes a while.
    args, return_type = (sig, None) if type(sig) is tuple else sigutils.normalize_signature(sig)
    conditions = maker.conditions.digest()
    # A dispatcher's class is an abstract one: nothing is asked whether it is an instance of that.
    if isinstance(owner, UFuncDispatcher):
        # _compile_core has entered the flags it is going to use.
        kind, function, flags = "ufunc", owner.py_func, ConfigStack().top().copy()
    elif isinstance(owner, CFunc):
        kind, function, flags = "cfunc", owner._pyfunc, flags_of(conditions, owner._compiler)
    else:
        kind, function, flags = "dispatcher", owner.py_func, flags_of(conditions, owner._compiler)
    return Unit(maker, frames, kind, owner, function, tuple(args), return_type, flags, conditions=conditions)
