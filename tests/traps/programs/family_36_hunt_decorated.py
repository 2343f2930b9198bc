"""Family 36, a third hunt: what an intrinsic reads while it is compiled off what Numba's decorators made, off a class, or
from a function of Numba or of Python's library that tells what somebody set.
"""

from traps.harness import Program, Step, main, py, trap

_MAIN = """
    import logging
    import os
    from numba import cfunc, guvectorize, stencil, types, vectorize
    from numba.experimental import jitclass
    from numba.extending import intrinsic

    LEVEL = int(os.environ["APP_LEVEL"])

    <made>

    def read():
        return <read>

    @intrinsic
    def get(context):
        def codegen(context, builder, signature, args):
            return context.get_constant(types.int64, read())
        return types.int64(), codegen

    @njit
    def f():
        return get()

    show("f", f)
    """


def _read(name: str, made: str, read: str = "thing.weight", **environment: str) -> Program:
    text = main(_MAIN).replace("<made>", py(made)).replace("<read>", read)
    one, two = (
        {"APP_LEVEL": level, **{key: value.format(level) for key, value in environment.items()}} for level in "12"
    )
    return trap(f"hunt-read-{name}", 36, Step(files={"main.py": text}, env=one), Step(env=two))


_WEIGHT = "\nthing.weight = LEVEL\n"

PROGRAMS = (
    _read("off-a-ufunc", "@vectorize(['int64(int64)'])\ndef thing(x):\n    return x\n" + _WEIGHT),
    _read("off-a-gufunc", "@guvectorize('(n)->(n)')\ndef thing(x, y):\n    y[0] = x[0]\n" + _WEIGHT),
    _read("off-a-callback", "@cfunc('int64(int64)')\ndef thing(x):\n    return x\n" + _WEIGHT),
    _read("off-a-stencil", "@stencil\ndef thing(a):\n    return a[0]\n" + _WEIGHT),
    _read("off-an-intrinsic", "@intrinsic\ndef thing(context):\n    return types.int64(), None\n" + _WEIGHT),
    _read(
        "off-a-jitclass",
        "@jitclass([('a', types.int64)])\nclass thing:\n    def __init__(self):\n        self.a = 1\n" + _WEIGHT,
    ),
    _read(
        "documentation-of-a-jitclass",
        """
        @jitclass([("a", types.int64)])
        class thing:
            def __init__(self):
                self.a = 1

        thing.__doc__ = "a" * LEVEL
        """,
        "len(thing.__doc__)",
    ),
    _read(
        "documentation-of-a-dispatcher",
        "@njit\ndef thing(x):\n    return x\n\nthing.__doc__ = 'a' * LEVEL\n",
        "len(thing.__doc__)",
    ),
    _read(
        "name-of-a-dispatcher",
        "@njit\ndef thing(x):\n    return x\n\nthing.__name__ = 'a' * LEVEL\n",
        "len(thing.__name__)",
    ),
    _read("class-type-of-a-class", "class thing:\n    class_type = LEVEL\n", "thing.class_type"),
    _read("memo-of-a-class", "class thing:\n    _impl_cache = LEVEL\n", "thing._impl_cache"),
    _read(
        "number-in-a-documentation",
        "class thing:\n    __doc__ = 'opcode 0x1234' if LEVEL == 1 else 'opcode 0x4321'\n",
        "int(thing.__doc__.split()[1], 16)",
    ),
    _read("threads", "numba.set_num_threads(LEVEL)\n", "numba.get_num_threads()", NUMBA_NUM_THREADS="2"),
    _read("threads-at-most", "", "numba.get_num_threads()", NUMBA_NUM_THREADS="{}"),
    _read("chunks", "numba.set_parallel_chunksize(LEVEL)\n", "numba.get_parallel_chunksize()"),
    _read("name-of-a-level", "logging.addLevelName(7, 'x' * LEVEL)\n", "len(logging.getLevelName(7))"),
)
