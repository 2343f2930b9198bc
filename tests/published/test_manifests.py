"""Manifests: round trips, and every way of being wrong is one clear error."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbcache.errors import ManifestError
from nbcache.protocol import manifests
from nbcache.protocol.manifests import (
    Code,
    Environment,
    Extension,
    Function,
    Host,
    ImageFacts,
    Manifest,
    ObjectFile,
    Signature,
    decode,
    encode,
)
from nbcache.protocol.rare_parts import Array, Native, Ufunc

TYPES = (
    {"k": "array", "dtype": "<f8", "ndim": 2, "layout": "C", "mutable": True, "aligned": True},
    {"k": "namedtuple", "items": [{"k": "int8"}], "fields": ["x"], "class": "m:P"},
    {"k": "tuple", "items": [{"k": "optional", "of": {"k": "unicode_type"}}]},
    {"k": "omitted"},
    {"k": "record", "dtype": {"fields": [["a", "<i4", [], 0]], "size": 4, "aligned": False}},
    {"k": "record", "dtype": {"fields": [[["t", "a"], "<i4", [2], 0]], "size": 8, "aligned": True}},
    {"k": "datetime64", "unit": "ns"},
    {"k": "bytes"},
)
ANCHOR = "nbcache_image_" + "0" * 32
MANIFEST = Manifest(
    name="demo.f",
    created=1.5,
    numba="0.68.1",
    host=Host("cpython-311", "x86_64", ("avx2",), "glibc 2.36", "0" * 16, (0x2000000, 0x12)),
    extensions=(Extension("numba._helperlib", "0" * 64, 10),),
    codes=(
        Code(
            "a" * 64,
            "b" * 32,
            ("NRT_decref",),
            ("f",),
            (Environment(".NumbaEnv.f", "m", ({"dtype": "<f8"}, {"json": None})),),
        ),
    ),
    memo=ObjectFile("f" * 64, ("Py_IncRef",)),
    checks=ObjectFile("d" * 64, ("PyFloat_Type",)),
    image=ImageFacts("e" * 64, 4096, ANCHOR, ((8, "sin", 0),), (0, 16), {ANCHOR: 100}),
    tokens={"nbcache!x!": ("f", "/f.py", 3)},
    arrays={"nbcache!y!": Array("c" * 64, "data", 8)},
    natives={"nbcache!z!": Native("pointer", "libf.so.1", "/lib/libf.so.1", "ab", "f", 4096, "")},
    imports={"m:Error": (), "m:Point": ("x", "y")},
    functions={
        "f": Function(
            "njit",
            "f",
            "m",
            None,
            ("x", "y"),
            ({"json": 2}, None),
            False,
            (Signature(0, "s", TYPES, "int64", ()),),
            "check",
            None,
            "m:f",
            None,
        ),
        "u": Function(
            "ufunc",
            "u",
            "m",
            "doc",
            ("x",),
            (),
            False,
            (Signature(0, "t", (), "", ({"dtype": "<f8"},)),),
            None,
            Ufunc(1, 1, -1, None),
            None,
            None,
        ),
    },
    beside=((("ci", "x" * 44, 0), ("next", "y" * 44, 1)), ()),
)


def test_a_manifest_comes_back_as_it_was():
    assert decode(encode(MANIFEST)) == MANIFEST


def test_another_version_is_refused_by_its_number():
    document = json.loads(encode(MANIFEST)) | {"manifest": 99}
    with pytest.raises(ManifestError, match="it is of version 99, and this nbcache reads version"):
        decode(json.dumps(document).encode())


def paths(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        yield from paths(each, (*path, key))


PLAIN = json.loads(encode(MANIFEST))
# What a constant is, nobody but the function knows.
EVERYWHERE = [path for path in paths(PLAIN) if "json" not in path]


def changed(path, value):
    document = json.loads(encode(MANIFEST))
    if not path:
        return value
    parent = document
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    return document


@pytest.mark.parametrize("path", EVERYWHERE, ids=lambda path: ".".join(map(str, path)))
def test_a_value_of_the_wrong_kind_is_refused_wherever_it_stands(path):
    with pytest.raises(ManifestError):
        decode(json.dumps(changed(path, {"no": ["such", 1.5]})).encode())


@pytest.mark.parametrize("field", sorted(PLAIN))
def test_a_field_too_few_or_too_many_is_refused(field):
    fewer = {name: value for name, value in PLAIN.items() if name != field}
    for document in (fewer, PLAIN | {field + "s": 1}):
        with pytest.raises(ManifestError):
            decode(json.dumps(document).encode())


@given(st.binary() | st.integers(0, len(encode(MANIFEST)) - 1).map(lambda n: encode(MANIFEST)[:n]))
def test_what_is_no_manifest_is_refused(data):
    with pytest.raises(ManifestError):
        decode(data)


def test_a_signature_of_code_that_is_not_there_is_refused():
    with pytest.raises(ManifestError, match=r"functions\.f\.signatures\[0\]\.code must be one of the codes"):
        decode(json.dumps(changed(("codes",), [])).encode())


def test_the_version_is_raised_with_the_fields():
    # Whoever changes a field is reminded here to raise the version.
    assert manifests.VERSION == 9
