"""Whole stores and bundles: what CI builds, and what its runners take."""

import json
import sys
import tarfile

import pytest
from nbtest import badservers, proc, remotes

from nbcache import signing_keys
from nbcache.remote import objects, storage
from nbcache.secret import Secret
from nbcache.store import layout

PROGRAM = """
from numba import njit, vectorize

@njit
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

@njit
def even(n):
    return True if n == 0 else odd(n - 1)

@njit
def odd(n):
    return False if n == 0 else even(n - 1)

@vectorize(["float64(float64)"])
def square(x):
    return x * x

def main():
    print(fib(12), square(3.0))

if __name__ == "__main__":
    main()
    import json, nbcache, sys
    print(json.dumps(nbcache.stats()), file=sys.stderr)
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)

    def run(env):
        outcome = proc.run([path], extra=env)
        assert outcome.stdout == "144 9.0\n", outcome
        return json.loads(outcome.stderr.splitlines()[-1])

    run.path = path
    return run


def nbcache(argv, env, status=0):
    outcome = proc.run(["-m", "nbcache", *map(str, argv)], extra=env)
    assert outcome.status == status, outcome
    return outcome.stdout + outcome.stderr


@pytest.fixture
def builder(fleet):
    return fleet.host("builder", "")


@pytest.fixture
def runner(fleet):
    return fleet.host("runner", "", signs=False)


@pytest.mark.every(3)
def test_what_was_pushed_can_be_pulled(fleet, server, program):
    builder = fleet.host("builder", server)
    assert program({**builder, "NBCACHE_REMOTE": ""})["builds_count"] > 2
    assert "stored" in nbcache(["push"], builder)
    assert "already there" in nbcache(["push"], builder)
    reader = fleet.host("reader", server, signs=False)
    assert "fetched" in nbcache(["pull"], reader)
    # Everything is here: nobody has to be asked.
    assert program({**reader, "NBCACHE_REMOTE": ""})["builds_count"] == 0
    assert "here already" in nbcache(["pull"], reader)


def test_nothing_is_pushed_where_nothing_is_written(builder, tmp_path):
    said = nbcache(["push"], {**builder, "NBCACHE_REMOTE": f"file://{tmp_path}/share?read-only"}, 1)
    assert said == "nbcache: every address in NBCACHE_REMOTE is read-only: there is nowhere to upload to\n"


@pytest.mark.long
@pytest.mark.every(3)
def test_what_was_damaged_on_a_server_is_pushed_again(fleet, server, program, patient):
    """Its beginning is as it was: nothing less than reading all of it shows that nobody can use it."""
    builder = fleet.host("builder", server)
    program({**builder, "NBCACHE_REMOTE": ""})
    nbcache(["push"], builder)
    there = storage.opened(Secret(server))
    keys = [path.parent.name + path.stem for path in (fleet.folder / "store-builder/v1/objects").glob("??/*.nbo")]
    names = [objects.name_of(key, 0) for key in keys if layout.is_key(key)]
    for name in names[:2]:
        well = there.get(name)
        there.put(name, well[: objects.HEAD_BYTES] + bytes(len(well) - objects.HEAD_BYTES))
    reader = fleet.host("reader", server, signs=False)
    assert "2 refused" in nbcache(["pull"], reader, 1)
    assert f"2 stored, {len(names) - 2} already there" in nbcache(["push"], builder)
    assert "2 fetched" in nbcache(["pull"], reader)
    assert program({**reader, "NBCACHE_REMOTE": ""})["builds_count"] == 0


@pytest.mark.long
@pytest.mark.parametrize("code", [500, 429, 503])
def test_what_a_server_refuses_for_a_moment_is_pushed_all_the_same(fleet, program, code):
    """As servers do that many begin to upload to at once."""
    with badservers.running(badservers.Keeping(lambda _path, nth: code if nth == 1 else None)) as (kept, address):
        builder = fleet.host("builder", address)
        program({**builder, "NBCACHE_REMOTE": ""})
        said = nbcache(["push"], builder)
        assert "stored" in said and "failed" not in said
        # Each object, and the index.
        assert set(kept.uploads.values()) == {2} and len(kept.objects) == len(kept.uploads) > 4
        reader = fleet.host("reader", address, signs=False)
        assert "fetched" in nbcache(["pull"], reader)
        assert program({**reader, "NBCACHE_REMOTE": ""})["builds_count"] == 0


@pytest.mark.long
def test_why_an_upload_failed_is_said_though_others_succeed_after_it(fleet, program):
    refused = []

    def refuse(path, _nth):
        refused[:] = refused or [path]
        return 500 if path == refused[0] else None

    with badservers.running(badservers.Keeping(refuse)) as (_kept, address):
        builder = fleet.host("builder", address)
        program({**builder, "NBCACHE_REMOTE": ""})
        said = nbcache(["push"], builder, 1)
        assert "1 failed" in said and "stored" in said and f"nbcache: {address}: it answers 500" in said.splitlines()


@pytest.mark.long
def test_pulling_what_a_warm_list_names(fleet, tmp_path, program):
    with remotes.redis(tmp_path) as (address, _):
        builder = fleet.host("builder", address)
        program({**builder, "NBCACHE_REMOTE": "", "NBCACHE_RECORD": str(tmp_path / "list")})
        nbcache(["push"], builder)
        reader = fleet.host("reader", address, signs=False)
        assert "fetched" in nbcache(["pull", tmp_path / "list"], reader)
        assert program({**reader, "NBCACHE_REMOTE": ""})["hit_count"] > 0


@pytest.mark.long
def test_pushing_and_pulling_say_what_is_wrong(fleet, tmp_path, program):
    nowhere = fleet.host("nowhere", "redis://127.0.0.1:1")
    program({**nowhere, "NBCACHE_REMOTE": ""})
    assert "Connection refused" in nbcache(["push"], nowhere, 1)
    assert "Connection refused" in nbcache(["pull"], nowhere, 1)
    assert "NBCACHE_REMOTE is not set" in nbcache(["push"], {**nowhere, "NBCACHE_REMOTE": ""}, 1)
    unsigned = fleet.host("nowhere", "redis://127.0.0.1:1", signs=False)
    assert "NBCACHE_SIGNING_KEY is not set" in nbcache(["push"], unsigned, 1)
    with remotes.redis(tmp_path) as (address, _):
        assert "nobody has pushed" in nbcache(["pull"], fleet.host("empty", address), 1)


@pytest.mark.long
def test_a_bundle_of_a_store(tmp_path, builder, runner, program):
    program(builder)
    said = nbcache(["bundle", tmp_path / "b"], builder)
    assert "signed as ci" in said
    assert "0 refused" in nbcache(["load-bundle", tmp_path / "b"], runner)
    assert program(runner)["builds_count"] == 0
    assert " 0 taken" in nbcache(["load-bundle", tmp_path / "b"], runner)


@pytest.mark.long
def test_a_bundle_of_what_a_program_needs(tmp_path, builder, runner, program):
    nbcache(["bundle", tmp_path / "b", "--", sys.executable, program.path], builder)
    nbcache(["load-bundle", tmp_path / "b"], runner)
    assert program(runner)["builds_count"] == 0


@pytest.mark.long
def test_a_bundle_of_what_a_warm_list_names(tmp_path, builder, runner, program):
    (tmp_path / "lib.py").write_text(PROGRAM.partition("@vectorize")[0])
    (tmp_path / "main.py").write_text("import lib; print(lib.fib(12), lib.even(3))")
    record = {**builder, "NBCACHE_RECORD": str(tmp_path / "list")}
    assert proc.run([tmp_path / "main.py"], extra=record, cwd=tmp_path).status == 0
    outcome = proc.run(["-m", "nbcache", "bundle", tmp_path / "b", tmp_path / "list"], extra=builder, cwd=tmp_path)
    assert outcome.status == 0, outcome
    nbcache(["load-bundle", tmp_path / "b"], runner)
    (tmp_path / "main.py").write_text(
        "import lib, json, nbcache; print(lib.fib(12), lib.even(3)); print(json.dumps(nbcache.stats()))"
    )
    # Jobs aren't kept from SciPy, as programs of tests are.
    outcome = proc.run([tmp_path / "main.py"], extra={**runner, **proc.SCIPY}, cwd=tmp_path)
    said, counts = outcome.stdout.splitlines()
    assert (said, json.loads(counts)["builds_count"]) == ("144 False", 0)


def test_a_bundle_that_nobody_trusted_signed_is_refused(fleet, tmp_path, builder, runner, program):
    program(builder)
    nbcache(["bundle", tmp_path / "b"], builder)
    stranger = {**runner, "NBCACHE_TRUSTED_KEYS": fleet.public(fleet.make_key("stranger"))}
    assert "nobody who is trusted signed it" in nbcache(["load-bundle", tmp_path / "b"], stranger, 1)
    assert program(stranger)["builds_count"] > 2
    assert "NBCACHE_TRUSTED_KEYS is not set" in nbcache(
        ["load-bundle", tmp_path / "b"], {**runner, "NBCACHE_TRUSTED_KEYS": ""}, 1
    )
    # Somebody who is trusted vouches for it.
    signer = {**stranger, "NBCACHE_SIGNING_KEY": str(tmp_path / "stranger.key")}
    assert "signed as stranger" in nbcache(["key", "sign", tmp_path / "b"], signer)
    assert "signed by stranger" in nbcache(["key", "verify", tmp_path / "b"], stranger)
    assert "signed by ci" in nbcache(["key", "verify", tmp_path / "b"], runner)
    nbcache(["load-bundle", tmp_path / "b"], stranger)


@pytest.mark.long
def test_files_that_are_no_bundles(tmp_path, builder, runner, program):
    program(builder)
    nbcache(["bundle", tmp_path / "b"], builder)
    whole = (tmp_path / "b").read_bytes()
    (tmp_path / "cut").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "text").write_text("a bundle")
    with tarfile.open(tmp_path / "tar", "w:gz") as archive:
        archive.add(program.path)
    for name in ("cut", "empty", "text", "tar"):
        assert "bundle" in nbcache(["load-bundle", tmp_path / name], runner, 1)
    assert "No such file" in nbcache(["load-bundle", tmp_path / "absent"], runner, 1)
    assert not [path for path in tmp_path.iterdir() if path.suffix == ".tmp"]


def test_the_key_of_a_host_signs(fleet):
    assert signing_keys.read(Secret(str(fleet.key))).name == "ci"
