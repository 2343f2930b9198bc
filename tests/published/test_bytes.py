"""Functions as bytes: to processes without Numba and without a shared directory, over any wire."""

import textwrap

import pytest
from nbtest import proc
from nbtest.published import _BLOCKED, _CHECKED, OF_FOUR_KINDS, accumulator

from nbcache import signing_keys

MODULE = """
import numpy as np
from numba import cfunc, guvectorize, njit, vectorize

TABLE = np.arange(5.0)

@guvectorize(["(float64[:], float64[:])"], "(n)->()")
def total(values, result):
    result[0] = values.sum()
"""
MODULE += OF_FOUR_KINDS
NAMES = ("revenue", "total", "scaled", "squared", "half")
DUMPED = """
import pathlib, functions
for name in ("revenue", "total", "scaled", "squared", "half"):
    pathlib.Path(name).write_bytes(nbcache.dumps(getattr(functions, name)))
whole = nbcache.dumps({name: getattr(functions, name) for name in ("revenue", "total", "scaled", "squared", "half")})
pathlib.Path("all").write_bytes(whole)
"""
USED = """
import numpy as np
def use(n):
    values = np.arange(4.0)
    assert isinstance(n.revenue, np.ufunc) and n.revenue(values, 0.5).tolist() == [0.0, 0.5, 1.0, 1.5]
    assert n.total(values) == 6.0 and n.scaled(values).tolist() == [1.0, 3.0, 5.0, 7.0]
    assert n.squared(3) == 9.0 and n.squared(x=3.0) == 9.0 and n.half(3) == n.half.ctypes(3.0) == 1.5
    try:
        n.scaled(np.zeros(0))
    except ValueError as error:
        assert error.args == ("empty", 0)
"""


@pytest.fixture
def folder(way, tmp_path):
    (tmp_path / "functions.py").write_text(textwrap.dedent(MODULE))
    accumulator(tmp_path / "store", DUMPED, tmp_path)
    return tmp_path


def alone(folder, program, **extra):
    """Run a program without Numba and without a store; it must end well."""
    whole = _BLOCKED + "import nbcache\n" + textwrap.dedent(program) + _CHECKED
    outcome = proc.run(["-c", whole], None, extra, cwd=folder)
    assert outcome.status == 0, outcome.stdout + outcome.stderr
    return outcome.stdout


RECEIVED = f"""
import copy, pathlib, pickle, socket, types
import cloudpickle
import nbcache.errors
{USED}
ours, theirs = socket.socketpair()
def sent(data):
    # Over a wire, as bytes go.
    import threading
    threading.Thread(target=lambda: ours.sendall(len(data).to_bytes(8, "big") + data)).start()
    size = int.from_bytes(theirs.recv(8), "big")
    found = bytearray()
    while len(found) < size:
        found += theirs.recv(1 << 16)
    return bytes(found)

whole = nbcache.loads(sent(pathlib.Path("all").read_bytes()), trusted=True)
use(whole)
assert nbcache.loads(pathlib.Path("all").read_bytes(), trusted=True) is whole
names = ("revenue", "total", "scaled", "squared", "half")
alone = types.SimpleNamespace(**{{
    name: nbcache.loads(pathlib.Path(name).read_bytes(), trusted=True) for name in names
}})
use(alone)
# Written again here, and pickled: all by itself, and together, where the publication is there once.
assert nbcache.dumps(whole) == pathlib.Path("all").read_bytes()
for part in (whole.revenue, types.SimpleNamespace(half=whole.half), types.SimpleNamespace(**vars(whole), more=whole.half),
             types.SimpleNamespace(**{{**vars(whole), "revenue": whole.total}}), {{**vars(whole), "half": alone.half}}):
    try:
        raise SystemExit(nbcache.dumps(part)[:99])
    except nbcache.errors.PublicationError as error:
        assert "written again as a whole: give all" in str(error)
for pickler in (pickle, cloudpickle):
    for name in names:
        assert pickle.loads(pickler.dumps(getattr(alone, name))) is getattr(alone, name), name
        assert pickle.loads(pickler.dumps(getattr(whole, name))) is getattr(whole, name), name
    assert copy.copy(whole.revenue)(2.0, 0.5) == 1.0 and copy.copy(whole.half)(3) == 1.5
    assert copy.deepcopy(whole).squared(3) == 9.0
    assert len(pickler.dumps(whole)) < len(nbcache.dumps(whole)) + 2000
assert pickle.loads(pickle.dumps(np.add)) is np.add
pathlib.Path("pickle").write_bytes(cloudpickle.dumps([whole, lambda n: n.squared(2.0)]))
"""


@pytest.mark.every(2)
def test_they_run_where_there_is_neither_numba_nor_a_store_and_go_on_from_there(folder):
    alone(folder, RECEIVED)
    alone(
        folder,
        f"import pickle\n{USED}\nwhole, four = pickle.loads(open('pickle', 'rb').read())\nuse(whole)\nassert four(whole) == 4.0",
    )


@pytest.mark.every(2)
def test_what_the_caller_trusts_is_loaded_without_settings_and_rules_of_trust(folder):
    program = """
        import pathlib, sys
        assert nbcache.loads(pathlib.Path("squared").read_bytes(), trusted=True)(3.0) == 9.0
        assert not {"nbcache.config", "nbcache.file_trust"} & sys.modules.keys()
    """
    alone(folder, program)


@pytest.mark.every(2)
def test_bytes_for_another_kind_of_host_are_refused_without_a_word_that_loads_does_not_know(folder):
    program = """
        import pathlib
        import nbcache.errors
        from nbcache import hosts
        hosts.problem = lambda host: "it was built for another processor"
        try:
            nbcache.loads(pathlib.Path("squared").read_bytes(), trusted=True)
        except nbcache.errors.PublicationError as error:
            print(error)
    """
    refused = alone(folder, program)
    assert refused.endswith("it was built for another processor: publish it for this kind of host\n")


@pytest.mark.long
def test_what_could_not_be_bound_is_bound_when_it_is_loaded_again(folder):
    program = """
    import gc, pathlib
    import numpy as np
    from nbcache.published import runtime
    data, made, Real = pathlib.Path("scaled").read_bytes(), [], runtime.Environment
    def second_is_interrupted(*args):
        made.append(Real(*args) if len(made) != 1 else None)
        if made[-1] is None:
            raise KeyboardInterrupt
        return made[-1]
    runtime.Environment = second_is_interrupted
    try:
        nbcache.loads(data, trusted=True)
        raise SystemExit("nothing failed")
    except KeyboardInterrupt:
        # While the error is at hand, and with it all that was half made.
        scaled = nbcache.loads(data, trusted=True)
    del made[:]
    gc.collect()
    others = [Real("other", ()) for _ in range(100)]
    assert scaled(np.ones(2)).tolist() == [3.0, 3.0]
    """
    alone(folder, program)


@pytest.mark.long
def test_what_several_share_is_sent_once(tmp_path):
    (tmp_path / "functions.py").write_text(textwrap.dedent(MODULE))
    heads = DUMPED + (
        "pathlib.Path('scaled.head').write_bytes(nbcache.dumps(functions.scaled, parts=()))\n"
        "both = {name: getattr(functions, name) for name in ('scaled', 'total')}\n"
        "pathlib.Path('both.head').write_bytes(nbcache.dumps(both, parts=()))\n"
    )
    accumulator(tmp_path / "store", heads, tmp_path)
    program = """
    import pathlib
    import nbcache.errors
    whole, head = (pathlib.Path(name).read_bytes() for name in ("scaled", "scaled.head"))
    before = nbcache.missing(head)
    assert len(head) < len(whole) / 4 and before
    try:
        nbcache.loads(head, trusted=True)
        raise SystemExit("loaded without its parts")
    except nbcache.errors.PublicationError as error:
        assert "did not come along" in str(error)
    both = pathlib.Path("both.head").read_bytes()
    assert len(nbcache.missing(both)) > 1
    kept = nbcache.loads(whole, trusted=True)
    assert not nbcache.missing(head)
    import numpy as np
    assert nbcache.loads(head, trusted=True)(np.ones(1)) == kept(np.ones(1)) == 3.0
    # Its image is its own; the runtime is there by now.
    assert len(nbcache.missing(both)) == 1
    """
    alone(tmp_path, program)


def test_a_signed_one_is_loaded_by_who_trusts_the_key_and_by_nobody_else(tmp_path):
    (tmp_path / "functions.py").write_text(textwrap.dedent(MODULE))
    key = signing_keys.generate("ours")
    signing_keys.save(key, str(tmp_path / "key"))
    accumulator(tmp_path / "store", DUMPED, tmp_path, NBCACHE_SIGNING_KEY=str(tmp_path / "key"))
    refused = """
    import ctypes, sys, pathlib
    import nbcache.errors
    from nbcache import config, keyring, setting_syntax
    from nbcache.published import as_bytes
    happened = []
    sys.addaudithook(lambda event, args: happened.append((event, *args)))
    try:
        nbcache.loads(pathlib.Path("all").read_bytes())
    except nbcache.errors.PublicationError as error:
        print(error)
    events = {each[0] for each in happened}
    assert "open" in events
    # Nothing of it was mapped, unpickled, called or compiled.
    assert not {each for each in events if each.startswith(("ctypes.", "pickle.", "exec", "compile"))}, events
    """
    other = str(signing_keys.generate("other").public)
    assert "nobody" not in alone(tmp_path, refused, NBCACHE_TRUSTED_KEYS=other)
    assert "no key in NBCACHE_TRUSTED_KEYS signed them" in alone(tmp_path, refused, NBCACHE_TRUSTED_KEYS="unsigned")
    works = f"import pathlib\n{USED}\nuse(nbcache.loads(pathlib.Path('all').read_bytes()))"
    alone(tmp_path, works, NBCACHE_TRUSTED_KEYS=f"{other} {key.public}")


def test_what_can_not_go_without_numba_is_refused_with_the_reason(tmp_path):
    program = """
    import numba, nbcache.errors
    @numba.njit
    def listed():
        return numba.typed.List([1])
    listed()
    try:
        nbcache.dumps(listed)
    except nbcache.errors.NotPublishableError as error:
        print(error)
    try:
        nbcache.dumps(len)
    except nbcache.errors.NotPublishableError as error:
        print(error)
    """
    said = accumulator(tmp_path / "store", program, tmp_path).stdout.splitlines()
    assert said[0].startswith("listed can't be published: ") and "publish what @njit, @vectorize" in said[1]
