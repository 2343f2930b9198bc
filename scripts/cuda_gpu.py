"""What `scripts/cuda-gpu` runs: each program in processes of its own, without a cache and with each of two.

    python scripts/cuda_gpu.py [--repeat 1] [PROGRAM...]

A program prints its results; they have to be the same in every process. The time is that from before the first kernel
is decorated to after the last launch has ended [s], within the process, so that neither Python's start nor the import
of Numba counts; a cell has the median, and behind it that of the processor's time. In the processes with a full cache
numba-cuda's front end, NVVM, NVRTC and nvJitLink are impossible, but for programs in `COMPILES`.
"""

import argparse
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

HEAD = """
import hashlib, math, sys, time
import numpy as np
from numba import cuda, float32, njit, vectorize
cuda.current_context()
CACHE = {"cache": True} if "--own-cache" in sys.argv else {}
a = np.linspace(0.1, 1, 4096, dtype=np.float32)
def show(*arrays):
    for each in arrays:
        print(hashlib.blake2b(np.ascontiguousarray(each).tobytes(), digest_size=8).hexdigest())
if "--no-compiler" in sys.argv:
    from numba.cuda import compiler
    from numba.cuda.cudadrv import driver, nvrtc, nvvm
    def impossible(*_args, **_options):
        raise SystemError("something was compiled")
    compiler.compile_extra = compiler.compile_internal = impossible
    nvvm.compile_ir = nvrtc.compile = driver._Linker.complete = impossible
started, began = time.perf_counter(), time.process_time()
"""
TAIL = """
cuda.synchronize()
print("seconds", time.perf_counter() - started, time.process_time() - began, file=sys.stderr)
"""
COMPILES = {
    "callback": "code of others that is called when a module is loaded isn't stored",
    "runtime": "the module of numba-cuda's runtime is compiled by each process that needs it",
}
_EIGHT = "\n".join(
    f"@cuda.jit(**CACHE)\ndef k{n}(x):\n    i = cuda.grid(1)\n    if i < x.size:\n"
    f"        x[i] = math.sin(x[i]) * {n} + scaled(x[i])\nk{n}[32, 128](a)"
    for n in range(8)
)
PROGRAMS = {
    "one kernel": """
        @cuda.jit(**CACHE)
        def k(x):
            i = cuda.grid(1)
            x[i] = math.sqrt(x[i])
        k[32, 128](a)
        show(a)
        """,
    "eight kernels": "@cuda.jit(device=True)\ndef scaled(v):\n    return v * 3\n" + _EIGHT + "\nshow(a)",
    "fastmath": """
        @cuda.jit(fastmath=True, **CACHE)
        def k(x):
            i = cuda.grid(1)
            x[i] = math.sin(x[i]) / x[i]
        k[32, 128](a)
        show(a)
        """,
    "cooperative": """
        @cuda.jit(**CACHE)
        def k(x):
            i = cuda.grid(1)
            x[i] += 1
            cuda.cg.this_grid().sync()
            if i == 0:
                x[0] = x[4095] * 2
        k[32, 128](a)
        show(a)
        """,
    "shared memory": """
        @cuda.jit(**CACHE)
        def k(x):
            s = cuda.shared.array(128, float32)
            t = cuda.threadIdx.x
            s[t] = x[cuda.grid(1)]
            cuda.syncthreads()
            x[cuda.grid(1)] = s[127 - t]
        k[32, 128](a)
        show(a)
        """,
    "reduce": "print(cuda.reduce(lambda x, y: max(x, y))(a))",
    "vectorize": """
        @vectorize(["float32(float32, float32)"], target="cuda")
        def f(x, y):
            return x + 2 * y
        show(f(a, a))
        """,
    "njit callee": """
        @njit
        def both(v):
            return v * v
        @cuda.jit(**CACHE)
        def k(x):
            x[cuda.grid(1)] = both(x[cuda.grid(1)])
        k[32, 128](a)
        show(a)
        print(both(3.0))
        """,
    "linked source": """
        source = cuda.CUSource('extern "C" __device__ int f(int *out, int v) { *out = 3 * v; return 0; }', "f.cu")
        f = cuda.declare_device("f", "int32(int32)", link=source)
        @cuda.jit
        def k(x):
            x[cuda.grid(1)] = f(x[cuda.grid(1)])
        b = np.arange(128, dtype=np.int32)
        k[1, 128](b)
        show(b)
        """,
    "exception": """
        @cuda.jit(debug=True, opt=False, **CACHE)
        def k(x):
            if cuda.grid(1) == 5:
                raise ValueError("five")
        try:
            k[1, 32](a)
        except ValueError as raised:
            print(raised)
        """,
    "callback": """
        called = []
        code = cuda.CUSource('extern "C" __device__ int f(int *out, int v) { *out = v; return 0; }', "f.cu",
                             setup_callback=lambda module: called.append(1))
        f = cuda.declare_device("f", "int32(int32)", link=code)
        @cuda.jit
        def k(x):
            x[0] = f(3)
        b = np.zeros(1, np.int32)
        k[1, 1](b)
        print(b, called)
        """,
    "streams": """
        @cuda.jit(**CACHE)
        def k(x):
            x[cuda.grid(1)] *= 2
        streams = [cuda.stream() for _ in range(4)]
        arrays = [cuda.to_device(a + n, stream=s) for n, s in enumerate(streams)]
        for array, stream in zip(arrays, streams):
            k[32, 128, stream](array)
        cuda.synchronize()
        show(*(array.copy_to_host() for array in arrays))
        """,
    "runtime": """
        from numba import config
        config.CUDA_ENABLE_NRT = True
        @cuda.jit
        def k(x):
            y = np.empty(4, np.float32)
            y[0] = x[1]
            x[0] = y[0]
        k[1, 1](a)
        show(a)
        """,
}


class Answer(NamedTuple):
    """What a process printed, how long its kernels took [s], with the processor's time, and how it ended."""

    stdout: str
    seconds: float
    processor: float
    problem: str


def run(path: Path, store: Path | None = None, *arguments: str) -> Answer:
    """Run one program in a process."""
    settings = dict(os.environ)
    if store is not None:
        settings["NBCACHE_DIR"] = str(store)
    process = subprocess.run(
        [sys.executable, str(path), *arguments], env=settings, capture_output=True, text=True, check=False, timeout=600
    )
    lines = process.stderr.splitlines()
    told = next((line.split()[1:] for line in lines if line.startswith("seconds ")), ["nan", "nan"])
    problem = "" if process.returncode == 0 else lines[-1] if lines else "it died"
    return Answer(process.stdout, *map(float, told), problem)


def row(name: str, place: Path, repeat: int) -> bool:
    """Run one program in all its ways and print its row; whether all went well."""
    path = place / f"program_{name.replace(' ', '_')}.py"
    path.write_text(HEAD + textwrap.dedent(PROGRAMS[name]).strip("\n") + TAIL)
    warm = () if name in COMPILES else ("--no-compiler",)
    run(path, None, "--own-cache")
    answers: dict[str, list[Answer]] = {"plain": [], "own cache": [], "cold": [], "warm": []}
    for turn in range(repeat):
        store = place / "store" / f"{path.stem}_{turn}"
        store.mkdir(parents=True, mode=0o755)
        answers["plain"].append(run(path))
        answers["own cache"].append(run(path, None, "--own-cache"))
        answers["cold"].append(run(path, store))
        answers["warm"].append(run(path, store, *warm))
    with ThreadPoolExecutor(4) as pool:  # several processes at once, on one GPU and one store
        answers["four at once"] = [*pool.map(lambda _each: run(path, store, *warm), range(4))]
    expected = answers["plain"][0].stdout
    problems = [f"{kind}: {each.problem}" for kind, those in answers.items() for each in those if each.problem]
    problems += [
        f"{kind}: other results" for kind, those in answers.items() for each in those if each.stdout != expected
    ]
    times = " | ".join(_cell(answers[kind]) for kind in ("plain", "own cache", "cold", "warm"))
    note = f"the same; {COMPILES[name]}" if name in COMPILES else "the same"
    print(f"| {name} | {times} | {'; '.join(problems) or note} |", flush=True)
    return not problems


def _cell(answers: list[Answer]) -> str:
    seconds = statistics.median(each.seconds for each in answers)
    return f"{seconds:.3f} ({statistics.median(each.processor for each in answers):.3f})"


def main() -> int:
    """Print the table; the status is 1 if anything differs, and 2 without a GPU."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeat", type=int, default=1, help="processes of each kind")
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", choices=[*PROGRAMS, []], default=[])
    options = parser.parse_args()
    if importlib.util.find_spec("numba_cuda") is None:
        print("numba-cuda isn't installed: pip install 'numba-cuda[cu13]' into .venv", file=sys.stderr)
        return 2
    from numba import cuda

    if not cuda.is_available():
        print("no GPU that can be used here: `nbcache doctor` says what is missing", file=sys.stderr)
        return 2
    device = cuda.get_current_device()
    name = device.name.decode() if isinstance(device.name, bytes) else device.name
    print(f"{name}, compute capability {'.'.join(map(str, device.compute_capability))}\n")
    print("| program | plain [s] | own cache, warm [s] | nbcache, cold [s] | nbcache, warm [s] | results |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        good = [row(name, Path(place), options.repeat) for name in options.programs or PROGRAMS]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
