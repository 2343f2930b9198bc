"""Functions that were found in a layer are published like those of the store itself."""

import json

import pytest
from nbtest import proc
from nbtest.published import accumulator, begun, build_elsewhere, ended, node

from nbcache.config import Settings
from nbcache.store import layers
from nbcache.store.directory import Store


@pytest.mark.long
def test_what_comes_from_a_layer_is_published_with_its_entry(tmp_path):
    built = build_elsewhere(tmp_path)
    layers.fill(str(tmp_path / "layer"), Store.open(Settings(dir=str(built))), lambda _: True)
    program = """
        import functions, json
        assert functions.f(1.5) == 5.0
        nbcache.publish("f", functions.f)
        print(json.dumps(nbcache.stats()))
        """
    outcome = accumulator(tmp_path / "store", program, tmp_path, NBCACHE_LAYERS=str(tmp_path / "layer"))
    counts = json.loads(outcome.stdout)
    assert counts["hits"] and not counts["misses"].get("new")
    node(tmp_path / "store", "assert nbcache.load('f')(1.5) == 5.0", tmp_path)


PUBLISH = """
    from numba import njit

    def publish(name, number):
        names = {"njit": njit, "__name__": "made"}
        exec(f"@njit\\ndef f(x):\\n    return x * {number}", names)
        nbcache.publish(name, names["f"], ["(float64,)"])
"""


@pytest.fixture
def layered(tmp_path):
    """A store with ``both`` and ``mine``, over a layer with ``both`` and ``theirs``: the variable that names it."""
    accumulator(tmp_path / "layer", PUBLISH + "    publish('both', 2); publish('theirs', 3)", tmp_path)
    accumulator(tmp_path / "store", PUBLISH + "    publish('both', 5); publish('mine', 7)", tmp_path)
    return {"NBCACHE_LAYERS": str(tmp_path / "layer")}


def test_names_are_looked_for_in_the_store_and_then_in_layers(layered, tmp_path):
    program = """
        import nbcache.errors
        assert nbcache.names() == ["both", "mine", "theirs"]
        assert [nbcache.load(name)(1.0) for name in nbcache.names()] == [5.0, 7.0, 3.0]
        try:
            nbcache.load("theyrs")
        except nbcache.errors.NotPublishedError as error:
            assert error.near == ("theirs",)
            assert "/store, " in str(error)
        else:
            raise AssertionError
        try:
            nbcache.unpublish("theirs")
        except nbcache.errors.NotPublishedError:
            pass
        else:
            raise AssertionError("a layer was written")
        """
    node(tmp_path / "store", program, tmp_path, **layered)
    node(tmp_path / "store", "assert nbcache.names() == ['both', 'mine']", tmp_path, NBCACHE_LAYERS="none")


@pytest.mark.long
def test_a_name_of_a_layer_is_followed_into_the_store(layered, tmp_path):
    process = begun(
        tmp_path / "store",
        """
        from nbcache.published import following
        following.LOOK_SECONDS = 0.01
        import time
        f = nbcache.load("theirs", follow=True)
        print(f(1.0), flush=True)
        deadline = time.monotonic() + 600
        while f(1.0) == 3.0 and time.monotonic() < deadline:
            time.sleep(0.01)
        print(f(1.0))
        """,
        tmp_path,
        **layered,
    )
    accumulator(tmp_path / "store", PUBLISH + "    publish('theirs', 11)", tmp_path)
    assert ended(process).stdout == "11.0\n"


def test_a_layer_that_others_may_write_has_no_names(layered, tmp_path):
    (tmp_path / "layer" / "v1" / "names").chmod(0o777)
    program = """
        import nbcache.errors
        try:
            nbcache.load("theirs")
        except nbcache.errors.PublicationError as error:
            print(error)
        """
    outcome = node(tmp_path / "store", program, tmp_path, **layered)
    assert "names, which is writable by others" in outcome.stdout


@pytest.mark.long
def test_commands_say_which_layer_a_name_is_in(layered, tmp_path):
    layer, store = layered["NBCACHE_LAYERS"], tmp_path / "store"

    def command(*arguments):
        outcome = proc.run(["-m", "nbcache", *arguments], store, layered)
        assert outcome.status == 0, outcome.stderr
        return outcome.stdout

    listed = json.loads(command("names", "--json"))
    assert {each["name"]: each["layer"] for each in listed} == {"both": "", "mine": "", "theirs": layer}
    assert f"in the layer {layer}" in command("names")
    assert "njit f: (float64)" in command("show", "theirs")
    command("export", "theirs", "--stubs", str(tmp_path / "theirs.pyi"))
    assert "def f(x: float) -> float" in (tmp_path / "theirs.pyi").read_text()
    command("fetch", "theirs", "--to", str(tmp_path / "own"))
    node(tmp_path / "own", "assert nbcache.load('theirs')(1.0) == 3.0", tmp_path)
