"""What the hooks ask of the client."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

from nbcache.glue.capture.compilations import FrameStack
from nbcache.glue.overloads.history import History

if TYPE_CHECKING:
    from nbcache.glue.keys.key_maker import KeyMaker


class Session(Protocol):
    """What the seams need from the client: policy lives there, not here."""

    frames: FrameStack
    maker: KeyMaker
    history: History

    def load(self, owner: Any, sig: Any, target_context: Any) -> Any | None:
        """A CompileResult or LiteralsRequested, or None with a frame opened for the compilation that follows."""

    def load_block(self, lifted: Any, args: tuple[Any, ...]) -> Any | None:
        """The same for an ``objmode`` block; no frame is opened for one that can't be told from others."""

    def stencil(self, stencil: Any, args: tuple[Any, ...], out: bool, build: Callable[[], Any]) -> Any:
        """A CompileResult for a stencil that is called from Python, loaded or what *build* returns."""

    def save(self, cres: Any) -> None:
        """The compilation of the innermost frame succeeded."""

    def literals_requested(self, owner: Any, positions: Iterable[int]) -> None:
        """The compilation of the innermost frame asked for literals instead."""

    def loaded(self, owner: Any, entry_point: Any) -> Any:
        """The outermost compilation for *owner* is over: return what is to be called in the place of *entry_point*."""

    def wrapper(self, kind: str, cres: Any, signature: Any, shape: object, build: Callable[[], Any]) -> Any:
        """What *build* returns (library, environment, name), loaded instead if it can be."""

    def runtime(self, target_context: Any, build: Callable[[], Any]) -> Any:
        """The library of Numba's runtime, loaded or what *build* returns."""

    @property
    def cache_path(self) -> str | None:
        """Where entries lie."""

    @property
    def has_hits(self) -> bool:
        """Whether anything was loaded, and so possibly nothing of Numba's registries was."""
