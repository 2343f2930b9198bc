"""Publish functions of real packages, and compare what a process without Numba computes with what Numba does.

    python tests/packages/published.py --python ~/v/bin/python [PACKAGE ...] [--inputs 50]

The environment of that Python has the packages (`PACKAGES` of run.py) and Numba; nbcache is this checkout. The script
of each package is run, which compiles what it needs. Each function of the package that was compiled is then published
with the signatures that it has, and called with made-up arguments, by Numba and in a process that can't import Numba:
results, exceptions and what is left in the arguments have to be the same bits. Left out is what crashes, takes longer
than some seconds, gives other results the second time or leaves its arrays, with Numba itself or as Python. Exit status 1 when anything differs.
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
PACKAGES = ["quantecon", "numbagg", "pynndescent", "librosa", "stumpy", "numba_stats", "resampy", "pymatting"]
SECONDS = 10
RAISED = "raised"
SIZE = 8
"""How long arrays are in each dimension; whole numbers are below it, since they may be indices."""


# -- both sides ------------------------------------------------------------------------------------


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
    return pickle.loads(data) if data else "left out: it crashes with made-up arguments, or takes long"


# -- with Numba ------------------------------------------------------------------------------------


def made_up(typ, rng):
    """A value of one of Numba's types. Raises TypeError for others."""
    import numpy as np
    from numba import types
    from numba.np import numpy_support

    if isinstance(typ, types.Array):
        dtype, shape = numpy_support.as_dtype(typ.dtype), (SIZE,) * typ.ndim
        values = np.array([made_up(typ.dtype, rng) for _ in range(SIZE**typ.ndim)], dtype).reshape(shape)
        return np.asfortranarray(values) if typ.layout == "F" else values
    if isinstance(typ, types.Boolean):
        return bool(rng.integers(2))
    if isinstance(typ, types.Integer):
        return numpy_support.as_dtype(typ).type(rng.integers(SIZE))
    if isinstance(typ, types.Float):
        return numpy_support.as_dtype(typ).type(rng.choice([rng.normal(), rng.random(), 1e3 * rng.normal()]))
    if isinstance(typ, types.Complex):
        return numpy_support.as_dtype(typ).type(complex(rng.normal(), rng.normal()))
    if isinstance(typ, types.BaseTuple):
        return tuple(made_up(each, rng) for each in typ.types)
    if isinstance(typ, types.NoneType):
        return None
    raise TypeError(typ)


def types_of(public):
    """The argument types of each compiled signature."""
    from numba.np.ufunc.dufunc import DUFunc
    from numba.np.ufunc.gufunc import GUFunc

    if isinstance(public, GUFunc):
        return [each.args[: len(public.gufunc_builder.sin)] for each in map(public.gufunc_builder._cres.__getitem__, public.gufunc_builder._sigs) for each in [each.signature]]  # fmt: skip
    if isinstance(public, DUFunc):
        return [tuple(key.args) for key in public._dispatcher.overloads]
    return list(public.overloads)


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


def reference(public, count):
    """Pickled arguments, and what comes of them, of a function; in a process of its own."""
    import numpy as np

    rng, found = np.random.default_rng(7), []
    for number in range(count):
        signatures = types_of(public)
        signature = signatures[number % len(signatures)]
        args = pickle.dumps((*(made_up(each, rng) for each in signature), *outputs(public, number % len(signatures))))
        # Of a generalised ufunc the kernel: it is called with all that a loop gives it.
        python = getattr(getattr(public, "gufunc_builder", public), "py_func", None)
        raises = python is not None and outcome(python, args)[0][:1] == (RAISED,)
        first = outcome(public, args)
        if raises and first[0][:1] != (RAISED,):
            raise ValueError(
                "Python raises an exception with these arguments and Numba doesn't: what it gives is anything"
            )
        if outcome(public, args) != first:
            raise ValueError("it gives another result the second time")
        found.append((args, first))
    return found


def publish(package, count, folder):
    """Run the script of a package, publish what it compiled, and write what Numba computes."""
    import gc
    import runpy

    import nbcache

    nbcache.enable(folder)
    from numba.core.dispatcher import Dispatcher
    from numba.np.ufunc.dufunc import DUFunc
    from numba.np.ufunc.gufunc import GUFunc

    sys.path.insert(0, str(HERE / "scripts"))
    runpy.run_path(str(HERE / "scripts" / f"run_{package}.py"), run_name="__main__")
    found, said = {}, []
    for public in [each for each in gc.get_objects() if isinstance(each, Dispatcher | DUFunc | GUFunc)]:
        python = getattr(public, "py_func", None) or getattr(public, "__wrapped__", None)
        python = python or getattr(getattr(public, "_dispatcher", None), "py_func", None)
        if not getattr(python, "__module__", "").startswith(package) or not types_of(public):
            continue
        name = f"{python.__module__}.{python.__qualname__}".replace("<locals>", "in").replace("<lambda>", "lambda")
        name = f"f{len(found) + len(said)}.{name}"[-100:].lstrip(".")
        try:
            nbcache.publish(name, public)
        except Exception as error:
            said.append((name, f"{type(error).__name__}: {error}"))
            continue
        answer = apart(lambda public=public: reference(public, count))
        if isinstance(answer, str):
            said.append((name, answer))
        else:
            found[name] = answer
    Path(folder, "found").write_bytes(pickle.dumps((found, said)))


# -- without Numba ---------------------------------------------------------------------------------


class Blocked:
    """Finds no Numba."""

    def find_spec(self, name, path=None, target=None):
        """Refuse it."""
        if name.partition(".")[0] in {"numba", "llvmlite"}:
            raise ImportError(name)


def compare(folder):
    """Call what was published; write which functions differ, or can't be loaded."""
    sys.meta_path.insert(0, Blocked())
    import nbcache

    nbcache.enable(folder)
    found, _ = pickle.loads(Path(folder, "found").read_bytes())
    wrong = {}
    for name, cases in found.items():
        try:
            function = nbcache.load(name)
        except Exception as error:
            wrong[name] = str(error)
            continue
        differ = apart(lambda: sum(outcome(function, args) != expected for args, expected in cases))
        if differ:
            wrong[name] = f"{differ} (of {len(cases)} inputs) differ"
    Path(folder, "wrong").write_bytes(pickle.dumps(wrong))


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="*", default=PACKAGES)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--inputs", type=int, default=50)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        side, folder = options.child
        publish(options.packages[0], options.inputs, folder) if side == "publish" else compare(folder)
        return 0
    counts, bad = Counter(), 0
    for package in options.packages:
        with tempfile.TemporaryDirectory(prefix="nbcache-published-") as folder:
            for side in ("publish", "compare"):
                argv = [options.python, __file__, package, "--inputs", str(options.inputs), "--child", side, folder]
                env = {**os.environ, "PYTHONPATH": str(ROOT)}
                subprocess.run(argv, env=env, stdout=subprocess.DEVNULL, check=True, cwd=folder)
            found, said = pickle.loads(Path(folder, "found").read_bytes())
            wrong = pickle.loads(Path(folder, "wrong").read_bytes())
        counts[package], bad = len(found) - len(wrong), bad + len(wrong)
        print(
            f"{package}: {counts[package]} functions the same bits, {len(wrong)} not, {len(said)} without", flush=True
        )
        for name, why in (*wrong.items(), *said):
            print(f"    {name}: {why}", flush=True)
    print(f"{counts.total()} functions of {len(+counts)} packages, {options.inputs} inputs each; {bad} differ")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
