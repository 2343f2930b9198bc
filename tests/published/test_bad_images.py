"""Images and object files as nodes may find them: damaged, gone, out of reach; and processes that load at once, or fork."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from nbtest import disks, proc
from nbtest.published import accumulator, node

from nbcache.protocol import manifests
from nbcache.store import layout
from nbcache.store.publication import decode

PUBLISH = """
from numba import njit
@njit
def f(a, x):
    if x < 0:
        raise ValueError("negative", x)
    return a * x
@njit
def g(n):
    return n if n < 2 else g(n - 1) + g(n - 2)
nbcache.publish("f", f, ["f8[::1](f8[::1], f8)"])
g(3)
nbcache.publish("several", {"f": f, "g": g})
"""
USE = """
import numpy as np
f = nbcache.load("f")
print(f(np.arange(3.0), 2.0))
"""
RESULT = "[0. 2. 4.]\n"
REFUSED = """
import nbcache.errors
try:
    nbcache.load("f")
except nbcache.errors.PublicationError as error:
    print(error)
"""
MAPPED = """
with open("/proc/self/maps") as maps:
    mapped = maps.read()
print("libllvmlite" in mapped, "memfd:nbcache-" in mapped)
"""


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A store that nobody changes."""
    folder = tmp_path_factory.mktemp("original")
    accumulator(folder / "store", PUBLISH, folder)
    return folder / "store"


@pytest.fixture
def store(original, tmp_path):
    return shutil.copytree(original, tmp_path / "store", symlinks=True)


def manifest_of(store):
    found = decode(Path(store, layout.NAMES, "f.json").read_bytes())
    return manifests.decode(found.manifest)


def file_of(store, digest):
    return Path(store, layout.FILES, digest[:2], digest[2:])


def test_there_is_an_image_where_there_is_a_linker(store):
    facts = manifest_of(store).image
    assert facts is not None and file_of(store, facts.digest).stat().st_size == facts.size
    assert node(store, USE + MAPPED, store.parent).stdout == RESULT + "False False\n"


@pytest.mark.parametrize("keep", [0, 100, 4096, -1])
def test_a_truncated_image_says_that_it_is_damaged(store, keep):
    path = file_of(store, manifest_of(store).image.digest)
    path.write_bytes(path.read_bytes()[:keep])
    said = node(store, REFUSED, store.parent).stdout
    assert said == f"f: its file {path} is damaged: publish it again\n"


def test_an_image_that_was_changed_says_so(store):
    path = file_of(store, manifest_of(store).image.digest)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert node(store, REFUSED, store.parent).stdout == f"f: its file {path} is damaged: publish it again\n"


def test_another_image_under_its_name_is_refused(store):
    path = file_of(store, manifest_of(store).image.digest)
    other = decode(Path(store, layout.NAMES, "several.json").read_bytes())
    path.write_bytes(file_of(store, manifests.decode(other.manifest).image.digest).read_bytes())
    assert node(store, REFUSED, store.parent).stdout == f"f: its file {path} is damaged: publish it again\n"


def test_an_image_that_is_gone_says_so(store):
    path = file_of(store, manifest_of(store).image.digest)
    path.unlink()
    assert node(store, REFUSED, store.parent).stdout == f"f: its file {path} is gone: publish it again\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_a_strangers_image_is_not_mapped(store):
    path = file_of(store, manifest_of(store).image.digest)
    os.chown(path, 54321, 54321)
    said = node(store, REFUSED, store.parent).stdout
    assert said.startswith(f"f: its file {path} is owned by uid 54321, who isn't trusted")


def test_a_store_without_execute_permission_is_no_obstacle(store, tmp_path):
    with disks.small_disk(tmp_path / "noexec", "64m", "noexec") as disk:
        subprocess.run(["cp", "-a", f"{store}/.", disk], check=True)
        assert node(disk, USE + MAPPED, tmp_path).stdout == RESULT + "False True\n"


def test_where_an_image_can_not_be_mapped_llvm_loads_the_entries(store, tmp_path):
    # No file there may be executed, and none may be written, not even one in memory.
    program = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
    with disks.small_disk(tmp_path / "noexec", "64m", "noexec") as disk:
        subprocess.run(["cp", "-a", f"{store}/.", disk], check=True)
        assert node(disk, program + USE + MAPPED, tmp_path).stdout == RESULT + "True False\n"


@pytest.fixture
def either(way, tmp_path):
    """A store that was published to in each way."""
    accumulator(tmp_path / "store", PUBLISH, tmp_path)
    assert (manifest_of(tmp_path / "store").image is None) == (way == "llvm")
    return tmp_path / "store"


@pytest.mark.long
def test_two_versions_live_side_by_side(either):
    accumulator(
        either,
        """
        from numba import njit
        @njit
        def f(a, x):
            return a + x
        nbcache.publish("f", f, ["f8[::1](f8[::1], f8)"])
        """,
        either.parent,
    )
    program = """
    import numpy as np
    old, new = nbcache.load("f", version=1), nbcache.load("f")
    print(old(np.arange(3.0), 2.0), new(np.arange(3.0), 2.0), old(np.arange(3.0), 2.0))
    """
    assert node(either, program, either.parent).stdout == "[0. 2. 4.] [2. 3. 4.] [0. 2. 4.]\n"


@pytest.mark.long
@pytest.mark.every(2)
def test_eight_threads_load_at_once(either):
    program = """
    import threading
    import numpy as np
    barrier, results = threading.Barrier(8), []
    def work(name):
        barrier.wait()
        found = nbcache.load(name)
        function = found if name == "f" else found.f
        for n in range(200):
            results.append(function(np.arange(3.0), float(n)).tolist() == [0, n, 2 * n])
    threads = [threading.Thread(target=work, args=(("f", "several")[n % 2],)) for n in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    print(len(results), all(results))
    """
    assert node(either, program, either.parent).stdout == "1600 True\n"


@pytest.mark.long
def test_a_child_calls_what_its_parent_loaded_and_loads_more(either):
    program = """
    import os, sys
    import numpy as np
    f = nbcache.load("f")
    f(np.arange(3.0), 1.0)
    child = os.fork()
    if not child:
        try:
            assert f(np.arange(3.0), 2.0).tolist() == [0, 2, 4]
            try:
                f(np.arange(3.0), -1.0)
            except ValueError as error:
                assert error.args == ("negative", -1.0)
            assert nbcache.load("several").g(10) == 55
        except BaseException as error:
            print(repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), f(np.arange(3.0), 3.0))
    """
    assert node(either, program, either.parent).stdout == "0 [0. 3. 6.]\n"


@pytest.mark.long
@pytest.mark.parametrize("order", ["before", "after"])
def test_numba_may_be_imported_in_the_same_process(either, order):
    use = "f = nbcache.load('f'); print(f(np.arange(3.0), 2.0))\n"
    numba = "import numba\nprint(numba.njit(lambda a, x: a * x)(np.arange(3.0), 2.0))\n"
    program = "import nbcache\nimport numpy as np\n" + (numba + use if order == "before" else use + numba) + use
    outcome = proc.run(["-c", program], either)
    assert (outcome.status, outcome.stderr, outcome.stdout) == (0, "", RESULT * 3)
