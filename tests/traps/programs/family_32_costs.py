"""Family 32: what costs must not grow by: bytes copied, bytes hashed, a fork that waits.

Bounds are far from what plain Numba needs, and far below what each of these once cost.
"""

from ..harness import Program, main, trap

_MEMORY = """
    import resource

    def peak():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

    def processor():
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime + usage.ru_stime

    show("small", njit(lambda x: x + 1), 7)
    """
_HASHED = """
    import hashlib

    class Counting:
        total = 0
        plain = hashlib.blake2b

        def __init__(self, data=b"", **options):
            self.hasher = Counting.plain(**options)
            self.update(data)

        def update(self, data):
            Counting.total += memoryview(data).nbytes
            self.hasher.update(data)

        def __getattr__(self, name):
            return getattr(self.hasher, name)

    hashlib.blake2b = Counting
    """


def _twice(name: str, body: str, **options) -> Program:
    """Return a program that prints whether it kept a bound, run on an empty cache and on what that left."""
    return trap(f"cost-{name}", 32, {"main.py": main(body)}, {}, differs=False, **({"rerun": "same"} | options))


PROGRAMS = (
    _twice(
        "memory-of-a-large-array",
        _MEMORY
        + """
    A = np.ones(12_000_000)  # 96 MB
    before = peak()

    @njit
    def f(i):
        return A[i]

    show("f", f, 3)
    show("grew", lambda: peak() - before > 80)
    """,
    ),
    _twice(
        "memory-of-a-large-array-without-order",
        _MEMORY
        + """
    A = np.ones((4_000_000, 4))[:, :3]  # 96 MB
    before = peak()

    @njit
    def f(i):
        return A[i, 0]

    show("f", f, 3)
    show("grew", lambda: peak() - before > 80)
    """,
    ),
    _twice(
        "large-array-read-by-many",
        _HASHED
        + """
    A = np.ones(2_000_000)  # 16 MB

    def make(k):
        @njit
        def f(i):
            return A[i + k]
        return f

    for k in range(5):
        show("f", make(k), k)
    show("hashed again and again", lambda: Counting.total > 4 * A.nbytes)
    """,
    ),
    _twice(
        "fork-beside-a-compiling-thread",
        """
    import os, threading, time
    from numba.extending import overload

    begun = threading.Event()

    def thing(x):
        raise NotImplementedError

    @overload(thing)
    def choose(x):
        if not begun.is_set():
            begun.set()
            time.sleep(8)
        return lambda x: x + 1

    @njit
    def f(x):
        return thing(x)

    thread = threading.Thread(target=show, args=("f", f, 7))
    thread.start()
    begun.wait(20)
    start = time.monotonic()
    child = os.fork()
    if not child:
        os._exit(0)
    waited = time.monotonic() - start
    os.waitpid(child, 0)
    thread.join()
    show("waited", lambda: waited > 4)
    """,
    ),
)
