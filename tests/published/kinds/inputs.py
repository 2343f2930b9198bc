"""What each kind of function is called with: a list of arguments for every round, the same in every process."""

import itertools

import numpy as np
from plain import Point

ROUNDS = 50

RECORD = np.dtype([("a", "i4"), ("b", "f8")], align=True)

OVERLAPPING = np.dtype({"names": ["a", "b"], "formats": ["i4", "i2"], "offsets": [0, 1], "itemsize": 8})


def _numbers(rng):
    return int(rng.integers(-(2**30), 2**30)), int(rng.integers(-(2**30), 2**30))


def _array(rng, n=None):
    return rng.normal(size=n or int(rng.integers(2, 20)))


def _matrix(rng):
    return rng.normal(size=(4, 4)) + 4 * np.eye(4)


def _word(rng):
    return "".join(rng.choice(list("abcdeäβ漢🐍"), int(rng.integers(1, 9))))


def _records(rng):
    found = np.zeros(int(rng.integers(2, 9)), RECORD)
    found["a"], found["b"] = rng.integers(0, 99, found.size), rng.normal(size=found.size)
    return found


def _overlapping(rng):
    return np.frombuffer(rng.bytes(4 * OVERLAPPING.itemsize), OVERLAPPING).copy()


def _locked(array):
    array.flags.writeable = False
    return array


def _small(rng):
    kind = (np.int16, np.uint8, np.int32)[int(rng.integers(3))]
    return kind(rng.integers(0, 100)), kind(rng.integers(0, 100))


def _day(rng):
    return np.datetime64("2026-01-01", "s") + np.timedelta64(int(rng.integers(0, 10**8)), "s")


INPUTS = {
    "integers": _numbers,
    "floats": lambda rng: (float(rng.normal()), float(rng.normal())),
    "small_integers": _small,
    "wrapping": lambda rng: (np.uint64(rng.integers(0, 2**63)),),
    "booleans": lambda rng: (bool(rng.integers(2)), bool(rng.integers(2))),
    "complexes": lambda rng: (complex(*rng.normal(size=2)), complex(*rng.normal(size=2))),
    "nothing": lambda rng: (int(rng.integers(5)),),
    "special_functions": lambda rng: (float(rng.normal()),),
    "array_sum": lambda rng: (_array(rng),),
    "allocated": lambda rng: (_array(rng), float(rng.normal())),
    "same": lambda rng: (_array(rng),),
    "view": lambda rng: (_array(rng),),
    "in_place": lambda rng: (_array(rng), float(rng.normal())),
    "fortran": lambda rng: (np.asfortranarray(rng.normal(size=(3, int(rng.integers(2, 6))))),),
    "strided": lambda rng: (rng.normal(size=(8, 9))[::2, 1::3],),
    "three_dimensions": lambda rng: (rng.normal(size=(2, 3, int(rng.integers(1, 5)))),),
    "read_only": lambda rng: (_locked(_array(rng)),),
    "single_precision": lambda rng: (_array(rng).astype("f4"),),
    "masks": lambda rng: (_array(rng, 7), rng.integers(0, 2, 7).astype(bool)),
    "indices": lambda rng: (_array(rng),),
    "zero_dimensions": lambda rng: (np.array(rng.normal()),),
    "tuples": lambda rng: ((int(rng.integers(9)), float(rng.normal())), (1.5, int(rng.integers(9)), 2)),
    "nested_tuples": lambda rng: (((_array(rng), float(rng.normal())), int(rng.integers(9))),),
    "named": lambda rng: (Point(int(rng.integers(9)), float(rng.normal())), Point(1, 2.5)),
    "strided_global": lambda rng: (int(rng.integers(200)), int(rng.integers(260))),
    "octets": lambda rng: (rng.bytes(int(rng.integers(1, 40))), 0),
    "strings": lambda rng: (_word(rng), _word(rng)[:2]),
    "texts": lambda rng: (int(rng.integers(12)),),
    "hashes": lambda rng: (_word(rng), int(rng.integers(10**6))),
    "records": lambda rng: (_records(rng)[0],),
    "record_arrays": lambda rng: (_records(rng),),
    "laid_out_records": lambda rng: (_records(rng), _overlapping(rng)),
    "characters": lambda rng: (np.array([_word(rng), _word(rng)[:1], "x"], "U9"),),
    "optional_argument": lambda rng: (float(rng.normal()), None if rng.integers(2) else float(rng.normal())),
    "optional_result": lambda rng: (float(rng.normal()),),
    "defaults": lambda rng: (
        int(rng.integers(9)),
        *(int(rng.integers(9)), float(rng.normal()))[: int(rng.integers(3))],
    ),
    "stars": lambda rng: tuple(int(x) for x in rng.integers(9, size=int(rng.integers(2, 5)))),
    "raises": lambda rng: (float(rng.normal()),),
    "raises_with_values": lambda rng: (float(rng.normal()),),
    "raises_from_a_callee": lambda rng: (float(rng.normal()),),
    "asserts": lambda rng: (float(rng.normal()),),
    "divides": lambda rng: (int(rng.integers(99)), int(rng.integers(3))),
    "checked": lambda rng: (_array(rng, 5), int(rng.integers(9))),
    "sorting": lambda rng: (_array(rng),),
    "linear_algebra": lambda rng: (_matrix(rng), rng.normal(size=4)),
    "decompositions": lambda rng: (_matrix(rng),),
    "random_numbers": lambda rng: (int(rng.integers(10**6)),),
    "python_random": lambda rng: (int(rng.integers(10**6)),),
    "parallel": lambda rng: (_array(rng, 1000),),
    "generator": lambda rng: (int(rng.integers(9)),),
    "array_generator": lambda rng: (_array(rng, 3),),
    "factorial": lambda rng: (int(rng.integers(15)),),
    "even": lambda rng: (int(rng.integers(15)),),
    "odd": lambda rng: (int(rng.integers(15)),),
    "typed_list": lambda rng: (_array(rng),),
    "typed_dict": lambda rng: (_array(rng),),
    "string_keys": lambda rng: (_word(rng),),
    "list_result": lambda rng: (int(rng.integers(9)),),
    "sets": lambda rng: (_array(rng),),
    "set_result": lambda rng: (int(rng.integers(9)),),
    "heaps": lambda rng: (_array(rng),),
    "small_global": lambda rng: (int(rng.integers(9)),),
    "large_global": lambda rng: (int(rng.integers(999)),),
    "large_global_result": lambda rng: (int(rng.integers(999)),),
    "enumeration": lambda rng: (int(rng.integers(5)),),
    "dates": lambda rng: (_day(rng), np.timedelta64(int(rng.integers(-99, 99)), "s")),
    "date_arrays": lambda rng: (np.array([_day(rng) for _ in range(4)] + [np.datetime64("NaT", "s")]),),
    "closures": lambda rng: (int(rng.integers(99)),),
    "ufunc_inside": lambda rng: (_array(rng),),
    "stencil_inside": lambda rng: (_array(rng),),
    "overloads": lambda rng: (int(rng.integers(99)), float(rng.normal())),
    "options": lambda rng: (_array(rng), float(rng.integers(2))),
    "iterating": lambda rng: (_matrix(rng),),
    "statistics": lambda rng: (_array(rng),),
    "many_results": lambda rng: (int(rng.integers(1, 9)),),
    "hexadecimal": lambda rng: (rng.integers(0, 255, 9).astype("u1"),),
    "jitclass_inside": lambda rng: (int(rng.integers(9)),),
    "chosen_function": lambda rng: (bool(rng.integers(2)), int(rng.integers(9))),
    "nested_lists": lambda rng: (int(rng.integers(1, 5)),),
    "generator_that_raises": lambda rng: (int(rng.integers(9)),),
    "catches": lambda rng: (int(rng.integers(9)),),
    "cleans_up": lambda rng: (_array(rng),),
    "raises_with_arguments": lambda rng: (_word(rng), int(rng.integers(9))),
    "numpy_scalars": lambda rng: (float(rng.normal()),),
    "splitting": lambda rng: (_word(rng),),
    "reductions": lambda rng: (_array(rng, 1000),),
    "many_arguments": lambda rng: tuple(int(x) for x in rng.integers(9, size=8)),
    "no_arguments": lambda rng: (),
    "eager": lambda rng: (int(rng.integers(9)),) if rng.integers(2) else (float(rng.normal()),),
    "inlining": lambda rng: (int(rng.integers(9)),),
    "ufunc": lambda rng: (_array(rng, 5), float(rng.normal())) if rng.integers(2) else (int(rng.integers(9)), 2),
    "gufunc": lambda rng: (rng.normal(size=(3, 4)), rng.normal(size=4)),
    "gufunc_of_arrays": lambda rng: (rng.normal(size=(3, 4)), int(rng.integers(9))),
    "callback": lambda rng: (float(rng.normal()), int(rng.integers(9))),
}
NEEDS_SCIPY = frozenset({"linear_algebra", "decompositions"})


def rounds(name):
    """The arguments of each round of a kind."""
    rng = np.random.default_rng(abs(hash_of(name)))
    return [INPUTS[name](rng) for _ in range(ROUNDS)]


def hash_of(name):
    """A number for a name, the same in every process."""
    return int.from_bytes(name.encode()[:8].ljust(8, b"\0"), "little") ^ len(name)


def batched(names, size):
    """Lists of at most so many names."""
    names = iter(names)
    return iter(lambda: list(itertools.islice(names, size)), [])
