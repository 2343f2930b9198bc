"""What a compilation asked Numba's registries for, and what other people's choosers answered.

Numba looks up how something is typed and lowered in containers that any package may add to.  While a
frame is open, the seams around these containers note the *names* asked for.  Names are spelt so that two
processes spell one thing alike; that two things are spelt alike only means that more is compared.  An
entry carries the names, a few bytes each.  A hit compares what others have registered for them
(registrations.py), which nearly always is nothing, and asks the choosers among them again (choices.py).
"""

from __future__ import annotations

import hashlib
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import CodeType, FunctionType
from typing import Any

import numpy as np
from numba.core.types.abstract import Type

from nbcache.glue.identity.ownership import address, is_numba_type, module_name
from nbcache.glue.identity.watched import are_same
from nbcache.passing_exceptions import let_pass
from nbcache.records import Record

_NAME_BYTES = 8
_CHANGED = "what is registered with Numba for something that it asked for changed meanwhile"


class Ask(Record):
    """One question to somebody's chooser, and its answer.

    ``name`` and ``position``: who was asked, the how many-th of those registered for that name; ``args``
    and ``kws``: the types it was asked about; ``flags``: those of whoever asked, in words, since Numba
    keeps an answer for each; ``answer``: identifies the implementation that was chosen, or says that
    there was none; ``config``: the flags themselves, which a chooser may look at.
    """

    name: bytes
    position: int
    args: tuple[Any, ...]
    kws: tuple[tuple[str, Any], ...]
    flags: str
    answer: bytes
    config: Any


class KeptModel:
    """What Numba made the data model of a type of, which it keeps for later compilations.

    ``names``: those in it; ``codes``: what ran, None if nobody noted it; ``under``: by name, what others had registered
    when the compilation was over that made it.
    """

    __slots__ = ("codes", "names", "under")

    def __init__(self, names: tuple[bytes, ...], codes: set[CodeType] | None) -> None:
        self.names = names
        self.codes = codes
        self.under: dict[bytes, bytes] = {}


class Names(set[bytes]):
    """The names that a compilation asked for at one generation of the registries.

    ``noted``: that of which all names are in here, as far as it is asked for often, so that nobody looks again.
    """

    def __init__(self, names: Iterable[bytes] = ()) -> None:
        super().__init__(names)
        self.noted: set[object] = set()


class Consulted:
    """What one compilation asked for, those on the way included.

    ``asked_at``: by the generation of the registries (`ExtensionIndex.refresh`), the names asked for then, to add to;
    ``asks``: in order; ``snapshot``: by name, the identity of what others had registered for it; ``packed``:
    all names, sorted, once the compilation is over; ``conflict``: why that isn't one thing, or "";
    ``unread``: identifies what Numba doesn't read itself (`Unit.unread`), b"" where nobody else could, or nothing is;
    ``ran``: the functions of installed packages that ran, by name, and ``codes`` by their code as long as
    it is going on; ``ran_digest``: identifies them, b"" if there are none; ``blind``: whether something ran that nobody
    noted; ``caveats``: what was warned of; ``declined``: identifies the installed packages with ``numba_extensions``,
    b"" unless all that others had registered for its names was asked and had nothing to say; ``after``: identifies what
    was filled in meanwhile, in answers and in the types of the arguments, b"" if nothing was; ``alike``: which of
    several objects that are alike its code is bound to, where others' code is bound to any as well, b"" if none are.
    """

    __slots__ = (
        "after", "alike", "asked_at", "asks", "blind", "caveats", "codes", "conflict", "declined", "packed", "ran",
        "ran_digest", "snapshot", "unread",
    )  # fmt: skip

    def __init__(self, generation: int, new_names: Callable[[], Names] = Names) -> None:
        self.asked_at: dict[int, Names] = defaultdict(new_names)
        self.asked_at[generation].add(EVERYTHING)
        self.asks: dict[Ask, None] = {}
        self.snapshot: dict[bytes, bytes] = {}
        self.packed = b""
        self.conflict = ""
        self.unread = b""
        self.blind = False
        self.caveats: Sequence[Any] = ()
        self.codes: set[CodeType] = set()
        self.ran: set[str] = set()
        self.ran_digest = b""
        self.declined = b""
        self.after = b""
        self.alike = b""

    @property
    def names(self) -> set[bytes]:
        """All that was asked for."""
        return set().union(*self._unpacked().values())

    def _unpacked(self) -> dict[int, Names]:
        """The names of an entry are taken apart when a caller is compiled, which is seldom."""
        for generation, names in self.asked_at.items():
            if not names:
                self.asked_at[generation] = Names(split(self.packed))
        return self.asked_at

    @property
    def is_empty(self) -> bool:
        """Whether nothing was asked for that not every compilation asks for."""
        found = self.asks or self.snapshot or self.codes or self.ran or self.blind or self.conflict
        return not found and self.names <= {EVERYTHING}

    def include(self, other: Consulted) -> None:
        """Add what a callee asked for when it was compiled, on the way or earlier."""
        for generation, names in other._unpacked().items():
            self.asked_at[generation].update(names)
        self.asks.update(other.asks)
        self.blind |= other.blind
        self.codes |= other.codes
        self.ran |= other.ran
        self.conflict = self.conflict or other.conflict
        self.agree(other.snapshot)

    def agree(self, snapshot: dict[bytes, bytes]) -> None:
        """What is used was made when others had registered this, by name: it has to be what they have now."""
        for name, digest in snapshot.items():
            if self.snapshot.setdefault(name, digest) != digest:
                self.conflict = self.conflict or _CHANGED

    def close(self, current: dict[bytes, tuple[int, bytes]], in_words: Callable[[bytes], str]) -> None:
        """The compilation is over; *current*: what is registered by others for its names, and since when.

        *in_words* says for people what is registered for a name.
        """
        self.packed = b"".join(sorted(self.names))
        for name, (since, digest) in current.items():
            asked = min(generation for generation, names in self.asked_at.items() if name in names)
            if since > asked or self.snapshot.get(name, digest) != digest:
                self.conflict = self.conflict or f"{_CHANGED}: {in_words(name)}"
        if self.snapshot.keys() - current.keys():
            self.conflict = self.conflict or _CHANGED
        self.snapshot = {name: digest for name, (_since, digest) in current.items()}

    @classmethod
    def of_an_entry(
        cls,
        packed: bytes,
        snapshot: dict[bytes, bytes],
        unread: bytes,
        ran: tuple[bytes, tuple[str, ...]],
        declined: bytes,
        after: bytes,
        alike: bytes,
        generation: int,
    ) -> Consulted:
        """What an entry says, agreed upon by this process when its registries were of *generation*."""
        consulted = cls(generation)
        consulted.asked_at[generation] = Names()
        consulted.snapshot = snapshot
        consulted.packed = packed
        consulted.unread = unread
        consulted.ran_digest, places = ran
        consulted.ran = set(places)
        consulted.declined = declined
        consulted.after = after
        consulted.alike = alike
        return consulted


def split(packed: bytes) -> Iterator[bytes]:
    """The names in `Consulted.packed`."""
    return (packed[i : i + _NAME_BYTES] for i in range(0, len(packed), _NAME_BYTES))


# -- how names are spelt -------------------------------------------------------------------------

_hashes: dict[str, bytes] = {}


def name_of(spelling: str) -> bytes:
    """The name for a spelling."""
    name = _hashes.get(spelling)
    if name is None:
        content = spelling.encode("utf-8", "surrogatepass")
        name = _hashes[spelling] = hashlib.blake2b(content, digest_size=_NAME_BYTES).digest()
    return name


EVERYTHING = name_of("*")
"""What counts whatever is compiled: a rewrite, a cast between Numba's own types."""


def typed(key: object) -> bytes:
    """A call is typed, and somebody who registered later than Numba itself is asked how."""
    return name_of("typed " + spelling_of(key))


def called(key: object) -> bytes:
    """A call is typed or lowered, whoever it is that says how."""
    return name_of("called " + spelling_of(key))


def attribute(name: object) -> bytes:
    """An attribute or a method of something is read or written."""
    return name_of(f"attribute {name}")


def attribute_of(cls: type, name: object) -> bytes:
    """The same of a type of this class, which isn't Numba's, or of one derived from it."""
    return name_of(f"attribute {name} of {spelling_of(cls)}")


def type_class(cls: type) -> bytes:
    """Something is of a type of this class, which isn't Numba's."""
    return name_of("type " + spelling_of(cls))


def model_of(cls: type) -> bytes:
    """A value of a type of this class of Numba's is represented: all look for the data model of exactly that class."""
    return name_of("model of " + spelling_of(cls))


def value_class(cls: type) -> bytes:
    """A value of this class, which isn't the toolchain's, needs a type."""
    return name_of("value " + spelling_of(cls))


def annotation(kind: object) -> bytes:
    """A class, or what else stands for a type in an annotation or ``isinstance``, is asked for its type."""
    return name_of("annotation " + spelling_of(kind))


ANY_ANNOTATION = name_of("annotation *")


def spelling_of(key: Any) -> str:
    """What *key*, under which something is registered, is called in any process."""
    try:
        return _spelling(key)
    except Exception as exc:  # noqa: BLE001  somebody's __getattr__; it is spelt alike on both sides
        let_pass(exc)
        return f"of {type(key).__module__}:{type(key).__qualname__}"


def _spelling(key: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, tuple):
        return f"({', '.join(map(spelling_of, key))})"
    if is_numba_type(key):
        return f"of {spelling_of(type(key))}"
    definition = getattr(key, "_defn", None)
    if definition is not None:  # an intrinsic's handle
        key = definition
    qualname = getattr(key, "__qualname__", None) or getattr(key, "__name__", None)
    if not isinstance(qualname, str):
        return f"of {spelling_of(type(key))}"
    module = getattr(key, "__module__", None) or getattr(type(key), "__module__", "")
    return f"{module_name(module)}:{qualname}"


def is_type_class(obj: object) -> bool:
    """``issubclass(obj, numba.types.Type)``, without asking a hundred subclasses for each new class."""
    return isinstance(obj, type) and Type in obj.__mro__


class _AsMade:
    """What types of others held when they were made: what they hold later may have been filled in meanwhile."""

    def __init__(self) -> None:
        self._states: dict[int, tuple[weakref.ref[Any], dict[str, list[Any]]]] = {}

    def note(self, typ: Any) -> None:
        """A type was made just now."""
        key = address(typ)
        # Of containers what is in them: whoever keeps one would keep the type alive that is put into it later.
        state = {name: _items(value) for name, value in vars(typ).items()}
        if all(map(_stays, (item for items in state.values() for item in items))):
            self._states[key] = weakref.ref(typ, lambda _typ: self._states.pop(key, None)), state

    def of(self, typ: Any) -> dict[str, Any] | None:
        """What a type held then; None if nobody noted it, or something else is there now, or might be."""
        known, state = self._states.get(address(typ), (None, {}))
        if known is None or known() is not typ:
            return None
        held = {name: value for name, value in vars(typ).items() if name in state}
        is_as_it_was = len(held) == len(state) and all(are_same(_items(held[name]), state[name]) for name in state)
        return held if is_as_it_was else None


def _items(value: Any) -> list[Any]:
    """What something holds that can be filled, else itself."""
    return [*value.values()] if type(value) is dict else [*value] if type(value) in {list, set} else [value]


def _stays(value: object) -> bool:
    """Whether nobody can fill anything into this."""
    if type(value) is tuple:
        return all(map(_stays, value))
    return type(value) in _UNCHANGING or is_numba_type(value) or isinstance(value, type | np.dtype)


_UNCHANGING = frozenset({str, bytes, int, float, complex, bool, type(None), FunctionType})

as_made = _AsMade()
