"""Publish functions of real packages, and compare what a process without Numba computes with what Numba does.

    python tests/packages/published.py --python ~/v/bin/python [PACKAGE ...] [--inputs 50]

The environment of that Python has the packages (`PACKAGES` of run.py) and Numba; nbcache is this checkout. The script
of each package is run, which compiles what it needs; its functions whose parameters `PARAMETERS` has types for are
compiled for these. In three processes, for each function of the package that was compiled:

* arguments are made up and called with, while Numba checks bounds: kept are those for which the call returns, and
  returns the same the second time, when memory that nobody has written holds something else. A function that doesn't
  do so often enough is left out.
* It is published with the signatures that it has, and called with these arguments.
* A process that can't import Numba loads it and calls it: the result, and what is left in the arguments, have to be the
  same bits.

Exit status 1 when anything differs.
"""

from __future__ import annotations

import argparse
import os
import pickle
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PACKAGES = ["pynndescent", "umap", "numba_stats", "quantecon", "stumpy", "pymatting", "librosa", "numbagg"]
SECONDS = 30
"""How long all calls of one function may take."""
TRIES = 20
"""How many arguments are made up for each that is kept, at most."""
RAISED = "raised"
SIZE = 8
"""How long arrays are in each dimension; whole numbers are below it, since they may be indices."""
VECTORS = {"x": "float32[::1]", "y": "float32[::1]", "p": "float64", "vec": "float32[::1]", "arr": "int32[::1]"}
SPARSE = dict.fromkeys(("ind1", "ind2", "ar1", "ar2"), "int32[::1]") | {
    "data1": "float32[::1]",
    "data2": "float32[::1]",
    "n_features": "int64",
}
SERIES = dict.fromkeys(("a", "Q", "T", "QT", "μ_Q", "σ_Q", "M_T", "Σ_T"), "float64[::1]") | {  # noqa: RUF001  theirs
    "m": "int64",
    "w": "int64",
    "p": "float64",
    "Q_subseq_isconstant": "boolean[::1]",
    "T_subseq_isconstant": "boolean[::1]",
    "a_subseq_isfinite": "boolean[::1]",
}
PARAMETERS = {"pynndescent": VECTORS | SPARSE, "umap": VECTORS | SPARSE, "stumpy": SERIES}
"""Types by which functions of a package are compiled that its script doesn't call, by the names of parameters."""
M_PERTURB = -6  # malloc.h
CHOOSING = {"NUMBA_BOUNDSCHECK": "1", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
"""The environment in which arguments are chosen: bounds are checked, and all memory is filled."""
ENVIRONMENT = {
    # What is forked computes in parallel as well.
    "NUMBA_THREADING_LAYER": "workqueue",
    "NUMBA_NUM_THREADS": "2",
}


# -- everywhere ------------------------------------------------------------------------------------


def exact(value):
    """What a value is, to the last bit."""
    import numpy as np

    if isinstance(value, np.ndarray | np.generic):
        return (str(value.dtype), np.shape(value), value.tobytes())
    if isinstance(value, tuple | list):
        return [exact(each) for each in value]
    if isinstance(value, float):
        return np.float64(value).tobytes()
    return repr(value)


def outcome(function, data):
    """What a call with pickled arguments comes to, and leaves in them."""
    args = pickle.loads(data)
    try:
        result = exact(function(*args))
    except Exception as error:
        result = (RAISED, type(error).__name__, str(error))
    return result, exact(args)


def apart(call):
    """What a call returns in a process of its own, or in words why it returns nothing."""
    import signal

    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reading)
        signal.alarm(SECONDS)
        try:
            answer = call()
        except BaseException as error:
            answer = f"left out: {type(error).__name__}: {error!s:.80}"
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(answer, pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    os.waitpid(pid, 0)
    try:
        return pickle.loads(data)
    except (EOFError, pickle.UnpicklingError):  # nothing, or not all of it
        return "left out: it crashes with made-up arguments, or takes long"


def read(folder, name):
    """What an earlier process wrote."""
    return pickle.loads(Path(folder, name).read_bytes())


def write(folder, name, value):
    """Leave something to a later process."""
    Path(folder, name).write_bytes(pickle.dumps(value))


# -- with Numba ------------------------------------------------------------------------------------


def numbers(typ, rng, shape):
    """An array of numbers, or of truth values. Raises TypeError for other types."""
    import numpy as np
    from numba import types
    from numba.np import numpy_support

    if isinstance(typ, types.Boolean):
        values = rng.integers(2, size=shape)
    elif isinstance(typ, types.Integer):
        values = rng.integers(SIZE, size=shape)
    elif isinstance(typ, types.Float | types.Complex):
        values = np.choose(rng.integers(3, size=shape), [rng.normal(size=shape), rng.random(shape), 1e3 * rng.normal()])
        values = values + 1j * rng.normal(size=shape) if isinstance(typ, types.Complex) else values
    else:
        raise TypeError(typ)
    return np.asarray(values, numpy_support.as_dtype(typ))


def made_up(typ, rng):
    """A value of one of Numba's types. Raises TypeError for others."""
    import numpy as np
    from numba import types

    if isinstance(typ, types.Array):
        values = numbers(typ.dtype, rng, (SIZE,) * typ.ndim)
        return np.asfortranarray(values) if typ.layout == "F" else values
    if isinstance(typ, types.Boolean):
        return bool(rng.integers(2))
    if isinstance(typ, types.Number):
        return numbers(typ, rng, ())[()]
    if isinstance(typ, types.BaseNamedTuple):
        return typ.instance_class(*(made_up(each, rng) for each in typ.types))
    if isinstance(typ, types.BaseTuple):
        return tuple(made_up(each, rng) for each in typ.types)
    if isinstance(typ, types.Optional):
        return made_up(typ.type, rng) if rng.integers(2) else None
    if isinstance(typ, types.NoneType):
        return None
    if isinstance(typ, types.UnicodeType):
        return "text"[: rng.integers(5)]
    raise TypeError(typ)


def functions_of(package):
    """Run the script of a package; return what is compiled of it afterwards, by name."""
    import gc
    import runpy

    from numba.core.dispatcher import Dispatcher
    from numba.np.ufunc.dufunc import DUFunc
    from numba.np.ufunc.gufunc import GUFunc

    sys.path.insert(0, str(HERE / "scripts"))
    runpy.run_path(str(HERE / "scripts" / f"run_{package}.py"), run_name="__main__")
    found, kinds = {}, (Dispatcher, DUFunc, GUFunc)
    # By the type itself: proxies of dispatchers are instances as well.
    for public in [each for each in gc.get_objects() if issubclass(type(each), kinds)]:
        python = getattr(public, "py_func", None) or getattr(public, "__wrapped__", None)
        python = python or getattr(getattr(public, "_dispatcher", None), "py_func", None)
        if python is None or python.__module__.partition(".")[0] != package:
            continue
        if isinstance(public, Dispatcher) and not public.overloads:
            compile_for(public, PARAMETERS.get(package, {}))
        if types_of(public):
            name = f"{python.__module__}.{python.__qualname__}".replace("<locals>", "in").replace("<lambda>", "lambda")
            # Closures of one name by what they were compiled for: each process has them in an order of its own.
            found.setdefault((name, str(types_of(public))), []).append(public)
    names, counts = {}, Counter()
    for (name, _), publics in sorted(found.items()):
        for public in publics:
            counts[name] += 1
            names[name if counts[name] == 1 else f"{name} {counts[name]}"] = public
    return names


def compile_for(dispatcher, types):
    """Compile a function if there are types for all its parameters, and it can do with them."""
    import contextlib
    import inspect

    from numba.core.errors import NumbaError

    names = list(inspect.signature(dispatcher.py_func).parameters)
    if names and all(name in types for name in names):
        with contextlib.suppress(NumbaError):
            dispatcher.compile(f"({', '.join(types[name] for name in names)},)")


def types_of(public):
    """The argument types of each compiled signature."""
    from numba import types
    from numba.np.ufunc.dufunc import DUFunc
    from numba.np.ufunc.gufunc import GUFunc

    if isinstance(public, GUFunc):
        return [each.args[: len(public.gufunc_builder.sin)] for each in map(public.gufunc_builder._cres.__getitem__, public.gufunc_builder._sigs) for each in [each.signature]]  # fmt: skip
    if isinstance(public, DUFunc):
        return [tuple(key.args) for key in public._dispatcher.overloads]
    # Those with literals are for calls in compiled code, and not published beside others.
    plain = [args for args in public.overloads if tuple(map(types.unliteral, args)) == args]
    return plain or list(public.overloads)


def outputs(public, number):
    """Arrays for the results of a generalised ufunc: its kernel may read what is there before."""
    import numpy as np
    from numba.np import numpy_support
    from numba.np.ufunc.gufunc import GUFunc

    if not isinstance(public, GUFunc):
        return ()
    builder = public.gufunc_builder
    types = builder._cres[builder._sigs[number]].signature.args[len(builder.sin) :]
    pairs = zip(types, builder.sout, strict=True)
    return [np.zeros((SIZE,) * len(shape), numpy_support.as_dtype(each.dtype)) for each, shape in pairs]


def arguments(public, number, rng):
    """Arguments for one of the signatures, pickled; those at the end that are left out are left out."""
    from numba import types

    signature = types_of(public)[number]
    while signature and isinstance(signature[-1], types.Omitted):
        signature = signature[:-1]
    return pickle.dumps((*(made_up(each, rng) for each in signature), *outputs(public, number)))


def fill_memory(byte):
    """Have memory that is allocated from now on filled with something that this byte stands for."""
    import ctypes

    ctypes.CDLL(None).mallopt(M_PERTURB, byte)


def choose(public, count):
    """Make up arguments for as many calls that return, and return the same the second time."""
    import numpy as np

    rng, found, why = np.random.default_rng(7), [], None
    for number in range(count * TRIES):
        args = arguments(public, number % len(types_of(public)), rng)
        fill_memory(1)
        first = outcome(public, args)
        fill_memory(2)
        if first[0][:1] == (RAISED,):
            why = f"with made-up arguments it raises {first[0][1]}: {first[0][2]:.80}"
        elif outcome(public, args) != first:
            why = "it returns another result the second time, or memory that it has not written"
        else:
            found.append(args)
        if len(found) == count:
            return found
        if number == 2 * count and not found:
            break
    raise ValueError(why)


def chosen(package, count, folder):
    """Write arguments for each function of a package, or why there are none."""
    import nbcache

    nbcache.enable(Path(folder, "store"))
    found = {}
    for name, public in functions_of(package).items():
        found[name] = apart(lambda public=public: choose(public, count))
    write(folder, "chosen", found)


def publish(package, _count, folder):
    """Publish each function; write what Numba computes with its arguments, or why it can't be published."""
    import nbcache

    nbcache.enable(Path(folder, "store"))
    inputs, found, said = read(folder, "chosen"), {}, {}
    for number, (name, public) in enumerate(functions_of(package).items()):
        try:
            nbcache.publish(f"f{number}", public)
        except Exception as error:
            said[name] = f"{type(error).__name__}: {error}"
            continue
        args = inputs.get(name, "left out: with bounds checked it is not compiled")
        answers = args if isinstance(args, str) else apart(lambda: [outcome(public, each) for each in args])
        if isinstance(answers, str):
            said[name] = answers
        else:
            found[name] = (f"f{number}", list(zip(args, answers, strict=True)))
    write(folder, "published", (found, said))


# -- without Numba ---------------------------------------------------------------------------------


class Blocked:
    """Finds no Numba."""

    def find_spec(self, name, path=None, target=None):
        """Refuse it."""
        if name.partition(".")[0] in {"numba", "llvmlite"}:
            raise ImportError(name)


def compare(_package, _count, folder):
    """Call what was published; write which functions differ, or can't be loaded."""
    sys.meta_path.insert(0, Blocked())
    import nbcache

    nbcache.enable(Path(folder, "store"))
    found, _ = read(folder, "published")
    wrong = {}
    for name, (published, cases) in found.items():
        try:
            function = nbcache.load(published)
        except Exception as error:
            wrong[name] = str(error)
            continue
        differ = apart(lambda: sum(outcome(function, args) != expected for args, expected in cases))
        if differ:
            wrong[name] = f"{differ} (of {len(cases)} inputs) differ"
    write(folder, "wrong", wrong)


SIDES = {"choose": chosen, "publish": publish, "compare": compare}


def measured(options, package, folder):
    """Run the three processes of a package; return what is the same, what isn't, and what was refused or left out."""
    for side in SIDES:
        argv = [options.python, __file__, package, "--inputs", str(options.inputs), "--child", side, folder]
        env = {**os.environ, **ENVIRONMENT, **(CHOOSING if side == "choose" else {}), "PYTHONPATH": str(ROOT)}
        subprocess.run(argv, env=env, stdout=subprocess.DEVNULL, check=True, cwd=folder)
    found, said = read(folder, "published")
    wrong = read(folder, "wrong")
    return found.keys() - wrong.keys(), wrong, said


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="*", default=PACKAGES)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--inputs", type=int, default=50)
    parser.add_argument(
        "--keep", type=Path, help="a folder for a store of each package, which a second run finds filled"
    )
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        side, folder = options.child
        SIDES[side](options.packages[0], options.inputs, folder)
        return 0
    counts, bad = Counter(), 0
    for package in options.packages:
        with tempfile.TemporaryDirectory(prefix="nbcache-published-") as folder:
            if options.keep:
                kept = options.keep.resolve() / package
                kept.mkdir(parents=True, exist_ok=True)
                Path(folder, "store").symlink_to(kept)
            same, wrong, said = measured(options, package, folder)
        counts[package], bad = len(same), bad + len(wrong)
        refused = sum("left out" not in why for why in said.values())
        print(
            f"{package}: {len(same)} functions the same bits, {len(wrong)} not, {refused} refused, "
            f"{len(said) - refused} left out",
            flush=True,
        )
        for name, why in (*wrong.items(), *said.items()):
            print(f"    {name}: {why}", flush=True)
    print(f"{counts.total()} functions of {len(+counts)} packages, {options.inputs} inputs each; {bad} differ")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
