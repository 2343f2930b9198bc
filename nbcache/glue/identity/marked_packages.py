"""Code of installed packages that leads where nothing can be identified: it counts where it runs.

What a package that extends Numba defines may lead anywhere: a type to a class, the class to its methods, those to all
of the package, to files and to streams. Hardly any of that ever runs in a compilation. So where a walk comes to what
nobody can identify, the installed packages on the way are *marked*; where that could be read off a module that is
handed on, those are whose code reads anything. From then on walks end at those of their functions that a name leads to
and that could only run: the name is all that counts there. Which of these do run is noted while something compiles
(:mod:`nbcache.glue.capture.code_that_ran`). An entry has their names, and one digest over all that they consist of
(`MarkedPackages.digest`), in which walks end at others in the same way. As long as all that ran is the same and reads
the same, the same will run.

What a program defines itself counts by all that it reaches, whether it runs or not, and so does what no name leads to,
and all of a package that isn't marked.

Marking may come to nothing: a package that changes, while it runs, what it reads has nothing stored all the same. Then
it is *opaque* (`give_up`), and what leads there is refused at once, as it would be if nothing were ever marked.
"""

from __future__ import annotations

import dis
import functools
import sys
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

from nbcache.glue.identity.bytecode import nested_codes
from nbcache.glue.identity.distributions import owner_of
from nbcache.glue.identity.node import Node, Unidentifiable
from nbcache.glue.identity.ownership import is_toolchain_file, resolve
from nbcache.process import os

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_OURS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
PLAIN, MARKED, OPAQUE = "plain", "marked", "opaque"
"""What can be known of a distribution: its code counts by all that it reaches; walks end at its code; walks ended there
to no avail, so what leads there isn't cached. Where processes say different things, the last of these holds."""
verdicts: dict[str, str] = {}
"""Which distributions are marked or opaque, by where their metadata lies; a scope with code of one watches it."""
_remembered: dict[str, str] = {}
"""What other processes know, by name and version."""
_asked: list[bool] = []
"""Not empty once somebody has asked for these."""
runners: dict[bytes, set[str]] = {}
"""By what a compilation may ask for: the modules with others' code that runs then, and that a hit doesn't ask again."""


class Others(Protocol):
    """Who knows of other processes."""

    def recall(self) -> dict[str, str]:
        """What is known there, by name and version of a distribution."""

    def remember(self, name: str, verdict: str) -> None:
        """Say so of one."""


class Memory:
    """Finds who knows of other processes; nobody does where nothing is cached."""

    find: Callable[[], Others | None] = staticmethod(lambda: None)


memory = Memory()
places: dict[CodeType, set[str]] = {}
"""The code at which walks of this process have ended, each with the places where its functions are found."""
MODULE = "module"
"""In a place: not a function in the module, but the module itself."""
_FUNCTIONS_OF: dict[type, tuple[str, ...]] = {
    FunctionType: ("",),
    property: ("fget", "fset", "fdel"),
    classmethod: ("__func__",),
    staticmethod: ("__func__",),
}
"""Under which names it has its functions."""
ENDS = _FUNCTIONS_OF.keys()
"""The types of what `leaf_of` is asked for."""
_PARTS = ("", "fget", "fset", "fdel", "__func__")
"""The same for all that may have the name of a function, and nothing else than the function behind it."""


class Ran:
    """A function that ran: it counts by all that it consists of."""

    __slots__ = ("__weakref__", "function")

    def __init__(self, function: FunctionType) -> None:
        self.function = function


_ran: dict[str, Ran] = {}


def ran(place: str) -> Any:
    """What stands in a graph for the function at a place, or the module.  Raises Unidentifiable if there is none."""
    module, qualname, part = place.split(":")
    function: Any = sys.modules.get(module) if part == MODULE else _found(module, qualname, part)
    if function is None:
        msg = f"{place.rstrip(':')}, which ran while it was compiled, is no more"
        raise Unidentifiable(msg)
    if part == MODULE:
        return function
    known = _ran.get(place)
    if known is None or known.function is not function:
        known = _ran[place] = Ran(function)
    return known


def whole(function: Any) -> Any:
    """What stands in a graph for a function at which no walk may end, though it could: that, or the function itself."""
    if type(function) is not FunctionType or leaf_of(function) is None:
        return function
    return ran(str(_place_of(function)))


_leaves: dict[int, Node] = {}
_FLAGS = frozenset({bool, type(None)})
"""The types of what `abc` and others set on functions, that leads nowhere."""


def leaf_of(obj: object) -> Node | None:
    """The node of what could only run, if a walk ends at it: of a function, or of what has some in a class."""
    flags = obj.__dict__ if type(obj) is FunctionType else {}
    known = None if flags else _leaves.get(id(obj))
    # Met in nearly every class and digested once, unless a walk was broken off at it.
    if known is not None and known.digest is not None:
        return known
    if not _FLAGS.issuperset(map(type, flags.values())):  # code that runs may read what is set on it
        return None
    functions = [getattr(obj, part) if part else obj for part in _FUNCTIONS_OF[type(obj)]]
    found = [_end_at(each) for each in functions if each is not None]
    if None in found:
        return None
    node = Node(obj, type(obj).__name__)
    node.ends = True
    if flags:
        node.value("flags", flags, owned=True)
    else:
        node.watch_size(flags)
        _leaves[id(obj)] = node
    for package in {package_of(each) for each in functions} - {None}:
        node.watch_item(verdicts, str(package), MARKED)
    for place in found:
        node.part("found at", str(place).encode("utf-8", "surrogatepass"), str(place))
    return node


def _end_at(function: object) -> str | None:
    """The place of a function of an installed package; None if it counts by all that it reaches."""
    if type(function) is not FunctionType or not is_marked(package_of(function)):
        return None
    place = _place_of(function)
    if place is not None:
        places.setdefault(function.__code__, set()).add(place)
    return place


def _place_of(function: FunctionType) -> str | None:
    module, qualname = function.__module__, function.__qualname__
    if not isinstance(module, str) or "<" in qualname:
        return None
    found = (part for part in _PARTS if _found(module, qualname, part) is function)
    return next((f"{module}:{qualname}:{part}" for part in found), None)


def _found(module: str, qualname: str, part: str) -> FunctionType | None:
    """The function of that name; None if there is none."""
    found: Any = sys.modules.get(module)
    for name in qualname.split("."):
        found = getattr(found, "__dict__", {}).get(name)
    found = getattr(found, part, None) if part else found
    return found if type(found) is FunctionType else None


@functools.lru_cache(maxsize=4096)
def changes_globals(code: CodeType) -> bool:
    """Whether code sets global variables: what it read before nobody knows when it has run."""
    return any(each.opname in _SETS for part in nested_codes(code) for each in dis.get_instructions(part))


_SETS = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL"})


def package_of(obj: object) -> str | None:
    """The distribution that a function, a class or a module is of; None if that is the toolchain's or nobody's."""
    if type(obj) is FunctionType:
        filename: Any = obj.__code__.co_filename
    else:
        module = obj if isinstance(obj, ModuleType) else sys.modules.get(getattr(obj, "__module__", None) or "")
        filename = getattr(module, "__file__", None)
    return owner_of(filename) if isinstance(filename, str) and is_installed(filename) else None


def mark(objects: Iterable[object]) -> bool:
    """Mark the distributions of functions, classes and modules; return whether one of them is marked only now."""
    found = {package_of(each) for each in objects if isinstance(each, FunctionType | ModuleType | type)}
    news = {each for each in found if each is not None and verdict_on(each) is None}
    for package in news:
        _say(package, MARKED)
    return bool(news)


def give_up() -> None:
    """What is marked is opaque from now on, here and in other processes."""
    for package in [each for each, verdict in verdicts.items() if verdict == MARKED]:
        _say(package, OPAQUE)
    places.clear()
    _leaves.clear()


def _say(package: str, verdict: str) -> None:
    if verdict != PLAIN:
        verdicts[package] = verdict
    if (others := memory.find()) is not None:
        others.remember(os.path.basename(package), verdict)


def verdict_on(package: str) -> str | None:
    """Whether a package is marked or opaque; None if neither."""
    if package not in verdicts:
        known = _known().get(os.path.basename(package), PLAIN)
        if known != PLAIN:
            verdicts[package] = known
    return verdicts.get(package)


def is_marked(package: str | None) -> bool:
    """Whether walks end at a package's code; None stands for what is nobody's."""
    return package is not None and verdict_on(package) == MARKED


def any_marked() -> bool:
    """Whether a package is marked, here or in another process."""
    return MARKED in verdicts.values() or MARKED in _known().values()


def any_new(names: Iterable[bytes]) -> bool:
    """Whether code of a package runs for one of these *names* of which nobody knows yet where it leads."""
    return memory.find() is not None and any(map(_is_new, _packages_for(names)))


def note_plain(names: Iterable[bytes]) -> None:
    """A compilation is over that asked for these *names*: what isn't marked by now is plain."""
    for package in filter(_is_new, _packages_for(names)):
        _remembered[os.path.basename(package)] = PLAIN
        _say(package, PLAIN)


def _packages_for(names: Iterable[bytes]) -> set[str]:
    modules = {module for name in names for module in runners.get(name, ())}
    found = (package_of(sys.modules[module]) for module in modules if module in sys.modules)
    return {package for package in found if package is not None}


def _is_new(package: str) -> bool:
    return verdict_on(package) is None and os.path.basename(package) not in _known()


def _known() -> dict[str, str]:
    if not _asked and (others := memory.find()) is not None:
        _asked.append(True)
        _remembered.update(others.recall())
    return _remembered


@functools.cache
def is_installed(filename: str) -> bool:
    """Whether an installer has put a file there, for a package that isn't the toolchain's or this one."""
    ours = filename.startswith((_OURS, "<")) or is_toolchain_file(filename)
    return not ours and owner_of(filename) is not None


_classes: WeakKeyDictionary[type, bool] = WeakKeyDictionary()


def is_marked_class(obj: object) -> bool:
    """Whether *obj* is a class of a marked package, found by its name."""
    if not verdicts or not isinstance(obj, type):
        return False
    known = _classes.get(obj)
    if known is None:
        found = package_of(obj) is not None and resolve(obj.__module__, obj.__qualname__) is obj
        known = _classes[obj] = found
    return known and is_marked(package_of(obj))


def lasts(obj: object) -> bool:
    """Whether *obj* lives as long as the process, as a class of a marked package, or holds nothing that need not.

    That is a function of an installed package that was made of no variables: such a one describes what users may do to
    arrays of records, and there are hundreds of them in one table.
    """
    if type(obj) is not FunctionType:
        return is_marked_class(obj)
    made_of = obj.__closure__, obj.__defaults__, obj.__kwdefaults__
    return not any(made_of) and not obj.__dict__ and is_installed(obj.__code__.co_filename)
