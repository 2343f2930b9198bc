"""What an entry says of itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from numba.core.errors import ForceLiteralArg

from nbcache.glue.entries.pickling import dumps
from nbcache.glue.identity.consulted import Consulted
from nbcache.glue.keys.units import Unit

if TYPE_CHECKING:
    from nbcache.glue.capture.compilations import Frame
    from nbcache.glue.entries.wrappers import RuntimeUnit, WrapperUnit
    from nbcache.glue.identity.consulted import Ask

    LibraryUnit = RuntimeUnit | WrapperUnit

META_VERSION = 8


# -- packing -----------------------------------------------------------------------------------


class LiteralsRequested(NamedTuple):
    """A compilation that came to nothing but a request: the arguments at these *positions* as literals, please."""

    positions: tuple[int, ...]

    def error(self, dispatcher: Any) -> ForceLiteralArg:
        """What Numba raises then."""

        def folded(args: Any, kws: Any) -> Any:
            return dispatcher.fold_argument_types(args, kws)[1]

        return ForceLiteralArg(self.positions, folded)


class Packed:
    """Sections for an entry, and what tells its variants apart."""

    def __init__(self, sections: dict[str, bytes], guard: str) -> None:
        self.sections = sections
        self.guard = guard


class Asked(NamedTuple):
    """What an entry says of Numba's registries, ahead of everything that can only be read where it is right.

    ``names`` and ``snapshot`` as in `Consulted`; ``asks``: pickled, b"" if nobody's chooser was asked.
    """

    names: bytes
    snapshot: dict[bytes, bytes]
    asks: bytes

    @classmethod
    def of(cls, frame: Frame) -> Asked:
        """What *frame*'s compilation asked for."""
        consulted = frame.consulted
        return cls(consulted.packed, consulted.snapshot, dumps(tuple(consulted.asks), frame) if consulted.asks else b"")

    def consulted(self, asks: tuple[Ask, ...], unit: Unit) -> Consulted:
        """The same as a compilation in this process would have it."""
        return Consulted.of_an_entry(self.names, self.snapshot, asks, unit.maker.extensions.generation)


# -- unpacking ---------------------------------------------------------------------------------


Read = Callable[[str], "bytes | None"]
