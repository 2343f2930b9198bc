"""Ufuncs, generalised ufuncs, C callbacks and namespaces: each is what Numba's own is."""

import textwrap

import pytest
from nbtest.published import accumulator, node

pytestmark = pytest.mark.usefixtures("way")

MODULE = """
import numpy as np
from numba import cfunc, guvectorize, vectorize, njit

@vectorize(["f8(f8, f8)", "i8(i8, i8)", "f4(f4, f4)"], identity=0)
def add3(a, b):
    "Three times the second added."
    return a + 3 * b

@vectorize
def lazily(a, b):
    if b == 0:
        raise ValueError("nothing")
    return a / b

@vectorize(["f8(f8, f8)"], identity="reorderable")
def largest(a, b):
    return a if a > b else b

@guvectorize(["(f8[:], f8[:], f8[:])", "(i8[:], i8[:], i8[:])"], "(n),(n)->()")
def dot(a, b, out):
    out[0] = 0
    for i in range(a.size):
        out[0] += a[i] * b[i]

@guvectorize(["(f8[:], f8[:])"], "(n)->()")
def added(a, out):
    for i in range(a.size):
        out[0] += a[i]

@cfunc("f8(f8, i4)")
def scaled(x, n):
    return x * n

@cfunc("void(CPointer(f8), i8)")
def doubled(values, n):
    for i in range(n):
        values[i] *= 2
"""
USE = """
import numpy as np
x, y = np.arange(6.0).reshape(2, 3), np.arange(3.0)
print(type(f.add3) is np.ufunc, f.add3.types, f.add3.identity, f.add3.nin, f.add3.nout, f.add3.__name__)
print(f.add3(x, y), f.add3(1, 2), f.add3(np.float32(1), np.float32(2)).dtype, f.add3(np.int8(1), 2).dtype)
print(f.add3.reduce(x), f.add3.reduce(x, axis=1), f.add3.accumulate(y), f.add3.outer(y, y))
out = np.zeros((2, 3)); f.add3(x, y, out=out); print(out)
print("Three times" in f.add3.__doc__)
print(f.lazily(x, y + 1), f.lazily.identity, f.lazily.types)
try:
    f.lazily(x, y)
except ValueError as exc:
    print(exc)
try:
    f.lazily.reduce(np.ones((2, 2)), axis=(0, 1))
except ValueError as exc:
    print("not reorderable" in str(exc))
print(f.largest.reduce(x, axis=(0, 1)), f.largest.identity)
print(f.dot(x, y), f.dot(x.astype("i8"), y.astype("i8")), f.dot.signature, f.dot(x, y, axis=-1))
for kind in ("f8", "f4", ">f8"):
    given = np.full(2, 10, kind); f.added(x, out=given); print(given)
given = np.zeros(17, "u1")[1:].view("f8"); given[:] = 10; f.added(x, out=given); print(given)
print(f.scaled.ctypes(1.5, 2), isinstance(f.scaled.address, int))
buffer = (ctypes.c_double * 3)(1, 2, 3); f.doubled.ctypes(buffer, 3); print(list(buffer))
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "faces.py").write_text(textwrap.dedent(MODULE))
    return tmp_path


@pytest.mark.long
@pytest.mark.every(2)
def test_ufuncs_gufuncs_and_callbacks_in_a_namespace_are_what_numbas_are(folder):
    store = folder / "store"
    made = accumulator(
        store,
        """
        import ctypes, types
        import faces
        faces.lazily(1.0, 2.0)
        names = ["add3", "lazily", "largest", "dot", "added", "scaled", "doubled"]
        nbcache.publish("faces", {name: getattr(faces, name) for name in names})
        f = types.SimpleNamespace(**{name: getattr(faces, name) for name in names})
        for name in names[:5]:
            setattr(f, name, getattr(f, name).ufunc)
        """
        + USE.replace("\n", "\n        "),
        folder,
    )
    loaded = node(store, 'import ctypes\nf = nbcache.load("faces")\n' + USE, folder)
    assert loaded.stdout == made.stdout.replace("DUFunc", "ufunc")


@pytest.mark.every(2)
def test_a_hit_is_published_like_what_was_compiled(folder):
    store = folder / "store"
    publish = 'import faces; nbcache.publish("faces", {"add3": faces.add3, "dot": faces.dot, "scaled": faces.scaled})'
    accumulator(store, publish, folder)
    again = accumulator(store, publish + "\nprint(nbcache.stats()['misses'])", folder)
    assert again.stdout == "{}\n"
    assert (
        node(store, 'f = nbcache.load("faces"); print(f.add3(1.0, 2.0), f.dot([1.0], [2.0]))', folder).stdout
        == "7.0 2.0\n"
    )


@pytest.mark.long
def test_chosen_loops_alone_are_published(folder):
    store = folder / "store"
    accumulator(store, 'import faces; nbcache.publish("add3", faces.add3, ["f8(f8, f8)"])', folder)
    assert node(store, 'print(nbcache.load("add3").types)', folder).stdout == "['dd->d']\n"


CALLED = """
import ctypes
import numpy as np
f = nbcache.load("faces")
print(f.scaled(1.5, 2), f.scaled(2, 3), f.scaled(np.float32(0.5), np.int8(3)))
print(f.scaled(True, np.bool_(True)), f.scaled(1.5, 2.9), f.scaled(1.0, 2**32 + 3))
buffer = (ctypes.c_double * 3)(1, 2, 3)
print(f.doubled(buffer, 3), list(buffer))
values = np.arange(3.0)
f.doubled(values.ctypes.data_as(ctypes.POINTER(ctypes.c_double)), 3)
print(values)
for args in [(1.5,), (1.5, 2, 3), ("text", 2), (1j, 2), (None, 2), (np.ones(3), 2)]:
    try:
        print(f.scaled(*args))
    except TypeError as error:
        print(error)
for args in [(values, 3), ((ctypes.c_float * 3)(), 3)]:
    try:
        print(f.doubled(*args))
    except TypeError as error:
        print(error)
try:
    f.scaled(1.0, 2**70)
except OverflowError as error:
    print(error)
"""
CALLED_SAID = """\
3.0 6.0 1.5
1.0 3.0 3.0
None [2.0, 4.0, 6.0]
[0. 2. 4.]
scaled was not published for (float64): it takes (float64, int32)
scaled was not published for (float64, int64, int64): it takes (float64, int32)
scaled was not published for (str, int64): it takes (float64, int32)
scaled was not published for (complex128, int64): it takes (float64, int32)
scaled was not published for (None, int64): it takes (float64, int32)
scaled was not published for (array(float64, 1d, C), int64): it takes (float64, int32)
doubled was not published for (array(float64, 1d, C), int64): it takes (float64*, int64)
doubled was not published for (c_float_Array_3, int64): it takes (float64*, int64)
int too big to convert
"""


@pytest.mark.long
def test_a_callback_that_is_called_checks_what_it_is_called_with(folder):
    store = folder / "store"
    accumulator(
        store, 'import faces; nbcache.publish("faces", {"scaled": faces.scaled, "doubled": faces.doubled})', folder
    )
    assert node(store, CALLED, folder).stdout == CALLED_SAID
