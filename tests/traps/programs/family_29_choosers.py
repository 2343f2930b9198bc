"""Family 29: one chooser behind several names, options or spellings of a call; what it chose is each one's own.

Versions need not differ: these went wrong with an empty cache too.
"""

from ..harness import Program, Step, main, py, replaced, trap

_HEAD = """
    from numba import types
    from numba.extending import overload, overload_method, overload_attribute, intrinsic, register_jitable

    def first(x, y=1):
        raise NotImplementedError

    def second(x, y=1):
        raise NotImplementedError
    """
_COUNTED = """
    CHOICES = []

    def choose(x, y=1):
        CHOICES.append(x)
        n = len(CHOICES)
        return lambda x, y=1: x * 1000 + y * 100 + n
    """
_NUMBERED = """
    import sys

    def choose(x, y=1):
        n = choose.seen.setdefault(str(x), len(choose.seen) + 1)
        return lambda x, y=1: x * 1000 + n

    choose.seen = {}
    overload(first)(choose)

    @njit
    def f(x):
        return first(x)

    for word in sys.argv[1:]:
        show(word, f, float(word) if "." in word else int(word))
    """
_IMPORTING = {
    "lib.py": py("""
    from numba.extending import overload

    def first(x):
        raise NotImplementedError

    def second(x):
        raise NotImplementedError

    @overload(first)
    def choose(x):
        import later
        return lambda x: x * later.K
    """),
    "later.py": py("""
    import lib
    from numba.extending import overload

    K = 3

    @overload(lib.second)
    def choose(x):
        return lambda x: x * 100
    """),
    "main.py": main("""
    import lib

    @njit
    def f(x):
        return lib.first(x) + lib.second(x)

    show("f", f, 7)
    show("real", f, 7.5)
    """),
}
_BOTH = """
    @njit
    def f(x):
        return first(x)

    @njit
    def g(x):
        return second(x)

    @njit
    def both(x):
        return first(x), second(x)

    show("f", f, 7)
    show("g", g, 7)
    show("both", both, 7)
    show("real", both, 7.5)
    """


def _same(name: str, *parts: str, **options) -> Program:
    """Return a program that is run twice, on an empty cache and on what that left."""
    text = main("".join(parts))
    return trap(f"chooser-{name}", 29, {"main.py": text}, {}, differs=False, **({"rerun": "same"} | options))


def _edit(name: str, pair: tuple[str, str], *parts: str, **options) -> Program:
    """Return a program that is edited."""
    files = {"main.py": main("".join(parts))}
    return trap(f"chooser-{name}", 29, files, replaced(files, "main.py", pair), **({"rerun": "same"} | options))


PROGRAMS = (
    _same("of-two-functions", _HEAD, _COUNTED, "\n    overload(first)(choose)\n    overload(second)(choose)\n", _BOTH),
    _same(
        "positional-and-keyword",
        _HEAD,
        _COUNTED,
        """
    overload(first)(choose)

    @njit
    def f(x):
        return first(x, 2), first(x, y=2), first(x=x, y=2), first(x)

    show("f", f, 7)
    show("f", f, 7.5)
    """,
    ),
    _same(
        "positional-in-one-keyword-in-another",
        _HEAD,
        _COUNTED,
        """
    overload(first)(choose)

    @njit
    def f(x, y):
        return first(x, y)

    @njit
    def g(x, y):
        return first(x, y=y)

    show("f", f, 7, 2)
    show("g", g, 7, 2)
    """,
    ),
    _edit(
        "options",
        ("overload(first)(choose)", "overload(first, jit_options={'error_model': 'numpy'})(choose)"),
        _HEAD,
        """
    def choose(x, y=1):
        return lambda x, y=1: 1.0 / (x - x)

    overload(first)(choose)
    overload(second)(choose)
    """,
        _BOTH,
    ),
    _edit(
        "options-of-the-other",
        ("overload(second)(choose)", "overload(second, jit_options={'error_model': 'numpy'})(choose)"),
        _HEAD,
        """
    def choose(x, y=1):
        return lambda x, y=1: 1.0 / (x - x)

    overload(first)(choose)
    overload(second)(choose)
    """,
        _BOTH,
    ),
    _edit(
        "literals-preferred",
        ("overload(second)(choose)", "overload(second, prefer_literal=True)(choose)"),
        _HEAD,
        """
    def choose(x, y=1):
        if isinstance(y, types.IntegerLiteral):
            return lambda x, y=1: x * 100 + y
        return lambda x, y=1: x * 1000 + y

    overload(first)(choose)
    overload(second)(choose)

    @njit
    def f(x):
        return first(x, 2), second(x, 2), first(x, 3), second(x, 3)

    show("f", f, 7)
    """,
    ),
    _same(
        "inlined-and-called",
        _HEAD,
        _COUNTED,
        "\n    overload(first, inline='always')(choose)\n    overload(second)(choose)\n",
        _BOTH,
    ),
    _same(
        "of-a-function-and-a-method",
        _HEAD,
        """
    CHOICES = []

    def choose(a):
        CHOICES.append(a)
        n = len(CHOICES)
        return lambda a: a.size * 1000 + n

    def spread(a):
        raise NotImplementedError

    overload(spread)(choose)
    overload_method(types.Array, "spread")(choose)
    overload_method(types.Array, "width")(choose)
    overload_attribute(types.Array, "extent")(choose)

    @njit
    def f(a):
        return spread(a), a.spread(), a.width(), a.extent

    show("f", f, np.ones(3))
    """,
    ),
    trap(
        "chooser-that-counts-in-another-order",
        29,
        Step(files={"main.py": main(_HEAD + _NUMBERED)}, argv=("main.py", "7", "7.5")),
        Step(argv=("main.py", "7.5", "7")),
        Step(argv=("main.py", "7.5")),
        rerun="same",
    ),
    _same(
        "that-prints",
        _HEAD,
        """
    def choose(x, y=1):
        if x not in SEEN:
            SEEN.append(x)
            print("choosing for", x, flush=True)
        return lambda x, y=1: x + y

    SEEN = []
    overload(first)(choose)
    overload(second)(choose)
    """,
        _BOTH,
    ),
    _same(
        "that-leaves-something-behind",
        _HEAD,
        """
    SEEN = set()

    def choose(x, y=1):
        SEEN.add(str(x))
        return lambda x, y=1: x + y

    overload(first)(choose)
    overload(second)(choose)
    """,
        _BOTH,
        '\n    show("seen", sorted, SEEN)\n',
    ),
    _same(
        "whose-traces-are-compiled",
        _HEAD,
        """
    LEVEL = 1

    def choose(x, y=1):
        global LEVEL
        LEVEL = 2
        return lambda x, y=1: x + y

    overload(first)(choose)

    @njit
    def f(x):
        return first(x)

    @njit
    def g(x):
        return x * LEVEL

    show("g", g, 7)
    show("f", f, 7)
    show("g", g, 7.5)
    """,
    ),
    _same(
        "that-compiles",
        _HEAD,
        """
    @njit
    def helper(x):
        return x + LEVEL

    LEVEL = 1

    def choose(x, y=1):
        n = helper(1)
        return lambda x, y=1: x * 100 + n

    overload(first)(choose)

    @njit
    def f(x):
        return first(x)

    show("f", f, 7)
    LEVEL = 5
    show("helper", helper, 7)
    show("f", f, 7.5)
    """,
    ),
    _same(
        "of-an-intrinsic-under-two-names",
        _HEAD,
        """
    CHOICES = []

    def native(typingctx, x, y):
        CHOICES.append(x)
        n = len(CHOICES)
        def codegen(context, builder, signature, args):
            return builder.add(args[0], args[0].type(n * 1000))
        return types.int64(types.int64, types.int64), codegen

    one = intrinsic(native)
    two = intrinsic(native)

    @njit
    def f(x):
        return one(x, 2), two(x, 2), one(x, y=2), two(x, y=2)

    show("f", f, 7)
    """,
    ),
    _same(
        "of-callers-with-other-flags",
        _HEAD,
        _COUNTED.replace("x * 1000 + y * 100 + n", "n + 1.0 / (x - x)"),
        """
    overload(first)(choose)

    @njit(error_model="numpy")
    def f(x):
        return first(x)

    @njit
    def g(x):
        return first(x)

    show("f", f, 7)
    show("g", g, 7)
    """,
    ),
    trap(
        "choosers-import-what-is-asked-for-next",
        29,
        _IMPORTING,
        replaced(_IMPORTING, "main.py", ("lib.first(x) + ", "lib.first(x) - ")),
        rerun="same",  # who imports while something is compiled keeps it from being stored
    ),
)
