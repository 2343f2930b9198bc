"""Units: one thing to compile or to load, and its key.

A unit's key is a digest over labelled, length-prefixed components; the same components in words
are kept with the entry, so that a miss can be explained by comparing with the nearest entry.

Not in the key: file names and lines (see tokens.py), time stamps, host, user, working directory,
hash seed, object addresses.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import sys
import warnings
import weakref
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from numba.core import compiler, sigutils, types
from numba.core.ccallback import CFunc
from numba.core.cpu_options import FastMathOptions, InlineOptions
from numba.core.dispatcher import Dispatcher, LiftedCode, LiftedLoop
from numba.core.registry import cpu_target
from numba.core.targetconfig import ConfigStack
from numba.core.types.abstract import Type
from numba.np.ufunc.ufuncbuilder import UFuncDispatcher

from nbcache.glue import imports
from nbcache.glue.choices import Choices
from nbcache.glue.codeplan import nested_codes
from nbcache.glue.consulted import Consulted, split
from nbcache.glue.describers import Describers, function_name, is_compilable
from nbcache.glue.extensions import ExtensionIndex
from nbcache.glue.frames import Frame, FrameStack
from nbcache.glue.identity import IdentityEngine, Unidentifiable
from nbcache.glue.installed import InstalledExtensions
from nbcache.glue.ownership import is_toolchain_module
from nbcache.glue.tokens import Reach
from nbcache.glue.toolchain import Conditions
from nbcache.passing import let_pass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager
    from types import FunctionType

    from nbcache.glue.consulted import Ask
    from nbcache.glue.identity import Node, Scope

KEY_VERSION = 2
MOST_BEYOND = 5_000
"""How many objects a registration may reach for what compiled code refers to to be looked for among them."""
MOST_BEYOND_IN_ALL = 15_000
"""The same for all registrations of a process, however often: the rest is compiled as if there were no cache."""
_PLAIN_FLAGS = frozenset({bool, str, int, type(None)})
_MEMO_KEEPERS = (Dispatcher, UFuncDispatcher, CFunc)


class KeyMaker:
    """Everything a process needs to compute keys; one per process."""

    def __init__(self) -> None:
        self.conditions = Conditions()
        self.extensions = ExtensionIndex()
        describers = Describers(self.extensions)
        self.engine = IdentityEngine(
            describers.describe, self._generation, lambda obj: isinstance(obj, _MEMO_KEEPERS), is_compilable
        )
        self.choices = Choices(self)
        self.installed = InstalledExtensions(self.extensions)
        self._late: set[str] = set()
        self._types: dict[Type, bytes] = {}
        self._refused_types: weakref.WeakKeyDictionary[Any, tuple[int, str]] = weakref.WeakKeyDictionary()
        self._types_that_hand_on: WeakSet[Type] = WeakSet()
        self._open_types: WeakKeyDictionary[Type, tuple[int, bytes, Scope] | None] = WeakKeyDictionary()

    def _generation(self) -> object:
        return imports.generation, self.extensions.ambiguities

    def prepare(self) -> None:
        """See what is registered by now, with what packages would have added, unless they may wait."""
        self.installed.prepare()
        self.extensions.refresh()
        self.extensions.settled = True

    def meet(self, names: bytes) -> tuple[bytes, ...]:
        """Those of an entry's names for which others have registered something, or would."""
        if self.installed.concern(split(names)):
            self._load_installed()
        return self.extensions.relevant(names)

    def _load_installed(self) -> None:
        """Load what Numba would have loaded before it looked anything up."""
        self.extensions.settled = False
        self.installed.load()
        self.extensions.refresh()
        self.extensions.settled = True

    def new_consulted(self) -> Consulted:
        """For a compilation that begins; from here on every package that extends Numba takes part."""
        if self.installed.waiting:
            self._load_installed()
        return Consulted(self.extensions.generation)

    def close(self, frame: Frame) -> None:
        """A compilation is over: see what others have registered for what it asked for."""
        index, consulted = self.extensions, frame.consulted
        index.refresh()
        self.came_late(frame.modules)
        if any(map(self.choices.changed, consulted.asks)):
            consulted.conflict = consulted.conflict or "what it depends on changed while it was compiled"
        current = {}
        for name in index.relevant_among(consulted.names):
            try:
                digest = self._registered(name)
            except Unidentifiable as exc:
                digest = b""
                consulted.conflict = consulted.conflict or str(exc)
            current[name] = (index.since(name), digest)
        consulted.close(current)

    def came_late(self, before: int) -> None:
        """Note the modules that were loaded since there were *before* of them, by compiling or instead of it."""
        if len(sys.modules) > before:
            late = itertools.islice(sys.modules, before, None)
            self._late.update(name for name in late if not is_toolchain_module(name))

    def objection(self, consulted: Consulted) -> str | None:
        """Why what an entry was built with would be other today, or None.  Asks choosers, which are other people's."""
        for ask in consulted.asks:
            reason = self.choices.objection(ask)
            if reason is not None:
                return reason
        if consulted.asks:
            self.extensions.refresh()
        if self.registered_otherwise(consulted.packed, consulted.snapshot):
            return "something else is registered with Numba for what it uses"
        return None

    def registered_otherwise(self, packed: bytes, snapshot: dict[bytes, bytes]) -> bool:
        """Whether what others have registered for an entry's names differs from its *snapshot*."""
        relevant = self.extensions.relevant(packed)
        if not relevant and not snapshot:
            return False
        try:
            return snapshot != {name: self._registered(name) for name in relevant}
        except Unidentifiable:
            return True

    def _registered(self, name: bytes) -> bytes:
        """Identity of what is registered for *name*.  Raises Unidentifiable."""
        with self.as_before():
            return self.extensions.digest(name, self.engine)

    def as_before(self) -> AbstractContextManager[None]:
        """While this is entered, things are identified as they are before anything is compiled.

        Modules that come in the middle of a compilation are among its readings (witness.py); in what runs while
        compiling they would tell apart processes that have loaded them from those that are about to.
        """
        return imports.hiding(self._late) if self._late else nullcontext()

    def nodes_registered(self, names: Iterable[bytes]) -> Iterator[Node]:
        """What is reached from what others have registered for *names*, as far as that isn't too much."""
        registered = (each for name in names for each in self.extensions.registered(name))
        roots = (root for each in registered for root in (each.registered, *each.formal))
        return self.engine.nodes_of(roots, MOST_BEYOND, MOST_BEYOND_IN_ALL)

    def type_digest(self, typ: Any) -> bytes:
        """Identity of a type in a signature; one that depends on code is looked at again."""
        return self.type_scoped(typ)[0]

    def type_scoped(self, typ: Any) -> tuple[bytes, Scope | None]:
        """The same with the scope that it holds in; None if it always does."""
        known = self._types.get(typ)
        if known is not None:
            return known, None
        generation = self.extensions.ambiguities
        last = self._open_types.get(typ)
        if last is not None and last[0] == generation and last[2].unchanged():
            return last[1:]
        refused = self._refused_types.get(typ)
        if refused is not None and refused[0] == self.extensions.generation:
            raise Unidentifiable(refused[1])
        try:
            digest, scope = self.engine.scoped(typ)
        except Unidentifiable as exc:
            # Each function that takes it asks, and to find out may have taken a walk through half of a package.
            self._refused_types[typ] = (self.extensions.generation, str(exc))
            raise
        if scope.hands_on:
            self._types_that_hand_on.add(typ)
        if typ not in self._open_types:
            nodes = self.engine.nodes(typ)
            if all(_is_fixed(node) for node in nodes):
                self._types[typ] = digest
                return digest, None
            # A scope holds what it watches, which must not keep functions and jitclasses alive.
            lasting = not any(isinstance(node.obj, _OPEN_TYPES) for node in nodes)
            self._open_types[typ] = (generation, digest, scope) if lasting else None
        elif last is not None:
            self._open_types[typ] = (generation, digest, scope)
        return digest, scope

    def hands_on(self, typ: Any) -> bool:
        """Whether a type of a signature, whose digest is known, brings a module along."""
        return bool(self._types_that_hand_on) and typ in self._types_that_hand_on

    def is_fixed(self, typ: Any) -> bool:
        """Whether nothing about a type of a signature can change while the process lives."""
        if typ not in self._types and typ not in self._open_types:
            self.type_digest(typ)
        return typ in self._types


def _is_fixed(node: Node) -> bool:
    """Whether nothing about a type (or what it holds) can change while the process lives."""
    obj = node.obj
    if node.title.startswith("toolchain "):
        return True
    return isinstance(obj, Type) and type(obj).__module__.startswith("numba.") and not isinstance(obj, _OPEN_TYPES)


_OPEN_TYPES = (types.WeakType, types.ClassType, types.DeferredType)


class Unit:
    """One function with one signature under one set of flags.

    ``kind``: "dispatcher", "ufunc", "cfunc", or a wrapper's; ``owner``: the object whose identity
    counts; ``function``: the Python function compiled.
    """

    def __init__(
        self,
        maker: KeyMaker,
        frames: FrameStack,
        kind: str,
        owner: Any,
        function: FunctionType,
        args: tuple[Any, ...],
        return_type: Any,
        flags: compiler.Flags,
        extra: tuple[tuple[str, str], ...] = (),
        conditions: bytes = b"",
    ) -> None:
        self.maker = maker
        self.kind = kind
        # Units live as long as the code they stand for; a dispatcher dies when its last user lets go.
        self._owner = weakref.ref(owner)
        # What is needed to compile the function again when its owner is no more.
        self._locals = getattr(owner, "locals", None) or getattr(getattr(owner, "_compiler", None), "locals", {})
        self._pipeline = _pipeline_of(owner)
        self.function = function
        self.args = args
        self.return_type = return_type
        self.flags = flags
        self.extra = extra
        self.frames = frames
        self.conditions = conditions or maker.conditions.digest()
        self.content = b""
        """The owner's identity, once the key is known."""
        self._hands_on = False
        self.of_the_past = False
        self._key = ""
        self.registered: tuple[bytes, ...] = ()
        """The names that it asked for, and for which others have registered something."""
        self.asks: tuple[Ask, ...] = ()
        """What it asked other people's choosers, once it is compiled."""
        self._nodes: list[Node] | None = None
        self._nodes_of_types: dict[Any, list[Node]] = {}
        self._reach: Reach | None = None

    @property
    def owner(self) -> Any:
        """The object whose identity counts.  Raises ReferenceError when it is no more."""
        owner = self._owner()
        if owner is None:
            msg = f"{self.name} is no more"
            raise ReferenceError(msg)
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
            content = b"".join([part if type(part) is _Parts else _framed(part) for part in self._key_parts()])
            self._key = hashlib.blake2b(content, digest_size=32, person=b"nbcache key").hexdigest()
        return self._key

    def stands_for(self, key: str) -> None:
        """Ask for an entry that was made from what the owner was earlier in this process."""
        self._key = key
        self.of_the_past = True

    def _key_parts(self) -> Iterator[bytes]:
        maker = self.maker
        yield b"key version %d" % KEY_VERSION
        yield self.conditions
        yield self.kind.encode()
        yield self.name.encode("utf-8", "surrogatepass")
        yield _flag_parts(self.flags)
        for label, words in self.extra:
            yield f"{label}={words}".encode()
        open_types: list[tuple[object, Scope]] = []
        for typ in self.args:
            digest, scope = maker.type_scoped(typ)
            yield digest
            if scope is not None:
                open_types.append((typ, scope))
        yield b"returns" if self.return_type is None else maker.type_digest(self.return_type)
        self.content = self._content()
        yield self.content
        if self.args and (self._hands_on or any(map(maker.hands_on, self.args))):
            # What one of them hands on another may read, by names that a third one has.
            yield maker.engine.together((self.owner, *self.args))
        yield maker.engine.sharing(self.owner, open_types)
        if self.flags.debuginfo or self.flags.dbg_directives_only:
            yield self._debug_lines()

    def changed(self, late: Iterable[str]) -> bool:
        """Whether the identity isn't any more what the key was made of, apart from modules that came *late*."""
        try:
            if self._content() == self.content:
                return False
            with imports.hiding(late):
                return self._content() != self.content
        except Unidentifiable:
            return True

    def _content(self) -> bytes:
        """What identifies what is compiled.  Raises Unidentifiable."""
        content, scope = self.maker.engine.scoped(self.owner)
        self._hands_on = scope.hands_on
        return content

    def _debug_lines(self) -> bytes:
        """Debug information holds every line of every function reached: then places are content."""
        hasher = hashlib.blake2b(digest_size=32)
        for node in self.maker.engine.nodes(self.owner):
            code = getattr(node.obj, "__code__", None)
            if code is not None and hasattr(code, "co_consts"):
                for each in nested_codes(code):
                    hasher.update(repr((each.co_filename, list(each.co_lines()))).encode())
        return hasher.digest()

    def reach(self) -> Reach:
        """The index over all that this unit reaches; walked when first asked for."""
        if self._reach is None:
            nodes = {id(node.obj): node for node in self._own_nodes()}
            for typ in self._open_types():
                nodes.update((id(node.obj), node) for node in self._type_nodes(typ))
            self._reach = Reach(nodes.values(), self._registered_nodes if self.registered else None)
        return self._reach

    def reaching(self, names: Iterable[bytes]) -> Reach:
        """The same with what others have registered for *names*."""
        self.meets(self.maker.extensions.relevant_among(names))
        return self.reach()

    def meets(self, registered: tuple[bytes, ...]) -> None:
        """What others have registered for these names belongs to what the unit reaches."""
        if not set(registered) <= set(self.registered):
            self.registered = tuple(sorted({*self.registered, *registered}))
            self._reach = None

    def _registered_nodes(self) -> Iterator[Node]:
        return self.maker.nodes_registered(self.registered)

    def referent(self, reference: tuple[int, bytes]) -> object:
        """The object of an entry's *reference*.  Raises tokens.Unresolvable."""
        found = self.maker.engine.keeper(self.owner, reference[1])
        return self.reach().referent(reference) if found is None else found

    def forget(self) -> None:
        """Let go of what the unit reaches; it is walked again when somebody asks."""
        self._nodes = self._reach = None
        self._nodes_of_types.clear()

    def _own_nodes(self) -> list[Node]:
        if self._nodes is None:
            self._nodes = self.maker.engine.nodes(self.owner)
        return self._nodes

    def _type_nodes(self, typ: Any) -> list[Node]:
        if typ not in self._nodes_of_types:
            self._nodes_of_types[typ] = self.maker.engine.nodes(typ)
        return self._nodes_of_types[typ]

    def _open_types(self) -> list[Any]:
        """The argument types that depend on code."""
        return [typ for typ in self.args if not self.maker.is_fixed(typ)]

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
        """The key's components in words: (label, value)."""
        maker = self.maker
        found = [("key version", str(KEY_VERSION)), *maker.conditions.components(), ("kind", self.kind)]
        found += [*flag_components(self.flags), *self.extra]
        found.append(("signature", self.signature_text))
        for i, typ in enumerate(self.args):
            if not maker.is_fixed(typ):
                found += _node_components(self._type_nodes(typ), f"argument {i} ")
        found += _node_components(self._own_nodes(), "")
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
                found += _node_components(nodes, f"chosen by {chooser}: ")
        return found


class StencilUnit(Unit):
    """A stencil called from Python; ``args`` end with the type of ``out`` if there is one."""

    def __init__(self, maker: KeyMaker, frames: FrameStack, stencil: Any, args: tuple[Any, ...], *, out: bool) -> None:
        # The neighborhood is among the options, or was found when the stencil was compiled last.
        extra = (("out", str(out)), ("neighborhood", repr(stencil.neighborhood)))
        function = stencil.kernel_ir.func_id.func
        super().__init__(maker, frames, "stencil", stencil, function, args, None, compiler.DEFAULT_FLAGS, extra)

    def compile_again(self, _build: str) -> Any:
        msg = f"nothing links against {self.name}, a stencil that is called from Python"
        raise RuntimeError(msg)


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

    def _key_parts(self) -> Iterator[bytes]:
        yield b"lifted key version %d" % KEY_VERSION
        yield self.conditions
        yield repr(self._origin).encode()
        block = self.owner.func_ir
        yield f"{sorted(block.blocks)} {block.arg_names} {getattr(self.owner, 'output_types', None)}".encode()
        yield _flag_parts(self.flags)
        for typ in self.args:
            yield self.maker.type_digest(typ)
        if self._is_loop:
            self.content = self._content()
            yield self.content
            yield self.maker.engine.sharing(self.function)

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

    def components(self) -> list[tuple[str, str]]:
        """The key's components in words."""
        key, number = self._origin
        origin = [("lifted from", key), ("number", str(number))]
        if self._is_loop:
            return [*origin, *super().components()]
        return [*origin, ("kind", self.kind), *flag_components(self.flags), ("signature", self.signature_text)]


def _node_components(nodes: list[Node], prefix: str) -> list[tuple[str, str]]:
    """Parts in words, under the label of whoever holds them: an array under the global's name."""
    found: list[tuple[str, str]] = []
    for node in nodes:
        if node is not nodes[0] and _is_leaf(node):
            continue
        owner = "" if node.title.startswith("function ") else f"{node.title}: "
        for label, content, words in node.parts:
            if content == b"@":
                continue  # nothing but the edge of this label
            found.append((f"{prefix}{owner}{label}", words or hashlib.blake2b(content, digest_size=6).hexdigest()))
        for (label, _obj), child, compiled in zip(node.edges, node.children, node.ways, strict=True):
            words = ", ".join([child.title, *(part[2] for part in child.parts)]) if _is_leaf(child) else child.title
            # The third kind says so in its title: "reference to".
            found.append((f"{prefix}{owner}{label}", words if compiled else f"{words} (run while compiling)"))
    return found


def _is_leaf(node: Node) -> bool:
    return not node.edges and not node.title.startswith("function ")


def flag_components(flags: compiler.Flags) -> list[tuple[str, str]]:
    """Flags as components of a key: (label, value)."""
    values = flags._values
    return [(label, _flag_text(values.get(name, default))) for label, name, default in _flag_labels(type(flags))]  # type: ignore[arg-type]


class _Parts(bytes):
    """Several parts of a key, each with its length."""


def _framed(part: bytes) -> bytes:
    return len(part).to_bytes(8, "little") + part


def _flag_parts(flags: compiler.Flags) -> _Parts:
    """Flags as parts of a key.  Nearly all functions have the same."""
    shown = [
        (name, type(value), value if type(value) in _PLAIN_FLAGS else _flag_text(value))
        for name, value in flags._values.items()
    ]
    known = (type(flags), *shown)
    found = _parts_of_flags.get(known)
    if found is None:
        parts = [_framed(f"{label}={words}".encode()) for label, words in flag_components(flags)]
        found = _parts_of_flags[known] = _Parts(b"".join(parts))
    return found


_parts_of_flags: dict[tuple[object, ...], _Parts] = {}


@functools.cache
def _flag_labels(kind: Any) -> list[tuple[str, str, Any]]:
    return [(f"options/{name}", name, option.default) for name, option in kind.options.items()]


def _flag_text(value: Any) -> str:
    if type(value) in _PLAIN_FLAGS:  # nearly all; the others' abstract base class makes isinstance slow
        return str(value)
    if isinstance(value, FastMathOptions):
        return " ".join(sorted(value.flags)) or "no"
    if isinstance(value, InlineOptions):
        # A cost model is a function among the dispatcher's options, identified there.
        return value.value if isinstance(value.value, str) else "cost model"
    return str(value)


# -- from what Numba is about to compile -------------------------------------------------------


_parsed: dict[tuple[object, ...], compiler.Flags] = {}


def _flags_of(conditions: bytes, function_compiler: Any) -> compiler.Flags:
    """The flags as ``_FunctionCompiler`` will set them, inherited ones included."""
    flags = _parse(conditions, function_compiler.targetdescr.options, function_compiler.targetoptions)
    try:
        return function_compiler._customize_flags(flags)
    except Exception as exc:
        let_pass(exc)
        msg = f"options that Numba refuses ({exc})"
        raise Unidentifiable(msg) from exc


def _parse(conditions: bytes, parser: Any, options: dict[str, Any]) -> compiler.Flags:
    """What Numba makes of options; parsed once for each set of them that says it all, under the same settings."""
    alone = not ConfigStack() and all(type(value) in _PLAIN_FLAGS for value in options.values())
    key = (parser, conditions, *((name, type(value), value) for name, value in options.items()))
    if alone and key in _parsed:
        return _parsed[key].copy()
    flags = compiler.Flags()
    parser.parse_as_flags(flags, options)
    if alone:
        _parsed[key] = flags.copy()
    return flags


def unit_for(maker: KeyMaker, frames: FrameStack, owner: Any, sig: Any) -> Unit:
    """The unit that *owner* (a Dispatcher, UFuncDispatcher or CFunc) is asked to compile."""
    args, return_type = sigutils.normalize_signature(sig)
    conditions = maker.conditions.digest()
    if isinstance(owner, UFuncDispatcher):
        # _compile_core has entered the flags it is going to use.
        kind, function, flags = "ufunc", owner.py_func, ConfigStack().top().copy()
    elif isinstance(owner, Dispatcher):
        kind, function, flags = "dispatcher", owner.py_func, _flags_of(conditions, owner._compiler)
    else:
        kind, function, flags = "cfunc", owner._pyfunc, _flags_of(conditions, owner._compiler)
    return Unit(maker, frames, kind, owner, function, tuple(args), return_type, flags, conditions=conditions)


def _pipeline_of(owner: Any) -> Any:
    function_compiler = getattr(owner, "_compiler", None)
    return compiler.Compiler if function_compiler is None else function_compiler.pipeline_class
