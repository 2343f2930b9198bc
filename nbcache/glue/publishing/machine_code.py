"""The machine code that a publication has besides its entries: the type checks of its functions, and its image."""

from __future__ import annotations

import functools
import logging
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target

from nbcache import processors
from nbcache.elf import symbols_of
from nbcache.errors import ImageError, PublicationError
from nbcache.glue.publishing import image, ir_asking_python, native_check
from nbcache.glue.publishing import ir_unpickling as memory
from nbcache.protocol import manifests
from nbcache.published.runtime import (
    BUILD_EXCEPTION,
    MEMO,
    NUMBA_BUILD_EXCEPTION,
    NUMBA_UNPICKLE,
    REPLACED,
    UNPICKLE,
)
from nbcache.store.content import digest_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from nbcache.glue.publishing.library_code import Codes
    from nbcache.protocol.manifests import ImageFacts

_log = logging.getLogger("nbcache")


class MachineCode(NamedTuple):
    """Functions with the symbols of their checks, what a manifest says of them, and the files that it names."""

    functions: Mapping[str, manifests.Function]
    memo: manifests.ObjectFile | None
    checks: manifests.ObjectFile | None
    image: ImageFacts | None
    variants: tuple[manifests.Variant, ...]
    files: tuple[bytes, ...]


def made(name: str, functions: Mapping[str, manifests.Function], codes: Codes, cpus: Sequence[str]) -> MachineCode:
    """Make type checks for functions, and an image of their codes, as far as that can be done here.

    With ``cpus``, an image for each of these processors has to be made. Raises PublicationError if one can't be, and on
    a Python or NumPy for which no type checks can be made.
    """
    try:
        texts = {attribute: _check(each) for attribute, each in functions.items() if _is_checked(each)}
    except ImageError as error:
        raise PublicationError(name, f"there are no type checks for it: {error}") from error
    checked = {
        attribute: each._replace(check=texts[attribute][0]) if attribute in texts else each
        for attribute, each in functions.items()
    }
    unpickles = any(not REPLACED.keys().isdisjoint(code.externals) for code in codes.codes)
    checks = [text for _symbol, text in texts.values()]
    called = {each.symbol for every in functions.values() for each in every.signatures}
    linked = [*checks, *_replacing(NUMBA_UNPICKLE, NUMBA_BUILD_EXCEPTION)] if unpickles else checks
    bitcodes, kept = codes.bitcodes(), _kept(checked, codes)
    if cpus:
        built = _variants(name, cpus, bitcodes, linked, kept)
        variants = tuple(each for each, _code in built)
        return MachineCode(checked, None, None, variants[-1].image, variants, tuple(code for _each, code in built))

    @functools.cache
    def emitted() -> tuple[bytes | None, bytes | None]:
        return _memo() if unpickles else None, _emitted(checks) if checks else None

    try:
        made = image.build(bitcodes, linked, kept, meanwhile=emitted)
    except ImageError as error:
        _log.info("%s is published without an image: %s", name, error)
        made = None
    memo, compiled = emitted()
    files = tuple(each for each in (memo, compiled, None if made is None else made.code) if each is not None)
    facts = None if made is None else made.facts
    return MachineCode(checked, _object(memo), _object(compiled, called), facts, (), files)


def _variants(
    name: str, cpus: Sequence[str], bitcodes: Sequence[bytes], texts: Sequence[str], keep: Collection[str]
) -> list[tuple[manifests.Variant, bytes]]:
    """Make an image for each processor, the one that can do most first. Raises PublicationError."""
    found = []
    for cpu in cpus:
        try:
            made = image.build(bitcodes, texts, keep, cpu)
        except ImageError as error:
            raise PublicationError(name, f"there is no image of it for {cpu}: {error}") from error
        found.append((manifests.Variant(cpu, processors.told_to_kernel(cpu), made.facts), made.code))
    return sorted(found, key=lambda each: len(each[0].features), reverse=True)


@functools.cache
def _replacing(unpickle: str, build_exception: str) -> tuple[str, ...]:
    """What takes the place of two of Numba's helpers, which ask Numba's Python, under these names."""
    return (
        memory.unpickle_ir(unpickle),
        ir_asking_python.unpickle_ir(UNPICKLE),
        ir_asking_python.exception_ir(build_exception),
    )


def _is_checked(function: manifests.Function) -> bool:
    # Arguments that a star takes come one by one, and are a tuple of the signature.
    return function.what == "njit" and not function.star


def _check(function: manifests.Function) -> tuple[str, str]:
    """The symbol of a function's check, which no other check has, and its text."""
    overloads = [native_check.Overload(each.args, each.symbol) for each in function.signatures]
    about = repr((overloads, function.parameters))
    symbol = f"nbcache_check_{blake2b(about.encode(), digest_size=12).hexdigest()}"
    return symbol, native_check.dispatch_ir(overloads, symbol, function.parameters)


def _kept(functions: Mapping[str, manifests.Function], codes: Codes) -> set[str]:
    entries = {signature.symbol for each in functions.values() for signature in each.signatures}
    checks = {each.check for each in functions.values() if each.check is not None}
    return {*entries, *checks, *(each.symbol for code in codes.codes for each in code.environments)}


@functools.cache
def _memo() -> bytes:
    """The object file of a memo: the same for all publications of a process."""
    return _emitted(_replacing(MEMO, BUILD_EXCEPTION))


@global_compiler_lock
def _emitted(texts: Sequence[str]) -> bytes:
    """Have texts compiled as Numba has its own code compiled."""
    return bytes(cpu_target.target_context.codegen()._tm.emit_object(image.linked([], texts)))


def _object(code: bytes | None, defined: Collection[str] = ()) -> manifests.ObjectFile | None:
    """Describe an object file, if there is one. What is *defined* by the codes is no external of it."""
    if code is None:
        return None
    symbols = symbols_of(code)
    assert symbols is not None, "LLVM made it"
    return manifests.ObjectFile(digest_of(code), tuple(sorted(set(symbols.undefined) - set(defined))))
