"""What loaded functions are, and hold: their facts and their code, as long as they live, and what carries them.

A loaded function is pickled with all of its publication, as bytes (:mod:`nbcache.protocol.blobs`). Who unpickles it
trusts the pickle with anything, and so nothing more is asked there.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from typing import TYPE_CHECKING, Any, Final

from nbcache.passing_exceptions import suppressed
from nbcache.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Protocol

    from nbcache.keyring import Group
    from nbcache.protocol.manifests import Code, Constant, Function, Manifest
    from nbcache.signing_keys import SecretKey

    ObjectOf = Callable[[Manifest, Code], bytes]
    """Returns the object file of one of a manifest's codes. Raises PublicationError."""

    class Files(Protocol):
        """Files by digest (:class:`nbcache.store.publication.Files`): what is returned has that digest."""

        def read(self, digest: str, name: str) -> bytes:
            """Return what a file of the publication ``name`` holds. Raises PublicationError."""

        def opened(self, digest: str, name: str) -> tuple[str | None, bytes]:
            """Return where it lies, too; None if it is no file."""


_VARARGS_KEYWORDS: Final = 0x1 | 0x2
"""METH_VARARGS | METH_KEYWORDS, Include/methodobject.h: how Numba's wrappers want to be called."""

_FASTCALL_KEYWORDS: Final = 0x80 | 0x2
"""METH_FASTCALL | METH_KEYWORDS: how type checks want to be called (:mod:`nbcache.glue.publishing.native_check`)."""
_PLAIN: Final = frozenset({bool, int, str, bytes, type(None)})
_NOT_FINITE: Final = {"nan": "1e400-1e400", "inf": "1e400", "-inf": "-1e400"}
_METHOD_DEF: Final = "PPiP"
"""PyMethodDef: the addresses of a name and of a function, flags, and the address of a docstring."""

_new_function: Any = ctypes.pythonapi.PyCFunction_NewEx
_new_function.restype, _new_function.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3


class Source(Record):
    """What a publication was loaded from: enough to load it elsewhere."""

    raw: bytes
    """The manifest as it is stored."""
    manifest: Manifest
    files: Files
    object_of: ObjectOf
    restore: Callable[[bytes], Any]
    """Loads what :meth:`blob` returned."""
    signers: tuple[Group, ...]
    """One of each group signed it."""

    def blob(self, key: SecretKey | None = None, wanted: Collection[str] | None = None) -> bytes:
        """Return all of it as bytes, signed if there is a ``key``; of its parts those that are ``wanted``, or all.

        Raises PublicationError for a file or an entry that is gone, RemoteError where nothing can be signed.
        """
        from nbcache.protocol import blobs
        from nbcache.store.content import digest_of

        manifest = self.manifest
        parts = {digest: self.files.read(digest, manifest.name) for digest in manifest.needed}
        objects = [] if manifest.image is not None else [self.object_of(manifest, code) for code in manifest.codes]
        digests = tuple(map(digest_of, objects))
        parts.update(zip(digests, objects, strict=True))
        sizes = {digest: len(data) for digest, data in parts.items()}
        here = parts if wanted is None else {digest: parts[digest] for digest in parts.keys() & set(wanted)}
        raw, signed = self.raw, []
        if key is not None:
            from nbcache import signing_keys
            from nbcache.protocol import manifests

            if self.signers:
                # Nobody who stops trusting them runs their code because somebody else has signed it, too.
                raw = manifests.encode(manifest._replace(beside=(*manifest.beside, *self.signers)))
            about = blobs.Blob(raw, digests, sizes, {}, ())
            signed.append(signing_keys.sign(key, blobs.text_of(about.digest)))
        return blobs.encode(raw, digests, sizes, here, signed)

    def __reduce__(self) -> Any:
        """Return what loads it: who reads a pickle trusts it with anything."""
        return self.restore, (self.blob(),)


def function_of(loaded: Any, attribute: str) -> Any:
    """Return the function that a loaded publication has under an attribute; "": the one that it is."""
    if isinstance(loaded, Source):
        # A copy is made of the same parts as a pickle, which nobody has pickled.
        restore, data = loaded.__reduce__()
        loaded = restore(*data)
    return getattr(loaded, attribute) if attribute else loaded


class Carried:
    """Has a function of a loaded publication as its only attribute."""

    def __init__(self, loaded: Any, attribute: str, name: str) -> None:
        setattr(self, name, function_of(loaded, attribute))


class Member:
    """What a loaded function holds for as long as it lives: what its manifest says of it, and its code.

    C code has pointers to some of what is ``kept``, and to nothing that nobody keeps.
    """

    __slots__ = ("__weakref__", "address_of", "attribute", "function", "kept", "source")

    def __init__(
        self, function: Function, address_of: Callable[[str], int], source: Source | None = None, attribute: str = ""
    ) -> None:
        """``address_of`` says where the symbols lie, ``source`` what publication it is the ``attribute`` of."""
        self.function = function
        self.address_of = address_of
        self.source = source
        self.attribute = attribute
        self.kept: list[Any] = []

    def __reduce__(self) -> Any:
        """Return what has the same function as an attribute where the whole publication was carried to.

        Pickling a builtin function is pickling that it is an attribute, by its own name, of what it is a method of.
        """
        return Carried, (*self.portable(), self.function.name)

    def portable(self) -> tuple[Source, str]:
        """Return what names it anywhere. Raises TypeError for what can't leave this process."""
        if self.source is None:
            raise TypeError(f"{self.function.name} can't be pickled: import it from its package where it is needed")
        return self.source, self.attribute


def builtin(
    member: Member,
    address: int,
    flags: int = _VARARGS_KEYWORDS,
    *,
    doc: str = "",
    module: str | None = None,
) -> Any:
    """A builtin function of Python around a C function, which gets the member as its first argument, and keeps it."""
    name, documented = member.function.name.encode(), doc.encode(errors="replace")
    definition = struct.pack(_METHOD_DEF, _address(name), address, flags, _address(documented))
    # Python lets go of what a function is a method of after its last look at the definition: Objects/methodobject.c.
    member.kept += name, documented, definition
    return _new_function(_address(definition), id(member), None if module is None else id(module))


def _address(data: bytes) -> int:
    """Return where bytes lie. A buffer of ctypes would take a class of its own for each size."""
    return ctypes.c_void_p.from_buffer(ctypes.c_char_p(data)).value or 0


class Published(Member):
    """What a published function is a method of: called with what its type check doesn't recognise.

    The dispatcher is made when it is first needed.
    """

    __slots__ = ("_dispatcher", "_make")

    def __init__(self, member: Member, make: Callable[[Member], Callable[..., Any]]) -> None:
        """Hold what a member does; ``make`` makes the dispatcher."""
        super().__init__(member.function, member.address_of, member.source, member.attribute)
        self._dispatcher: Callable[..., Any] | None = None
        self._make = make

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the signature that these fit. Raises TypeError if there is none, and what the function raises."""
        dispatcher = self._dispatcher
        if dispatcher is None:
            dispatcher = self._dispatcher = self._make(self)
        return dispatcher(*args, **kwargs)


def checked(member: Member, check: str, make: Callable[[Member], Callable[..., Any]]) -> Any:
    """Return a function that is called with what its type check, under that symbol, recognises."""
    function, held = member.function, Published(member, make)
    address = member.address_of(check)
    return builtin(held, address, _FASTCALL_KEYWORDS, doc=_documented(function), module=function.module)


def _documented(function: Function) -> str:
    """A docstring as CPython's own builtins have it, behind a line from which `inspect.signature` reads the
    parameters.
    """
    count = len(function.parameters) - len(function.defaults)
    required, optional = function.parameters[:count], function.parameters[count:]
    listed = [*required, *(f"{name}={_shown(data)}" for name, data in zip(optional, function.defaults, strict=True))]
    return f"{function.name}({', '.join(listed)})\n--\n\n{function.doc or ''}"


def _shown(default: Constant | None) -> str:
    """A default value as `inspect.signature` reads it: a plain one, or a tuple of such."""
    if default is None:
        return "..."
    if "json" in default:
        return repr(default["json"])
    from nbcache.published.runtime import constant

    with suppressed(Exception):  # somebody else's class
        return _literal(constant(default))
    return "..."


def _literal(value: object) -> str:
    # Names such as nan are none to `inspect`, and before Python 3.12 it takes a tuple of one for what is in it.
    if type(value) is float:
        return _NOT_FINITE.get(repr(value), repr(value))
    if type(value) is tuple and (len(value) != 1 or sys.version_info >= (3, 12)):
        return f"({', '.join(map(_literal, value))}{',' * (len(value) == 1)})"
    return repr(value) if type(value) in _PLAIN else "..."
