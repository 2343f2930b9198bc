"""Family 27: one object under two names in one version, two alike in the other.

Both unfold to the same tree of parts; only whether they are one object tells them apart.
"""

from ..harness import Program, Step, main, trap

_HEAD = 'import os\nALIASED = os.environ["APP_ALIASED"] == "1"\n'


def _alias(name: str, body: str, **options) -> tuple[Program, Program]:
    """Return the program that has one object first and two then, and the program that has them the other way round."""
    files = {"main.py": main(_HEAD) + main(body).split("njit\n", 1)[1]}
    one, two = Step(env={"APP_ALIASED": "1"}), Step(env={"APP_ALIASED": "0"})
    return (
        trap(f"alias-{name}-becomes-two", 27, Step(files=files, env=one.env), two, **options),
        trap(f"alias-{name}-becomes-one", 27, Step(files=files, env=two.env), one, **options),
    )


PROGRAMS = (
    *_alias(
        "exception",
        """
        def make():
            class Failure(Exception):
                pass
            return Failure

        First = make()
        Second = First if ALIASED else make()

        @njit
        def f(x):
            if x > 3:
                raise First("first")
            raise Second("second")

        def kind(x):
            try:
                f(x)
            except First as exc:
                return "First", exc.args, type(exc) is Second
            except Second as exc:
                return "Second", exc.args, type(exc) is First

        show("large", kind, 7)
        show("small", kind, 1)
        """,
    ),
    *_alias(
        "namedtuple",
        """
        from collections import namedtuple

        First = namedtuple("Pair", "a b")
        Second = First if ALIASED else namedtuple("Pair", "a b")

        @njit
        def f(x):
            return First(x, 1), Second(x, 2)

        def kinds(x):
            one, two = f(x)
            return type(one) is First, type(two) is Second, type(one) is type(two)

        show("kinds", kinds, 7)
        """,
    ),
    *_alias(
        "namedtuple-that-is-unified",
        """
        from collections import namedtuple

        First = namedtuple("Pair", "a b")
        Second = First if ALIASED else namedtuple("Pair", "a b")

        @njit
        def f(x):
            if x > 3:
                return First(x, 1)
            return Second(x, 2)

        show("kinds", lambda x: (type(f(x)) is First, type(f(x)) is Second), 7)
        show("kinds", lambda x: (type(f(x)) is First, type(f(x)) is Second), 1)
        """,
        rerun="same",
    ),
    *_alias(
        "jitclass",
        """
        from numba import types
        from numba.experimental import jitclass

        def make():
            @jitclass([("level", types.int64)])
            class Counter:
                def __init__(self, level):
                    self.level = level
            return Counter

        First = make()
        Second = First if ALIASED else make()

        @njit
        def f(x):
            if x > 3:
                c = First(x)
            else:
                c = Second(x)
            return c.level

        show("f", f, 7)
        """,
        rerun="same",
    )[:1],
    *_alias(
        "jitclass-that-is-boxed",
        """
        from numba import types
        from numba.experimental import jitclass

        def make():
            @jitclass([("level", types.int64)])
            class Counter:
                def __init__(self, level):
                    self.level = level
            return Counter

        First = make()
        Second = First if ALIASED else make()

        @njit
        def f(x):
            return First(x), Second(x)

        def kinds(x):
            one, two = f(x)
            return isinstance(one, First), isinstance(two, Second), isinstance(one, Second)

        show("kinds", kinds, 7)
        """,
        rerun="same",
    ),
    *_alias(
        "enum",
        """
        import enum

        def make():
            class Level(enum.Enum):
                LOW = 1
                HIGH = 2
            return Level

        First = make()
        Second = First if ALIASED else make()

        @njit
        def f(x):
            return First.LOW == Second.LOW

        show("f", f, 7)
        """,
        rerun="same",
    ),
    *_alias(
        "function-in-a-tuple",
        """
        def make():
            @njit
            def g(x):
                return x + 1
            return g

        first = make()
        functions = (first, first if ALIASED else make())

        @njit
        def f(x):
            total = 0
            for g in functions:
                total += g(x)
            return total

        show("f", f, 7)
        show("calls", lambda: len(functions[1].signatures))
        show("types", lambda: str(f.overloads[f.signatures[0]].type_annotation.typemap["total"]))
        """,
        rerun="same",
    )[:1],
    *_alias(
        "list-read-by-a-chooser",
        """
        from numba.extending import overload

        FIRST = [1]
        SECOND = FIRST if ALIASED else [1]

        def thing(x):
            raise NotImplementedError

        @overload(thing)
        def choose(x):
            if FIRST is SECOND:
                return lambda x: x + 1
            return lambda x: x + 2

        @njit
        def f(x):
            return thing(x)

        show("f", f, 7)
        """,
        rerun="same",
    ),
    *_alias(
        "namedtuple-of-a-function-for-one-signature",
        """
        from collections import namedtuple
        from numba import int64

        First = Pair = namedtuple("Pair", "a b")

        def make(x):
            return Pair(x, 1)

        inner = njit((int64,))(make)
        Pair = First if ALIASED else namedtuple("Pair", "a b")

        @njit
        def f(x):
            return inner(x)

        show("kind", lambda x: (type(f(x)) is First, type(f(x)) is Pair), 7)
        """,
    ),
    *_alias(
        "array-of-a-function-for-one-signature",
        """
        import numpy as np
        from numba import int64

        FIRST = LARGE = np.arange(300_000.0)

        def item(i):
            return LARGE[i]

        inner = njit((int64,))(item)
        LARGE = FIRST if ALIASED else FIRST.copy()

        @njit
        def f(i):
            return inner(i) * 2

        FIRST[5] = 99.0
        show("f", f, 5)
        LARGE[5] = 7.0
        show("f", f, 5)
        """,
        rerun="same",
    ),
)
