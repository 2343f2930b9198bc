"""From a manifest to something that can be called, for all ways by which a manifest comes.

The host is compared with the one that it was built for (:mod:`~nbcache.hosts`), its machine code is loaded
(:class:`MachineCode`), and each function is made of its entry points (:func:`make`). What was
loaded is shared by all publications that refer to it.

Machine code comes out of an image, or entry by entry with LLVM. Both ways bind the same symbols to the same things:
arrays that code has the address of, cells through which functions call each other
(:mod:`~nbcache.published.variables`), and the runtime (:mod:`~nbcache.published.runtime`). An image is preferred,
because it needs no LLVM; where it can't be mapped, the entries are there as well.
"""

from __future__ import annotations

import os
from _thread import RLock
from collections import OrderedDict
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, Literal

from nbcache import hosts
from nbcache.passing_exceptions import errors, suppressed
from nbcache.published.members import Member, Source, builtin, checked
from nbcache.published.runtime import ADD_PENDING_CALL, HELPERS, MAKE_GENERATOR, Runtime
from nbcache.published.runtime import bind as bind_environments

if TYPE_CHECKING:
    import ctypes
    from collections.abc import Callable, Iterable, Mapping

    from nbcache.protocol.manifests import Function, ImageFacts, Manifest
    from nbcache.published import images
    from nbcache.published.dispatch import Dispatcher
    from nbcache.published.entry_code import Entries
    from nbcache.published.members import Files, ObjectOf
    from nbcache.published.variables import Variables

WithNumba = Literal["forbid", "allow"]
MOST_KNOWN: Final = 1024
"""How many loaded publications a process keeps for who asks for them again."""


def _leaves_addresses(manifest: Manifest, facts: ImageFacts) -> bool:
    """Whether somebody may have an address in the code of an image, or in its constants, when its functions are gone.

    C has those of callbacks, generators that of their code, and Python that of what raises later what the handler of a
    signal raised. That comes along with unpickling, and so with each array that is handed to Python: it may be a
    constant.
    """
    leaving = {MAKE_GENERATOR, ADD_PENDING_CALL}
    called = any(symbol in leaving for _offset, symbol, _addend in facts.slots)
    return called or any(each.what == "cfunc" for each in manifest.functions.values())


class MachineCode:
    """What this process has loaded of code that one version of Numba made. One thread at a time."""

    def __init__(self, version: str) -> None:
        """Load nothing yet, and start no LLVM."""
        self._runtime = Runtime(version)
        self._entries: Entries | None = None
        self._kept: list[Any] = []
        """What code that stays has the addresses of."""
        self._variables: Variables | None = None

    def load(self, manifest: Manifest, files: Files, object_of: ObjectOf | None) -> Callable[[str], int]:
        """Load what a manifest refers to; return what says where its symbols lie. Raises PublicationError.

        ``files`` are those of publications, by digest. Without ``object_of`` there are no object files, and an image
        that can't be mapped, or isn't there, raises ImageError.
        """
        if any(manifest.imports.values()):
            from nbcache.published.manifest_names import check_fields

            check_fields(manifest)
        self._runtime.extensions.offer(manifest.extensions, lambda digest: files.read(digest, manifest.name))
        kept: list[Any] = []
        if manifest.tokens:
            from nbcache.published import unpickling  # most blame no place in a source file

            kept += unpickling.locate(manifest.tokens)
        if manifest.arrays or manifest.natives:
            kept += self._found().find(manifest, files)
        if manifest.image is not None:
            try:
                return self._load_image(manifest, manifest.image, files, kept)
            except errors.ImageError as error:
                if object_of is None:
                    raise
                import logging

                logging.getLogger("nbcache").info(
                    "%s is loaded with LLVM instead of its image: %s", manifest.name, error
                )
        if object_of is None:
            raise errors.ImageError("there is no image of it")
        self._kept += kept
        if self._entries is None:
            from nbcache.published.entry_code import Entries

            self._entries = Entries(self._addresses, self._cell, self._kept)
        return self._entries.load(manifest, files, object_of)

    def _found(self) -> Variables:
        """Return what code refers to by name besides symbols."""
        if self._variables is None:
            from nbcache.published.variables import Variables  # most refers to none

            self._variables = Variables(self._kept)
        return self._variables

    def _cell(self, symbol: str, value: int) -> ctypes.c_void_p:
        return self._found().cell(symbol, value)

    def _addresses(self, symbols: Iterable[str]) -> dict[str, int]:
        """Where symbols from elsewhere lie. Raises LookupError."""
        known, find, variables = self._runtime.known, self._runtime.address, self._variables
        if variables is None:
            return {symbol: known.get(symbol) or find(symbol) for symbol in symbols}
        return {symbol: variables.address(symbol) or known.get(symbol) or find(symbol) for symbol in symbols}

    def _load_image(self, manifest: Manifest, facts: ImageFacts, files: Files, kept: list[Any]) -> Callable[[str], int]:
        from nbcache.published import images

        path, code = files.opened(facts.digest, manifest.name)

        def bind(image: images.Image) -> None:
            image.kept = kept
            for each in manifest.codes:
                bind_environments(each.environments, image.address, kept)

        image = images.open_image(code, facts, self._addresses, path, bind)
        if _leaves_addresses(manifest, facts):
            image.stay()
        return image.address


class Process:
    """What this process has loaded."""

    def __init__(self) -> None:
        self.lock = RLock()
        self._code: dict[tuple[str, str], MachineCode] = {}
        self._loaded: OrderedDict[tuple[object, ...], tuple[object, Any]] = OrderedDict()

    def known(self, asked: tuple[object, ...], stamp: object, loaded: Callable[[], Any]) -> Any:
        """Return what was asked for before while the stamp was the same; or what is loaded now."""
        found = self._loaded.get(asked)
        if found is None or found[0] != stamp:
            found = self._loaded[asked] = stamp, loaded()
            while len(self._loaded) > MOST_KNOWN:
                self._loaded.popitem(last=False)
        with suppressed(KeyError):  # another thread has loaded that many
            self._loaded.move_to_end(asked)
        return found[1]

    def code(self, manifest: Manifest) -> MachineCode:
        """What has the code of Numba's version, and build, that a manifest is of: runtimes of two can't be mixed."""
        helpers = next((each.digest for each in manifest.extensions if each.module == HELPERS), "")
        found = self._code.get((manifest.numba, helpers))
        if found is None:
            found = self._code[manifest.numba, helpers] = MachineCode(manifest.numba)
        return found


process: Final = Process()
# Nothing is loaded while a process is copied: the child would have half of it, and locks that nobody gives back.
os.register_at_fork(
    before=process.lock.acquire, after_in_parent=process.lock.release, after_in_child=process.lock.release
)


def realize(source: Source, *, numba: WithNumba | None = None) -> Any:
    """Return what is described where it is loaded from. Raises PublicationError.

    *numba*: what the caller said of it; None if nobody can, as of bytes.
    """
    manifest = source.manifest.fitting(hosts.features()) if source.manifest.variants else source.manifest
    problem = hosts.problem(manifest.host)
    if problem is not None:
        if numba != "allow":
            otherwise = "" if numba is None else ", or load it with numba='allow'"
            raise errors.PublicationError(manifest.name, f"{problem}: publish it for this kind of host{otherwise}")
        return _shaped({attribute: _import(manifest, each) for attribute, each in manifest.functions.items()})
    try:
        with process.lock:
            object_of = None if manifest.variants else source.object_of
            address_of = process.code(manifest).load(manifest, source.files, object_of)
            return _shaped({name: _made(source, name, numba, address_of) for name in manifest.functions})
    except (errors.NbcacheError, MemoryError):
        raise
    except Exception as exc:
        raise errors.PublicationError(manifest.name, f"it can't be loaded: {exc}") from exc


def _shaped(functions: Mapping[str, Any]) -> Any:
    return functions[""] if functions.keys() == {""} else SimpleNamespace(**functions)


def _made(source: Source, attribute: str, numba: WithNumba | None, address_of: Callable[[str], int]) -> Any:
    manifest = source.manifest
    function = manifest.functions[attribute]
    if function.what == "numba":
        if numba != "allow":
            otherwise = "" if numba is None else "; load it with numba='allow' where Numba is installed"
            raise errors.PublicationError(manifest.name, f"{function.name} needs Numba: {function.reason}{otherwise}")
        return _import(manifest, function)
    return make(Member(function, address_of, source, attribute))


def make(member: Member) -> Any:
    """What is to be called for a function of a manifest."""
    # Imported here: most processes need one kind, and no dispatcher.
    function = member.function
    if function.what == "njit":
        return _dispatcher(member) if function.check is None else checked(member, function.check, _dispatcher)
    if function.what == "cfunc":
        from nbcache.published import callbacks

        return callbacks.Callback(member)
    from nbcache.published import ufuncs

    return ufuncs.make(member)


def _dispatcher(member: Member) -> Dispatcher:
    from nbcache.published.dispatch import Dispatcher

    function, address_of = member.function, member.address_of
    held = Member(function, address_of, member.source, member.attribute)
    return Dispatcher(held, [builtin(held, address_of(signature.symbol)) for signature in function.signatures])


def _import(manifest: Manifest, function: Function) -> Any:
    """The function itself, which Numba will compile."""
    if function.source is None:
        raise errors.PublicationError(
            manifest.name, f"{function.name} is no attribute of a module: Numba can't be used instead"
        )
    from nbcache.published.manifest_names import named

    try:
        return named(function.source)
    except (ImportError, AttributeError) as exc:
        raise errors.PublicationError(manifest.name, f"{function.source} can't be imported instead: {exc}") from exc
