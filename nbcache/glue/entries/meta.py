"""What an entry says of itself."""

from __future__ import annotations

import functools
import io
import pickle
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from numba.core import types
from numba.core.dispatcher import LiftedLoop
from numba.core.errors import ForceLiteralArg
from numba.core.types.abstract import _typecache

from nbcache.glue.entries.verdicts import Unloadable
from nbcache.glue.identity.asked_names import Consulted
from nbcache.glue.identity.node import Unidentifiable
from nbcache.glue.identity.ownership import is_numba_type
from nbcache.glue.keys.units import Unit
from nbcache.glue.overloads.uses import Uses
from nbcache.passing_exceptions import suppressed
from nbcache.records import Record

if TYPE_CHECKING:
    from nbcache.glue.keys.key_maker import KeyMaker

Environments = list[tuple[str, str, list[Any]]]
"""Name, module and constants of each."""


CALLEES: Final = "callees"
"""The section that has callees' objects, as `callees.packed` writes it."""


class LiteralsRequested(Record):
    """A compilation that came to nothing but a request: the arguments at these *positions* as literals, please."""

    positions: tuple[int, ...]

    def error(self, dispatcher: Any) -> ForceLiteralArg:
        """What Numba raises then."""

        def folded(args: Any, kws: Any) -> Any:
            return dispatcher.fold_argument_types(args, kws)[1]

        return ForceLiteralArg(self.positions, folded)


class Symbols(Record):
    """The symbols of an entry's object."""

    functions: tuple[str, ...]
    externals: tuple[str, ...]
    """What has to exist in the process before the object is loaded."""
    variables: tuple[str, ...]
    unresolved: tuple[str, ...]
    """Where it looks up functions that were still being compiled: the other halves of recursions."""


class Callee(Record):
    """An object that has to be there before an entry's own is loaded (callees.py)."""

    function: str
    """One that no other object has: where it is defined, this was loaded."""
    symbols: Symbols
    code: bytes


class LibraryMeta(Record):
    """A library, of which one function is wanted."""

    name: str
    symbols: Symbols
    has_callees: bool
    is_exact: bool
    function: str

    def packed(self) -> tuple[Any, ...]:
        """As it stands in an entry."""
        return (self.name, tuple(self.symbols), self.has_callees, self.is_exact, self.function)

    @classmethod
    def unpacked(cls, packed: tuple[Any, ...]) -> LibraryMeta:
        """The same out of an entry."""
        name, symbols, *rest = packed
        return cls(name, Symbols._make(symbols), *rest)


class LiteralsMeta(Record):
    """A request for literals, as the result of a compilation."""

    request: LiteralsRequested
    uses: Uses
    caveats: list[tuple[Any, ...]]
    consulted: Consulted

    def packed(self) -> tuple[Any, ...]:
        """As it stands in an entry, which says ahead of it what was consulted."""
        return (self.request.positions, self.uses.packed(), self.caveats)

    @classmethod
    def unpacked(cls, packed: tuple[Any, ...], consulted: Consulted) -> LiteralsMeta:
        """The same out of an entry."""
        positions, uses, caveats = packed
        return cls(LiteralsRequested(positions), Uses.unpacked(uses), caveats, consulted)


class Meta(Record):
    """A compile result without its code."""

    name: str
    """The library's."""
    symbols: Symbols
    has_callees: bool
    """Whether the entry has a section of callees' objects."""
    is_exact: bool
    """Whether optimising its code again, as part of a caller, changes no result."""
    descriptor: dict[str, Any]
    """Attributes of the FunctionDescriptor; ``argtypes`` is None where they are the unit's."""
    args: tuple[Any, ...] | None
    """Those of the signature; None where they are the unit's."""
    return_type: Any
    module: str | None
    consts: list[Any] | None
    """The constants in the function's environment; None if it has none."""
    environments: Environments
    """Those of functions that were linked into this one."""
    generator: str | None
    """The symbol of the function that resumes the generator which this one returns."""
    objectmode: bool
    lifted: tuple[LiftedLoop, ...]
    has_blocks: bool
    """Whether anything was lifted out of it, loops or ``with`` blocks."""
    neighborhood: Any
    """That of a stencil, settled by compiling it."""
    needs: list[tuple[str, str, str]]
    """Symbol, key and build of each function in another entry that recursive code calls."""
    uses: Uses
    caveats: list[tuple[Any, ...]]
    """What the compilation warned of."""
    consulted: Consulted

    def packed(self) -> tuple[Any, ...]:
        """As it stands in an entry, which says ahead of it what was consulted: plain tuples but for Numba's types."""
        plain = self._replace(symbols=tuple(self.symbols), uses=self.uses.packed())  # type: ignore[arg-type]
        return tuple(plain[:-1])

    @classmethod
    def unpacked(cls, packed: tuple[Any, ...], consulted: Consulted) -> Meta:
        """The same out of an entry."""
        name, symbols, *others, uses, caveats = packed
        return cls._make((name, Symbols._make(symbols), *others, Uses.unpacked(uses), caveats, consulted))

    @property
    def environment(self) -> str:
        """The name of the function's own environment."""
        name: str = self.descriptor["env_name"]
        return name


class Packed:
    """Sections for an entry, and what tells its variants apart."""

    def __init__(
        self, sections: dict[str, bytes], guard: str, *, strict: bool | None, extra: dict[str, object] | None = None
    ) -> None:
        self.sections = sections
        self.guard = guard
        self.strict = strict
        """Whether its results are the same bits, whatever processor it is built for; None where nobody asks."""
        self.extra = extra
        """What its header says of what it is for; None for code for a processor."""


class Asked(Record):
    """What an entry says of Numba's registries, ahead of everything that can only be read where it is right.

    ``names``, ``snapshot``, ``unread``, ``declined``, ``after`` and ``alike`` as in `Consulted`; ``asks``: pickled one
    by one, b"" if nobody's chooser was asked; ``ran``: digest and names of what ran.
    """

    names: bytes
    snapshot: dict[bytes, bytes]
    asks: bytes
    unread: bytes = b""
    ran: tuple[bytes, tuple[str, ...]] = (b"", ())
    declined: bytes = b""
    after: bytes = b""
    alike: bytes = b""

    def consulted(self, unit: Unit) -> Consulted:
        """The same as a compilation in this process would have it, but for the questions."""
        generation = unit.maker.extensions.generation
        return Consulted.of_an_entry(
            self.names, self.snapshot, self.unread, self.ran, self.declined, self.after, self.alike, generation
        )


Read = Callable[[str], "bytes | None"]


_NAMES = {id(each): name for name, each in vars(types).items() if is_numba_type(each)}


def name_of(obj: object) -> str | None:
    """The name of one of Numba's own types, such as `int64`; None for anything else.

    Pickles refer to these by name: made anew, one takes ten times as long.
    """
    return _NAMES.get(id(obj))


def type_called(name: str) -> Any:
    """Called by unpickling.  Raises AttributeError where there is none of that name."""
    return getattr(types, name)


class Reader(pickle.Unpickler):
    """Reads what an entry says, where it has types of others in it (`living_type`).

    *maker* identifies their classes; *values* types the values that the code reads, as compiling it would, and these
    types are added to *held*, to live as long as the code.
    """

    def __init__(self, data: bytes, maker: KeyMaker, values: Callable[[], list[object]], held: list[object]) -> None:
        self._file = io.BytesIO(data)
        super().__init__(self._file)
        self.maker = maker
        self._values: Callable[[], list[object]] | None = values
        self._held = held

    @property
    def is_over(self) -> bool:
        """Whether all was read."""
        return self._file.tell() == len(self._file.getbuffer())

    def find_class(self, module: str, name: str) -> Any:
        """What a pickle refers to."""
        found = super().find_class(module, name)
        return functools.partial(living_type, self) if found is living_type else found

    def living(self, typ: Any) -> Any:
        """The type that the program has made and that is equal to this one; None if there is none."""
        found = _living(typ)
        if found is None and self._values is not None:
            values, self._values = self._values, None
            self._held += values()
            found = _living(typ)
        return found


def living_type(
    reader: Reader,
    reconstructor: Callable[..., Any],
    made_of: tuple[Any, ...],
    state: dict[str, Any],
    content: bytes,
) -> Any:
    """Called by unpickling: the type of somebody else's in this process that is equal to one of an entry.

    It is the program that makes such types, and says what they hold besides what they are compared by: something from a
    setting that is another one now, a number in the order in which they were made, what was filled in while something
    was compiled. Where it has made none yet, one is made if *content* tells that its class, and so what it holds when
    it is made, is the same.  Raises Unloadable.
    """
    typ = reconstructor(*made_of)
    vars(typ).update(state)
    found = reader.living(typ)
    if found is not None:
        return found
    with suppressed(Unidentifiable):
        if content and reader.maker.engine.digest_for_good((type(typ),)) == content:
            return type(typ)._intern(typ)
    raise Unloadable(f"nobody has made the type {typ.name} here yet")


def _living(typ: Any) -> Any:
    known = _typecache.get(weakref.ref(typ))
    return None if known is None else known()


LIVING = living_type.__name__.encode()
"""What there is in a pickle that has somebody else's type."""
