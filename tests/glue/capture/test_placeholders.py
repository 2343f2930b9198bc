"""Objects that compiled code refers to while it runs are the program's own, cold and warm, and never a twin's."""

import pytest
from nbtest import proc, same, usage

HEAD = """
import numpy as np
from numba import jit, njit, objmode, types
"""
TWINS = (
    HEAD
    + """
{definitions}

{first}, {second} = {value}, {value}
one, two = make({first}), make({second})
print(run(one), run(one), run(two))
print({show})
"""
)
LISTS = {"first": "l1", "second": "l2", "value": "[]", "show": "l1, l2"}
OBJMODE = """
def make(seen):
    @njit
    def f(x):
        with objmode(n="int64"):
            seen.append(x)
            n = len(seen)
        return n
    return f
def run(f):
    return f(1)
"""
FORCED = """
def make(seen):
    @jit(forceobj=True)
    def f(x):
        seen.append(x)
        return len(seen)
    return f
def run(f):
    return f(1)
"""
GENERATOR = """
def make(seen):
    @jit(forceobj=True)
    def f(n):
        for i in range(n):
            seen.append(i)
            yield len(seen)
    return f
def run(f):
    return list(f(3))
"""
LOOP = """
class Thing:
    pass
def make(seen):
    @jit(forceobj=True, looplift=True)
    def f(n):
        thing = Thing()
        for i in range(n):
            seen.append(i)
        return len(seen)
    return f
def run(f):
    return f(3)
"""
NESTED = """
def make(seen):
    def add(x):
        seen.append(x)
        return len(seen)
    @njit
    def g(x):
        with objmode(n="int64"):
            n = add(x)
        return n
    @njit
    def f(x):
        return g(x) + 1
    return f
def run(f):
    return f(1)
"""
INSTANCE = """
class Bar:
    def __init__(self):
        self.n = 0
    def tick(self):
        self.n += 1
        return self.n
def make(bar):
    @njit
    def f(x):
        with objmode(n="int64"):
            n = bar.tick()
        return n
    return f
def run(f):
    return f(1)
"""
BOUND = """
def make(seen):
    tell = seen.append
    @njit
    def f(x):
        with objmode():
            tell(x)
        return x
    return f
def run(f):
    return f(1)
"""
KINDS = {
    "objmode": (OBJMODE, {}),
    "forceobj": (FORCED, {}),
    "generator": (GENERATOR, {}),
    "lifted loop": (LOOP, {}),
    "function in a closure": (NESTED, {}),
    "bound method": (BOUND, {}),
    "instance": (INSTANCE, {"value": "Bar()", "show": "l1.n, l2.n"}),
    "dictionary": (OBJMODE.replace("seen.append(x)", "seen[len(seen)] = x"), {"value": "{}"}),
    "list in a tuple": (OBJMODE.replace("seen.append(x)", "seen[0].append(x)"), {"value": "([],)"}),
    "set": (FORCED.replace("seen.append(x)", "seen.add(x)"), {"value": "set()"}),
    "bytearray": (FORCED, {"value": "bytearray()"}),
    "array": (
        FORCED.replace("seen.append(x)", "seen[0] += x").replace("len(seen)", "seen[0]"),
        {"value": "np.zeros(3)"},
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_closures_keep_their_own(place, kind):
    definitions, changed = KINDS[kind]
    same.everywhere(place, TWINS.format(definitions=definitions, **{**LISTS, **changed}))


def test_what_can_be_found_again_is_a_hit(place):
    text = TWINS.format(definitions=OBJMODE, **LISTS)
    did = same.everywhere(place, text)
    assert not did.builds
    assert not did.uncacheable


@pytest.mark.long
@pytest.mark.parametrize("kind", ["forceobj", "objmode", "lifted loop"])
def test_the_variable_is_bound_anew_between_two_compilations(place, kind):
    definitions = KINDS[kind][0].replace(
        "return f\n", "def bind(new):\n        nonlocal seen\n        seen = new\n    return f, bind\n"
    )
    text = f"""{HEAD}{definitions}
first, second = [], []
f, bind = make(first)
print(run(f), first, second)
bind(second)
print(run(f), first, second)
f.recompile()
print(run(f), first, second)
"""
    same.everywhere(place, text)


@pytest.mark.long
def test_functions_of_two_namespaces_read_their_own_globals(place):
    text = f"""{HEAD}
SOURCE = '''
@jit(forceobj=True)
def f(x):
    seen.append(x)
    return len(seen)
'''
spaces = [{{"__name__": None, "jit": jit, "seen": []}} for _ in range(2)]
for space in spaces:
    exec(SOURCE, space)
print([space["f"](1) for space in spaces], [space["f"](1) for space in spaces])
print([space["seen"] for space in spaces])
"""
    same.everywhere(place, text)


@pytest.mark.long
def test_globals_are_read_when_the_code_runs(place):
    text = f"""{HEAD}
seen = []
@njit
def f(x):
    with objmode(n="int64"):
        seen.append(x)
        n = len(seen)
    return n
@jit(forceobj=True)
def g(x):
    seen.append(x)
    return seen
print(f(1), f(1), g(2) is seen, seen)
seen = []
print(f(1), g(2) is seen, seen)
"""
    same.everywhere(place, text)


@pytest.mark.long
def test_a_sentinel_is_itself(place):
    text = f"""{HEAD}
def make(sentinel):
    @jit(forceobj=True)
    def f(x):
        return sentinel if x is sentinel else None
    return f
one, two = object(), object()
f, g = make(one), make(two)
print(f(one) is one, f(two), g(two) is two, g(one))
"""
    same.everywhere(place, text)


@pytest.mark.long
def test_a_loop_that_is_entered_late_sees_the_array_as_it_is_then(place):
    text = f"""{HEAD}
class Thing:
    pass
def make(data):
    @jit(forceobj=True, looplift=True)
    def f(n):
        thing = Thing()
        total = 0.0
        for i in range(n):
            total += data[i]
        return total
    return f
data = np.arange(4.0)
f = make(data)
f.compile((types.int64,))
data[:] = 7
print(f(4))
data[:] = 8
print(f(4))
"""
    same.everywhere(place, text)


SHAPES = """
import numpy as np
from numba import njit
@njit
def added(a, b):
    return np.add(a, b)
@njit
def multiplied(a, b):
    return np.multiply(a, b)
for each in (added, multiplied):
    try:
        each(np.ones(2), np.ones(3))
    except ValueError as exc:
        print(exc)
"""


@pytest.mark.long
def test_shapes_that_do_not_fit_are_said_with_the_file_of_this_process(tmp_path):
    """Numba writes a file into the text, and line 1 of it; an entry made from another checkout must not name that."""
    store = tmp_path / "store"
    for checkout in ("one", "two"):
        main = tmp_path / checkout / "main.py"
        main.parent.mkdir()
        main.write_text(SHAPES)
        plain = proc.run([main])
        assert f'File "{main}", line 1, ' in plain.stdout
        before = usage.read(store).misses if checkout == "two" else 0
        assert proc.run([main], store).said == plain.said
    assert usage.read(store).misses == before, "the second checkout compiled its own"
