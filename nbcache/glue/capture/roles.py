"""What the compilations of a process ask of others, for type checkers: a running process never imports this."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nbcache.glue.identity.asked_names import Ask, Consulted
    from nbcache.glue.identity.counterparts import Reach


class OpenUnit(Protocol):
    """What a compilation needs to know of the unit that is compiled."""

    @property
    def key(self) -> str:
        """Its key."""

    @property
    def maker(self) -> Any:
        """Who identifies what it is made of."""

    @property
    def kind(self) -> str:
        """What it is of: "ufunc", say."""

    @property
    def args(self) -> tuple[Any, ...]:
        """The types of its arguments."""

    @property
    def owner(self) -> Any:
        """Whose identity counts."""

    @property
    def has_own_pipeline(self) -> bool:
        """Whether somebody else's compiler compiles it."""

    @property
    def ends(self) -> bool:
        """Whether a walk through it ends at code that could run while it is compiled."""

    @property
    def may_run(self) -> bool:
        """Whether it reaches anything of others that may run while it is compiled."""

    def answered(self, asks: Iterable[Ask]) -> None:
        """What choosers chose for these questions belongs to what the unit reaches."""

    def reaching(self, names: set[bytes]) -> Reach:
        """What the unit reaches, with what others have registered for *names*."""


class Registrar(Protocol):
    """Who knows what is registered."""

    def new_consulted(self, frame: Any) -> Consulted:
        """What a compilation (`compilations.Frame`) that begins has asked for: nothing."""

    def close(self, frame: Any) -> None:
        """A compilation (`compilations.Frame`) is over: see what was registered for what it asked for."""


class Listener(Protocol):
    """Who notes something while a compilation is open in the thread."""

    def start(self) -> None:
        """The first compilation opens."""

    def stop(self) -> None:
        """The last one has closed."""


class PausedListener(Listener, Protocol):
    """One that may look away for a while."""

    paused: int
    """By how many it was asked to."""
