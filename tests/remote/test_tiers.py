"""Hosts that share a remote cache: what one compiled, another one loads; several tiers fill each other."""

import json

import pytest
from nbtest import proc, remotes

from nbcache.remote import objects, storage
from nbcache.secret import Secret

PROGRAM = """
import json, sys
import numpy as np
from numba import njit, vectorize

@njit
def inner(x):
    return 2 * x + 1

@njit
def total(a):
    s = 0.0
    for v in a:
        s += inner(v)
    return s

@njit
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

@vectorize(["float64(float64)"])
def square(x):
    return x * x

a = np.arange(10.0)
print(total(a), fib(10), square(a).sum())
import nbcache
print(json.dumps(nbcache.stats()), file=sys.stderr)
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)

    def run(env):
        remotes.wake(env)
        outcome = proc.run([path], extra=env)
        assert outcome.stdout == "100.0 55 285.0\n", outcome
        *said, counts = outcome.stderr.splitlines()
        return json.loads(counts), said

    return run


@pytest.mark.every(3)
def test_an_empty_store_with_a_full_remote_cache_compiles_nothing(fleet, server, program, command):
    builder = fleet.host("builder", server)
    counts, said = program(builder)
    assert counts["builds_count"] > 3 and counts["errors"] == {} and said == []
    status = remotes.settle(builder, command)
    assert status["uploads"]["stored"] == counts["published"], status
    assert status["uploads"]["failed"] == status["uploads"]["dropped"] == 0
    reader = fleet.host("reader", server, signs=False)
    counts, said = program(reader)
    assert counts["builds_count"] == 0 and said == [], counts
    assert counts["misses"] == {}
    asked = sum(counts["waits"].values())
    # From now on they are local, and nobody is asked.
    counts, said = program(reader)
    assert (counts["builds_count"], counts["waits"], said) == (0, {}, [])
    assert asked > 1


def test_the_beginning_of_an_object_can_be_read_alone(server, patient):
    store, name = storage.opened(Secret(server)), "{:064}".format
    assert store.head(name(0)) is None
    whole = bytes(range(256)) * 400
    for number, size in enumerate((len(whole), objects.HEAD_BYTES + 1, objects.HEAD_BYTES, 10)):
        store.put(name(number), whole[:size])
        assert store.head(name(number)) == whole[: min(size, objects.HEAD_BYTES)]
        assert store.get(name(number)) == whole[:size]


@pytest.mark.long
def test_what_an_older_version_stored_is_a_miss_without_a_word_and_is_replaced(
    fleet, tmp_path, program, command, patient
):
    """It called its objects otherwise; and where such a thing lies all the same, it is none."""
    with remotes.redis(tmp_path) as (address, _):
        builder = fleet.host("builder", address)
        program(builder)
        remotes.settle(builder, command)
        server = storage.opened(Secret(address))
        for path in (tmp_path / "store-builder/v1/objects").glob("??/*.nbo"):
            name = objects.name_of(path.parent.name + path.name.removesuffix(".nbo"), 0)
            assert len(server.get(name)) < path.stat().st_size
            server.put(name, path.read_bytes())
        host = fleet.host("host", address)
        counts, said = program(host)
        assert counts["builds_count"] > 3 and counts["errors"] == {} and said == []
        assert set(counts["misses"]) == {"new"}
        assert remotes.settle(host, command)["uploads"]["failed"] == 0
        assert program(fleet.host("other", address, signs=False))[0]["builds_count"] == 0


@pytest.mark.long
def test_what_a_slow_tier_has_is_copied_to_the_fast_ones(fleet, tmp_path, program, command):
    with remotes.redis(tmp_path) as (fast, _), remotes.nginx(tmp_path) as (slow, _):
        builder = fleet.host("builder", slow)
        program(builder)
        remotes.settle(builder, command)
        reader = fleet.host("reader", f"{fast} {slow}?read-only", signs=False)
        assert program(reader)[0]["builds_count"] == 0
        status = remotes.settle(reader, command, 1)
        assert status["tiers"][0]["counts"]["stored"] > 1
        assert "stored" not in status["tiers"][1]["counts"]
        alone = fleet.host("alone", fast, signs=False)
        assert program(alone)[0]["builds_count"] == 0


@pytest.mark.long
def test_who_has_no_key_uploads_nothing(fleet, tmp_path, program, command):
    with remotes.redis(tmp_path) as (address, _):
        host = fleet.host("host", address, signs=False)
        program(host)
        status = remotes.settle(host, command)
        assert status["uploads"]["stored"] == 0 and status["uploads"]["unsigned"] > 1
        other = fleet.host("other", address)
        assert program(other)[0]["builds_count"] > 3


def test_what_somebody_else_signed_is_refused_and_said_once(fleet, tmp_path, program, command):
    with remotes.redis(tmp_path) as (address, _):
        builder = fleet.host("builder", address)
        program(builder)
        remotes.settle(builder, command)
        stranger = fleet.public(fleet.make_key("stranger"))
        reader = fleet.host("reader", address, trusts=stranger, signs=False)
        counts, said = program(reader)
        assert counts["builds_count"] > 3
        assert "remote: entries were refused" in counts["errors"]
        assert len(said) == 1 and "refused: redis://" in said[0] and "nobody who is trusted signed it" in said[0]


@pytest.mark.long
def test_a_revoked_key_makes_what_came_from_it_unusable_at_once(fleet, tmp_path, program, command):
    with remotes.redis(tmp_path) as (address, _):
        builder = fleet.host("builder", address)
        program(builder)
        remotes.settle(builder, command)
        reader = fleet.host("reader", address, signs=False)
        assert program(reader)[0]["builds_count"] == 0
        revoked = {**reader, "NBCACHE_TRUSTED_KEYS": fleet.public(fleet.make_key("next"))}
        counts, _ = program(revoked)
        assert counts["builds_count"] > 3
        assert counts["misses"]["revoked"] > 1


def test_a_remote_cache_without_keys_is_not_used_and_says_so(fleet, tmp_path, program):
    with remotes.redis(tmp_path) as (address, _):
        host = fleet.host("host", address, trusts="")
        counts, said = program(host)
        assert counts["builds_count"] > 3
        assert len(said) == 1 and "NBCACHE_TRUSTED_KEYS is not set" in said[0]


@pytest.mark.long
def test_a_password_is_shown_to_nobody(fleet, tmp_path, program):
    with remotes.redis(tmp_path, "--requirepass", "hush") as (address, _):
        host = fleet.host("host", address.replace("redis://", "redis://:hush@"))
        program(host)
        for argv in (["config"], ["remote", "status"], ["remote", "status", "--json"], ["doctor"]):
            shown = proc.run(["-m", "nbcache", *argv], extra=host)
            assert "***@127.0.0.1" in shown.stdout or argv == ["doctor"], shown
            assert "hush" not in shown.stdout + shown.stderr
        other = fleet.host("other", host["NBCACHE_REMOTE"], signs=False)
        assert program(other)[0]["builds_count"] == 0
