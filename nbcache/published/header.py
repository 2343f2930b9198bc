"""Published functions for C: a header that maps the image, so that they are called without Python.

What can be called from C is what Numba gives a C interface: callbacks (``@cfunc``), and the loops of ufuncs, which take
arrays as pointers, shapes and strides, as NumPy's do (numpy/ufuncobject.h: PyUFuncGenericFunction). What they need from
elsewhere may only be functions of the C library. All that Python has to be there for is an error of theirs: that ends
the process with one line.
"""

from __future__ import annotations

import ctypes
import re
from typing import TYPE_CHECKING, Final

from nbcache.passing_exceptions import errors
from nbcache.published import introspection
from nbcache.published.runtime import NUMBA_BUILD_EXCEPTION, NUMBA_UNPICKLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nbcache.protocol.manifests import Function, ImageFacts, Manifest

_TYPES: Final = {"none": "void", "void*": "void *", "bool": "_Bool", "float32": "float", "float64": "double"}
_OF_ERRORS: Final = (
    "Py", "_Py", "nbcache.", "numba_gil_", NUMBA_UNPICKLE, NUMBA_BUILD_EXCEPTION, "numba_do_raise", "NRT_Free",
)  # fmt: skip
"""What symbols begin with that are needed to raise an error and to free it, or to check types."""
_LIBRARY: Final = "libm.so.6"
_HEADER: Final = """\
/* {title}: compiled functions, exported by nbcache for {machine}. Link with -ldl.

   {name}_open(PATH) maps the image at that path, and returns NULL, or else what is wrong. Then these can be called, by
   any number of threads. An error that a function would raise in Python ends the process. */

#ifndef NBCACHE_{guard}
#define NBCACHE_{guard}

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef NBCACHE_LOOP
#define NBCACHE_LOOP
/* A loop over arrays. args: the first element of each, inputs before outputs. dims: how many elements there are, and
   behind that the core dimensions in the order of their names. steps: for each of args the bytes from one element to
   the next, and behind these the strides of the core dimensions. data: NULL. */
typedef void (*nbcache_loop)(char **args, const intptr_t *dims, const intptr_t *steps, void *data);

static void nbcache_error(void)
{{
    fputs("a function that nbcache exported raised an error, for which there is no Python\\n", stderr);
    abort();
}}
#endif

{declarations}

static const char *{name}_open(const char *path)
{{
    static const struct {{ uint32_t offset; const char *symbol; int64_t addend; }} slots[] = {{
{slots}
        {{ 0, NULL, 0 }}
    }};
    void *library = dlopen("{library}", RTLD_NOW), *image = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL || image == NULL)
        return dlerror();
    char *base = (char *)dlsym(image, "{anchor}");
    if (base == NULL)
        return "it is not the image that this header is of";
    base -= {offset};
    for (size_t i = 0; i + 1 < sizeof slots / sizeof *slots; i++) {{
        void *found = slots[i].symbol == NULL ? (void *)nbcache_error : dlsym(library, slots[i].symbol);
        if (found == NULL)
            return dlerror();
        *(uint64_t *)(base + slots[i].offset) = (uint64_t)found + (uint64_t)slots[i].addend;
    }}
{bindings}
    return NULL;
}}

#endif
"""


def header(manifest: Manifest, title: str) -> str:
    """Return a header for the functions of a publication. Raises PublicationError for what C can't call."""
    name = re.sub(r"\W", "_", manifest.name, flags=re.ASCII)
    image = _image(manifest)
    declarations, bindings = [], []
    for attribute, function in manifest.functions.items():
        called = f"{name}_{attribute}" if attribute else name
        for each in _declared(manifest, called, function):
            comment, declaration, cast, symbol = each
            declarations.append(f"/* {comment} */\nstatic {declaration};")
            variable = re.findall(rf"{called}\w*", declaration)[0]
            bindings.append(f"    {variable} = ({cast})(base + {image.symbols[symbol]});")
    slots = [f"        {{ {at}, {_bound(manifest, symbol)}, {addend} }}," for at, symbol, addend in image.slots]
    return _HEADER.format(
        title=title,
        name=name,
        machine=manifest.host.machine,
        guard=name.upper(),
        declarations="\n\n".join(declarations),
        slots="\n".join(slots),
        library=_LIBRARY,
        anchor=image.anchor,
        offset=image.symbols[image.anchor],
        bindings="\n".join(bindings),
    )


def _image(manifest: Manifest) -> ImageFacts:
    if manifest.image is None:
        reason = "there is no image of it: install a linker (ld, or a C compiler) here, and publish it again"
        raise errors.PublicationError(manifest.name, reason)
    return manifest.image


def _declared(manifest: Manifest, called: str, function: Function) -> Iterator[tuple[str, str, str, str]]:
    """Yield for each signature a comment, a declaration, the type of what is declared, and the symbol."""
    words = introspection.signatures(function)
    for number, (signature, said) in enumerate(zip(function.signatures, words, strict=True)):
        suffix = f"_{number}" if len(words) > 1 else ""
        comment = f"{function.what} {said}".replace("*/", "")
        if function.ufunc is not None:
            yield comment, f"nbcache_loop {called}{suffix}", "nbcache_loop", signature.symbol
            continue
        if function.what != "cfunc":
            reason = f"{called} can only be called by Python: publish what @cfunc, @vectorize or @guvectorize returned"
            raise errors.PublicationError(manifest.name, reason)
        *taken, returned = [_c_type(each["json"]) for each in signature.types]
        arguments = ", ".join(taken) or "void"
        yield comment, f"{returned} (*{called}{suffix})({arguments})", f"{returned} (*)({arguments})", signature.symbol


def _c_type(name: str) -> str:
    if name in _TYPES:
        return _TYPES[name]
    return f"{_c_type(name.removesuffix('*'))} *" if name.endswith("*") else f"{name}_t"


def _bound(manifest: Manifest, symbol: str) -> str:
    """Return what a slot gets, as text of C: a name of the C library, or NULL for what ends the process."""
    if symbol.startswith(_OF_ERRORS):
        return "NULL"
    if hasattr(ctypes.CDLL(_LIBRARY), symbol):
        return f'"{symbol}"'
    why = _said(manifest, symbol)
    names = ", ".join(filter(None, _users(manifest, symbol)))
    advice = f"leave out {names}" if names else "publish it without that, by itself"
    raise errors.PublicationError(manifest.name, f"{names or 'it'} needs {why}, which a header can't bring: {advice}")


def _said(manifest: Manifest, symbol: str) -> str:
    """Return what a symbol stands for, in words."""
    native = manifest.natives.get(symbol)
    if native is not None:
        pointed = "a pointer to " if native.what == "pointer" else ""
        return f"{pointed}{native.symbol or 'a function'} of {native.library}"
    return "a global array" if symbol in manifest.arrays else f"{symbol} of Numba's runtime"


def _users(manifest: Manifest, symbol: str) -> list[str]:
    """Return the functions of a publication whose code needs a symbol from elsewhere."""
    return [
        attribute
        for attribute, function in manifest.functions.items()
        if any(symbol in manifest.codes[each.code].externals for each in function.signatures)
    ]
