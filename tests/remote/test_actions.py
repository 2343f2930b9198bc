"""The cache service of GitHub's Actions as a remote tier: it replaces no object, and only a job's environment has it."""

import json

import pytest
from nbtest import proc, remotes

from nbcache.errors import RemoteError
from nbcache.remote import objects, storage
from nbcache.secret import Secret

PROGRAM = """
import json
from numba import njit
import nbcache

@njit
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

print(fib(10))
print(json.dumps(nbcache.stats()))
"""


@pytest.fixture
def service(tmp_path):
    with remotes.actions(tmp_path) as (address, _process):
        yield address


def test_what_one_job_compiled_another_one_loads(fleet, service, command):
    def compiled(env):
        remotes.wake(env)
        answer, counts = proc.run(["-c", PROGRAM], extra=env).stdout.splitlines()
        assert answer == "55"
        return json.loads(counts)["builds_count"]

    builder = fleet.host("builder", service)
    assert compiled(builder) > 0
    status = remotes.settle(builder, command)
    assert status["uploads"]["stored"] > 0 == status["uploads"]["failed"], status
    assert compiled(fleet.host("reader", service, signs=False)) == 0


def test_an_object_that_is_there_is_not_replaced_and_reads_go_on(service, patient):
    store, name = storage.opened(Secret(service)), "{:064}".format
    assert store.get(name(1)) is store.head(name(1)) is None
    whole = bytes(range(256)) * 400
    store.put(name(1), whole)
    with pytest.raises(storage.StorageError, match="takes no second one") as refused:
        store.put(name(1), b"another")
    assert refused.value.kind == storage.DENIED
    assert (store.get(name(1)), store.head(name(1))) == (whole, whole[: objects.HEAD_BYTES])


def test_outside_of_a_job_it_is_said_that_there_is_none(monkeypatch):
    for name in ("ACTIONS_CACHE_URL", "ACTIONS_RESULTS_URL", "ACTIONS_RUNTIME_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(RemoteError, match="maybe not in github action environment"):
        storage.opened(Secret("ghac://prefix"))
