"""One publication for several processors: a node takes the code of the best that it can be."""

import textwrap

import pytest
from nbtest.published import OF_FOUR_KINDS, accumulator, node

from nbcache import hosts, processors

MODULE = "import numpy as np\nfrom numba import cfunc, njit, vectorize\nTABLE = np.arange(5.0)\n" + OF_FOUR_KINDS
LEVELS = ["x86-64-v3", "x86-64-v2", "x86-64"]
BOTH = f"""
import functions, pathlib
names = ("revenue", "scaled", "squared", "half")
both = {{name: getattr(functions, name) for name in names}}
nbcache.publish("all", both, cpu={LEVELS})
"""
USED = """
import numpy as np
from nbcache import hosts
able = hosts.features()
hosts.features = lambda: able - LESS
values = np.arange(4.0)
n = nbcache.load("all")
assert n.revenue(values, 0.5).tolist() == [0.0, 0.5, 1.0, 1.5]
assert n.scaled(values).tolist() == [1.0, 3.0, 5.0, 7.0] and n.squared(3) == 9.0 and n.half(3) == 1.5
images = {line.split()[-1] for line in open("/proc/self/maps") if "/files/" in line}
(mapped,) = [each for each in nbcache.about(n.squared).targets if each.startswith("NAME: ")]
print(images)
"""
here = pytest.mark.skipif(
    not set(LEVELS) <= set(processors.here()) or not set(processors.told_to_kernel(LEVELS[0])) <= hosts.features(),
    reason="this processor is none of x86-64-v3",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("published")
    (folder / "functions.py").write_text(textwrap.dedent(MODULE))
    accumulator(folder / "store", BOTH, folder)
    return folder


@here
def test_a_node_maps_the_image_of_the_best_that_it_can_be(folder):
    seen = set()
    for less, name in (("set()", LEVELS[0]), ("{'avx2'}", LEVELS[1]), ("{'avx2', 'ssse3'}", LEVELS[2])):
        seen.add(node(folder / "store", USED.replace("LESS", less).replace("NAME", name), folder).stdout)
    assert len(seen) == len(LEVELS)


@here
def test_a_processor_that_can_do_less_than_the_least_is_refused(folder):
    program = """
    import nbcache.errors
    from nbcache import hosts
    able = hosts.features()
    hosts.features = lambda: able - {"sse2"}
    try:
        raise SystemExit(nbcache.load("all"))
    except nbcache.errors.PublicationError as error:
        assert "a processor with sse2, which this one doesn't have" in str(error), error
    """
    node(folder / "store", program, folder)


@here
def test_what_is_for_a_certain_processor_is_loaded_by_nothing_but_its_image(folder):
    program = """
    import nbcache.errors
    from nbcache.published import images
    def fails(*args, **kwargs):
        raise nbcache.errors.ImageError("no room")
    images.open_image = images.mapped = fails
    from nbcache.published import realize
    realize.MachineCode._load_image = fails
    try:
        raise SystemExit(nbcache.load("all"))
    except nbcache.errors.NbcacheError as error:
        assert "no room" in str(error), error
    """
    node(folder / "store", program, folder)


@here
def test_bytes_have_all_of_them(folder):
    program = "import pathlib, functions; pathlib.Path('bytes').write_bytes(nbcache.dumps(nbcache.load('all')))"
    accumulator(folder / "store", program, folder)
    used = USED.replace("LESS", "{'avx2'}").replace("NAME", LEVELS[1]).replace(
        'nbcache.load("all")', 'nbcache.loads(open("bytes", "rb").read(), trusted=True)'
    )  # fmt: skip
    node(folder / "other", used, folder)


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("cpu", "why"), [("pentium", "pentium"), (["x86-64-v3", "neoverse-v2", "x"], "x"), ([3], "int")]
)
def test_what_nobody_knows_is_refused(tmp_path, cpu, why):
    (tmp_path / "functions.py").write_text(textwrap.dedent(MODULE))
    program = f"""
    import functions, nbcache.errors
    try:
        nbcache.publish("f", functions.squared, cpu={cpu!r})
    except nbcache.errors.PublicationError as error:
        print(error)
    """
    said = accumulator(tmp_path / "store", program, tmp_path).stdout
    assert "no code can be built here for cpu=" in said and why in said and "known are" in said


@pytest.mark.long
@here
def test_without_a_linker_there_is_nothing_for_a_certain_processor(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    (tmp_path / "functions.py").write_text(textwrap.dedent(MODULE))
    program = """
    import functions, nbcache.errors
    try:
        nbcache.publish("f", functions.squared, cpu="v3")
    except nbcache.errors.PublicationError as error:
        print(error)
    """
    assert "there is no image of it for x86-64-v3" in accumulator(tmp_path / "store", program, tmp_path).stdout
