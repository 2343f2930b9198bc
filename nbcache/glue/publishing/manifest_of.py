"""A publication of compiled functions: its manifest, and the files and entries that it refers to."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numba

from nbcache.errors import NotPublishableError
from nbcache.glue.publishing import function_kinds, machine_code, target
from nbcache.glue.publishing.library_code import Codes
from nbcache.glue.publishing.refusals import Refused
from nbcache.protocol import manifests, rare_parts
from nbcache.published.runtime import file_of
from nbcache.store.content import digest_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nbcache.glue.publishing.library_code import Entries


class Described(NamedTuple):
    """A manifest, and the content of the files that it names, by digest."""

    manifest: manifests.Manifest
    files: Mapping[str, bytes]

    @property
    def entries(self) -> frozenset[str]:
        """The keys of the entries that it refers to."""
        return frozenset(code.key for code in self.manifest.codes)


def describe(
    name: str,
    functions: Mapping[str, Any],
    signatures: Sequence[Any] | None,
    store: Entries,
    *,
    keep_refused: bool = False,
    cpus: Sequence[str] = (),
) -> Described:
    """Describe compiled functions by attribute, all of them published under one *name*.

    *signatures* are those to publish, or None for all there are.  With *keep_refused*, what can't go without Numba is
    described as that.  With *cpus*, there is an image for each of these processors.  Raises NotPublishableError,
    PublicationError.
    """
    codes = Codes(store)
    described, refused = {}, {}
    for attribute, public in functions.items():
        try:
            described[attribute] = function_kinds.function(public, signatures, codes)
        except Refused as exc:
            found = function_kinds.unusable(public, str(exc)) if keep_refused else None
            if found is None:
                elsewhere = "; nor can a node import it, which has Numba: define it in a module, at the top level"
                reason = f"{exc}{elsewhere if keep_refused else ''}"
                raise NotPublishableError(function_kinds.name_of(public), reason) from exc
            refused[attribute] = found
    if refused:
        # Once more without them: what was noted of a function until it was refused is nothing that nodes need.
        codes = Codes(store)
        described = {
            attribute: function_kinds.function(functions[attribute], signatures, codes) for attribute in described
        }
    in_order = {attribute: described.get(attribute) or refused[attribute] for attribute in functions}
    return _publication(name, in_order, codes, cpus)


def _publication(
    name: str, functions: Mapping[str, manifests.Function], codes: Codes, cpus: Sequence[str]
) -> Described:
    files: dict[str, bytes] = {}

    def add(data: bytes) -> str:
        digest = digest_of(data)
        files[digest] = data
        return digest

    extensions = []
    for module in sorted(codes.extensions):
        path = file_of(module)
        if path is not None:
            with open(path, "rb") as file:
                data = file.read()
            extensions.append(manifests.Extension(module, add(data), len(data)))
    code = machine_code.made(name, functions, codes, cpus)
    host = target.host()
    if code.variants:
        host = host._replace(features=code.variants[-1].features)
    for data in code.files:
        add(data)
    manifest = manifests.Manifest(
        name=name,
        created=time.time(),
        numba=numba.__version__,
        host=host,
        extensions=tuple(extensions),
        codes=tuple(codes.codes),
        memo=code.memo,
        checks=code.checks,
        image=code.image,
        tokens=codes.tokens,
        arrays={symbol: rare_parts.Array(add(data), what, at) for symbol, (data, what, at) in codes.arrays.items()},
        natives=codes.natives,
        imports=dict(sorted(codes.imports.items())),
        functions=code.functions,
        variants=code.variants,
    )
    return Described(manifest, files)
