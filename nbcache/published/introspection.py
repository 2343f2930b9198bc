"""What is known of published functions, for people and type checkers: types, shapes, targets, stubs."""

from __future__ import annotations

import io
import pickle
import re
import sys
from typing import TYPE_CHECKING, Any, Final

from nbcache.passing_exceptions import let_pass
from nbcache.published import argtypes
from nbcache.published.members import Member
from nbcache.published.runtime import constant
from nbcache.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nbcache.protocol.manifests import Constant, Function, Host, Manifest, Signature, TypeData


class About(Record):
    """What a loaded function is."""

    name: str
    kind: str
    """``njit``, ``ufunc``, ``gufunc`` or ``cfunc``."""
    publication: str
    """What it was published as."""
    signatures: tuple[str, ...]
    """What it takes and returns."""
    targets: tuple[str, ...]
    """What its code was built for."""
    module: str | None
    """Where the function was defined."""
    doc: str | None


def member_of(function: Any) -> Member | None:
    """Return what a function holds that :func:`nbcache.published.realize.make` made; None for anything else."""
    held = getattr(function, "__self__", None) or getattr(function, "member", None)
    if held is None and "numpy" in sys.modules:
        from nbcache.published import ufuncs

        held = ufuncs.owned(function)
    return held if isinstance(held, Member) else None


def about(member: Member) -> About:
    """Return what is known of a loaded function."""
    function, source = member.function, member.source
    publication = function.name if source is None else source.manifest.name
    found = () if source is None else targets(source.manifest)
    return About(function.name, function.what, publication, signatures(function), found, function.module, function.doc)


def signatures(function: Function) -> tuple[str, ...]:
    """Return what a function takes and returns, in a line for each signature."""
    return tuple(_words(function, each) for each in function.signatures)


def parameters(function: Function) -> str:
    """Return what a function calls its arguments, as Python writes them; "" if that is unknown, as for ufuncs."""
    if not function.parameters:
        return ""
    names = list(function.parameters)
    rest = [f"*{names.pop()}"] if function.star else []
    plain = len(names) - len(function.defaults)
    defaults = map(_default, function.defaults)
    listed = [*names[:plain], *(f"{name}={default}" for name, default in zip(names[plain:], defaults, strict=True))]
    return f"({', '.join([*listed, *rest])})"


def _default(data: Constant | None) -> str:
    """Return a default value in words: ... for one that only what others wrote can make."""
    import base64

    try:
        if data is not None and "pickle" in data:
            return repr(_Plain(io.BytesIO(base64.b64decode(data["pickle"]))).load())
        return "..." if data is None else repr(constant(data))
    except Exception as error:  # noqa: BLE001  a pickle may hold anything
        let_pass(error)
        return "..."


class _Plain(pickle.Unpickler):
    """Reads numbers, text and tuples, and nothing that has to be imported."""

    def find_class(self, module: str, name: str) -> Any:
        """Refuse it."""
        raise pickle.UnpicklingError(f"{module}.{name} is somebody else's")


def _words(function: Function, signature: Signature) -> str:
    if function.ufunc is not None:
        count, kinds = function.ufunc.inputs, [str(constant(each)) for each in signature.types]
        shapes = "" if function.ufunc.signature is None else f", shapes {function.ufunc.signature}"
        return f"({', '.join(kinds[:count])}) -> {', '.join(kinds[count:])}{shapes}"
    if function.what == "cfunc":
        *taken, returned = [each["json"] for each in signature.types]
        return f"({', '.join(taken)}) -> {returned}"
    taken = [argtypes.words(argtypes.of_data(each)) for each in signature.args]
    return f"({', '.join(taken)}) -> {signature.returns}"


def targets(manifest: Manifest) -> tuple[str, ...]:
    """Return what a publication was built for, in words, the best processor first."""
    variants = [f"{each.cpu}: {_target(manifest.host._replace(features=each.features))}" for each in manifest.variants]
    return tuple(variants) or (_target(manifest.host),)


def _target(host: Host) -> str:
    features = f" with {' '.join(host.features)}" if host.features else ""
    return f"{host.machine}, {host.python}, {host.libc}, NumPy's ABI {host.numpy[0]:#x}{features}"


# -- stubs -----------------------------------------------------------------------------------------

_HEAD: Final = """\
from collections.abc import Callable
from typing import Any, overload

import numpy as np
import numpy.typing as npt
"""
_PLAIN: Final = {"bool": "bool", "none": "None", "unicode_type": "str", "bytes": "bytes"}
_NUMBERS: Final = {"int": "int", "uint": "int", "float": "float", "complex": "complex"}
_ARRAY: Final = re.compile(r"(?:readonly |unaligned )*array\((\w+), \d+d, \w\)", re.ASCII)
_WORDS: Final = re.compile(r"([a-z]+?)(?:8|16|32|64|128)", re.ASCII)


def stubs(manifest: Manifest) -> str:
    """Return a module for type checkers, with the functions of a publication under the names that they have there."""
    lines = [_HEAD]
    for attribute, function in manifest.functions.items():
        name = attribute or function.name
        # A lambda has no name that can be written down.
        lines += _stub(name if name.isidentifier() else re.sub(r"\W", "_", manifest.name), function)
    return "\n".join(lines) + "\n"


def _stub(name: str, function: Function) -> Iterator[str]:
    if function.ufunc is not None:
        yield f"{name}: np.ufunc"
    elif function.what == "cfunc":
        *taken, returned = [_type_in_words(each["json"]) for each in function.signatures[0].types]
        yield f"{name}: Callable[[{', '.join(taken)}], {returned}]"
    elif function.what == "njit":
        for each in function.signatures:
            if len(function.signatures) > 1:
                yield "@overload"
            yield f"def {name}({_parameters(function, each)}) -> {_type_in_words(each.returns)}: ..."
    else:
        yield f"{name}: Any"


def _parameters(function: Function, signature: Signature) -> str:
    optional = len(function.parameters) - len(function.defaults)
    found = []
    for at, (name, data) in enumerate(zip(function.parameters, signature.args, strict=True)):
        default = " = ..." if at >= optional and not function.star else ""
        if function.star and at == len(function.parameters) - 1:
            found.append(f"*{name}: Any")
        else:
            found.append(f"{name}: {_type(data)}{default}")
    return ", ".join(found)


def _type(data: TypeData) -> str:
    kind = data["k"]
    if kind == "array":
        described: Any = argtypes.of_data(data)[1]
        return f"npt.NDArray[np.{described.type.__name__}]"
    if kind == "tuple":
        return f"tuple[{', '.join(map(_type, data['items'])) or '()'}]"
    if kind == "optional":
        return f"{_type(data['of'])} | None"
    if kind in {"datetime64", "timedelta64"}:
        return f"np.{kind}"
    if kind in {"namedtuple", "omitted", "record"}:
        return "Any"
    plain = _type_in_words(kind)
    return f"{plain} | np.integer[Any]" if plain == "int" else plain


def _type_in_words(kind: str) -> str:
    """Return the type that Numba has such words for; Any for what takes more to say."""
    plain = _PLAIN.get(kind)
    if plain is not None:
        return plain
    array = _ARRAY.fullmatch(kind)
    if array is not None:
        element = {"bool": "bool_"}.get(array[1], array[1])
        return f"npt.NDArray[np.{element}]" if _WORDS.fullmatch(array[1]) or array[1] == "bool" else "npt.NDArray[Any]"
    number = _WORDS.fullmatch(kind)
    return "Any" if number is None else _NUMBERS.get(number[1], "Any")
