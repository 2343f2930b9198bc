"""What was compiled with fastmath has the same bits warm as cold: a hit binds to the callees' own objects."""

import pytest
from nbtest import proc, programs

KERNEL = """
import hashlib, json, sys
import numpy as np
from numba import guvectorize, njit, prange, vectorize

def one(X, weights, length, bias, dilation, padding):
    n = len(X); ppv = 0; mx = -np.inf
    end = (n + padding) - ((length - 1) * dilation)
    for i in range(-padding, end):
        s = bias; index = i
        for j in range(length):
            if index > -1 and index < n: s = s + weights[j] * X[index]
            index = index + dilation
        if s > mx: mx = s
        if s > 0: ppv += 1
    return ppv, mx

def inner(X, weights, length, bias, dilation, padding):
    total = 0.0
    for k in range(3):
        p, m = callee(X, weights, length, bias + k, dilation, padding)
        total += m
    return p, total

def outer(X, W, L, B, D, P, out):
    for i in prange(X.shape[0]):
        a = 0
        for j in range(len(L)):
            b = a + L[j]
            p, m = callee(X[i], W[a:b], L[j], B[j], D[j], P[j])
            out[i, j] = m; a = b

def on(function, callee, options="fastmath=True"):
    # Functions of their own: a callee that one variant has loaded is there for the next one.
    scope = {"callee": callee, "np": np, "prange": prange, "MARK": len(ALL)}
    ALL.append(None)
    source = SOURCES[function].replace("):\\n", f"):\\n    mark = {scope['MARK']}\\n", 1)
    exec(compile(source, f"variant{scope['MARK']}", "exec"), scope)
    return scope[function], eval(f"dict({options})")

import inspect
SOURCES = {each.__name__: inspect.getsource(each) for each in (one, inner, outer)}
ALL = []
r = np.random.default_rng(0); k = 40
L = r.choice(np.array([7, 9, 11], np.int32), k); W = r.normal(size=L.sum()).astype(np.float32)
X = r.random((6, 30)).astype(np.float32); B = r.uniform(-1, 1, k).astype(np.float32)
D = r.integers(1, 3, k).astype(np.int32); P = r.integers(0, 5, k).astype(np.int32)
SIMPLE = (X[0], W[0:L[0]], L[0], B[0], D[0], P[0])

def jitted(function, callee=None, options="fastmath=True"):
    function, options = on(function, callee, options)
    return njit(**options)(function)

def outcome(function):
    out = np.zeros((X.shape[0], len(L)), np.float32)
    function(X, W, L, B, D, P, out)
    return said(out)

def said(array):
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:12]
"""
SERIAL = "print(outcome(jitted('outer', jitted('one'))))\n"
VARIANTS = {
    "serial": SERIAL,
    "strict": "print(outcome(jitted('outer', jitted('one', None, ''), '')))\n",
    "of a strict caller": "print(outcome(jitted('outer', jitted('one'), '')))\n",
    "parallel": "print(outcome(jitted('outer', jitted('one'), 'fastmath=True, parallel=True')))\n",
    "chain": "print(outcome(jitted('outer', jitted('inner', jitted('one')))))\n",
    "callee first": "g = jitted('one')\ng(*SIMPLE)\nprint(outcome(jitted('outer', g)))\n",
    "callee later": "g = jitted('one')\nprint(outcome(jitted('outer', g)), repr(g(*SIMPLE)))\n",
    "two callers": """
g = jitted('one')
f, h = jitted('outer', g), jitted('inner', g)
print(outcome(f), repr(h(*SIMPLE)), repr(g(*SIMPLE)), outcome(f))
""",
    "vectorize": """
g = jitted('one')
X0, W0, L0, B0, D0, P0 = SIMPLE
@vectorize(fastmath=True)
def u(i):
    return g(X0, W0, L0, B0 + i, D0, P0)[1]
print(said(u(np.arange(50) / 7)))
""",
    "guvectorize": """
g = jitted('one')
X0, W0, L0, B0, D0, P0 = SIMPLE
@guvectorize(["f8[:], f8[:]"], "(n)->(n)", fastmath=True)
def u(a, out):
    for i in range(len(a)):
        out[i] = g(X0, W0, L0, B0 + a[i], D0, P0)[1]
print(said(u(np.arange(50) / 7)))
""",
    "array expression": """
@njit(fastmath=True)
def f(a, b):
    return np.sin(a * b + a / b - b) * (a + b + a * 0.1) / (b - 0.3) + np.exp(a) * np.cos(b) - np.tan(a * a * a)
print(said(f(np.arange(50) / 7, np.arange(50) / 3 + 0.1)), said(f(np.float32(X), np.float32(X + 1))))
""",
}
COMPILED = "\nfrom nbcache import stats\nprint(json.dumps([stats()['builds_count'], len(stats()['errors'])]))\n"


@pytest.fixture
def run(tmp_path):
    """Runs a program, over a store or without; with one, says how much it built."""

    def run(program, *, cached=False, forbidden=False):
        (tmp_path / "main.py").write_text(
            KERNEL + (programs.FORBID + "forbid()\n" if forbidden else "") + program + (COMPILED if cached else "")
        )
        outcome = proc.run([tmp_path / "main.py"], tmp_path / "store" if cached else None, cwd=tmp_path)
        assert outcome.status == 0, outcome.stderr
        return outcome.stdout.splitlines()

    return run


@pytest.mark.long
def test_the_same_bits_as_compiled(run):
    """The first case of its kind: aeon's Rocket, 11 of whose features differed."""
    (plain,) = run(SERIAL)
    assert run(SERIAL, cached=True)[0] == plain
    assert run(SERIAL, cached=True, forbidden=True) == [plain, "[0, 0]"]


@pytest.mark.long
@pytest.mark.parametrize("name", VARIANTS)
def test_relatives(run, name):
    (plain,) = run(VARIANTS[name])
    cold = run(VARIANTS[name], cached=True)
    assert cold[0] == plain
    for _ in range(2):
        assert run(VARIANTS[name], cached=True, forbidden=True) == [plain, "[0, 0]"]


@pytest.mark.long
def test_a_caller_that_is_compiled_beside_loaded_callees(run):
    """It is bound to the same as where all is compiled, whatever of it came out of which entry."""
    begin = "g = jitted('one')\nf = jitted('inner', g)\nprint(said(f(*SIMPLE)[1]))\n"
    more = begin + "print(outcome(jitted('outer', f)))\n"
    plain = run(more)
    run(begin, cached=True)
    assert run(more, cached=True)[:2] == plain
    assert run(more, cached=True, forbidden=True) == [*plain, "[0, 0]"]


def test_exact_code_has_no_such_section(run, tmp_path):
    strict = VARIANTS["strict"]
    run(strict, cached=True)
    entries = [path.read_bytes() for path in (tmp_path / "store").rglob("*.nbo")]
    assert len(entries) > 1
    assert not any(b'"callees"' in entry for entry in entries)
