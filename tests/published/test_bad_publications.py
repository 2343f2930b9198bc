"""What can be wrong with a name or its files: one clear line each, no crash, and nothing that hangs; by either way of loading."""

import json
import os
import shutil
import textwrap

import pytest
from nbtest import disks, proc, published
from nbtest.published import accumulator, node

from nbcache.config import Settings
from nbcache.store import layout
from nbcache.store.directory import Store

pytestmark = pytest.mark.every(2)
STRANGER = 54321
MODULE = """
import numpy as np
from numba import njit

TABLE = np.arange(100_000.0)

@njit("float64[::1](float64[::1])")
def f(x):
    return np.sort(x) + TABLE[1]

@njit("int64(int64)")
def g(x):
    return 10 * x

def adding(number):
    @njit("int64(int64)")
    def add(x):
        return x + number
    return add
"""
SAY = """
import numpy as np
try:
    nbcache.load({!r})
except nbcache.errors.NbcacheError as error:
    print(type(error).__name__, error)
else:
    print("it was loaded")
"""


@pytest.fixture(scope="module", params=["image", "llvm"])
def original(request, tmp_path_factory):
    """A folder with a store in which f, f's older version g, and g alone are published, and nobody changes anything."""
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "functions.py").write_text(textwrap.dedent(MODULE))
    with pytest.MonkeyPatch.context() as patch:
        published.choose(request.param, patch, tmp_path_factory.mktemp("no-linker"))
        program = """
        import functions
        nbcache.publish("f", functions.g)
        nbcache.publish("f", functions.f)
        nbcache.publish("pricing.g", functions.g)
        for number in range(4):
            nbcache.publish(f"add{number}", functions.adding(number))
        """
        accumulator(folder / "store", program, folder)
        yield folder


@pytest.fixture
def folder(original, tmp_path):
    shutil.copytree(original / "store", tmp_path / "store", symlinks=True)
    shutil.copy(original / "functions.py", tmp_path)
    return tmp_path


@pytest.fixture
def store(folder):
    return folder / "store"


@pytest.fixture
def manifest(store):
    return store / layout.NAMES / "f.json"


def opened(store):
    return Store.open(Settings(dir=str(store)))


def said(store, name="f"):
    """What a node says that loads a name: one line."""
    # What a refused node has loaded isn't the subject.
    program = "import nbcache.errors\n" + SAY.format(name)
    outcome = node(store, program + "\nimport os; os._exit(0 if sys.stdout.flush() is None else 1)", store.parent)
    assert outcome.stdout.count("\n") == 1 and not outcome.stderr, (outcome.stdout, outcome.stderr)
    return outcome.stdout.rstrip("\n")


def written(store, change):
    """Publish the manifest of f again, changed."""
    names = opened(store).names
    found = names.read("f")
    changed = json.loads(found.manifest)
    change(changed)
    names.write("f", json.dumps(changed, separators=(",", ":")).encode(), found.entries, found.files)


def test_a_name_that_is_not_there(store):
    assert said(store, "pricing.h") == (
        f"NotPublishedError nothing is published as pricing.h in {store}: did you mean pricing.g?"
    )


def test_a_name_that_is_none(store):
    assert said(store, "../f").startswith("BadNameError not a name to publish under: '../f' (letters, digits, ")


def test_a_store_that_is_not_there(store, folder):
    assert said(folder / "nowhere").startswith(f"NotPublishedError nothing is published as f in {folder}/nowhere")
    (folder / "file").touch()
    assert said(folder / "file") == f"StoreRefusedError NBCACHE_DIR={folder}/file is not a directory"


def test_no_store_at_all(folder):
    outcome = node(folder / "store", "import nbcache.errors\n" + SAY.format("f"), folder, NBCACHE_DIR="")
    assert outcome.stdout == "StoreRefusedError NBCACHE_DIR is not set\n"


def test_a_damaged_manifest(store, manifest):
    manifest.write_bytes(manifest.read_bytes().replace(b"functions", b"factories", 1))
    assert said(store) == f"PublicationError f: {manifest} is damaged: publish it again"


def test_a_manifest_of_another_version(store, manifest):
    manifest.write_bytes(manifest.read_bytes().replace(b'{"nbcache-name":1,', b'{"nbcache-name":2,'))
    assert said(store).startswith(f"PublicationError f: {manifest} is of another version of nbcache: publish it again")


def test_a_manifest_whose_inside_is_of_another_version(store):
    written(store, lambda changed: changed.update(manifest=999))
    assert "its manifest can't be used: it is of version 999, and this nbcache reads version " in said(store)


def test_a_manifest_that_leaves_something_out(store):
    written(store, lambda changed: changed.pop("host"))
    assert said(store).startswith("PublicationError f: its manifest can't be used: manifest must be a mapping of ")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_a_manifest_of_a_stranger(store, manifest):
    os.chown(manifest, STRANGER, -1)
    assert said(store) == (
        f"PublicationError f: {manifest} is owned by uid {STRANGER}, who isn't trusted (see NBCACHE_TRUSTED_UIDS)"
    )


def test_a_manifest_that_others_may_write(store, manifest):
    manifest.chmod(0o666)
    assert said(store) == f"PublicationError f: {manifest} is writable by others (mode 0666)"


def test_files_that_others_may_write(store):
    for file in (store / layout.FILES).glob("*/*"):
        file.chmod(0o666)
    assert "is writable by others (mode 0666)" in said(store)


def test_truncated_files_are_never_mapped(store):
    for file in (store / layout.FILES).glob("*/*"):
        os.truncate(file, 4096)
    assert said(store).endswith(" is damaged: publish it again")


def test_files_that_are_gone(store):
    for file in (store / layout.FILES).glob("*/*"):
        file.unlink()
    assert said(store).endswith(" is gone: publish it again")


def test_entries_that_are_gone_matter_only_without_an_image(store):
    for file in (store / layout.OBJECTS).glob("*/*"):
        file.unlink()
    if published.way == "image":
        assert said(store) == "it was loaded"
    else:
        assert said(store).startswith("PublicationError f: its entry ")
        assert said(store).endswith(f"… is not in {store} as it was: publish it again")


@pytest.mark.long
def test_entries_that_were_built_again(store, folder):
    """What a version of a name means stays, though programs take what was built last."""
    (key,) = opened(store).names.read("f").entries
    (meant,) = opened(store).find(key)
    for _ in range(2):
        accumulator(store, "import functions", folder, NBCACHE_RECACHE="1")
    assert said(store) == said(store, "pricing.g") == "it was loaded"
    built = [found.header.created for found in opened(store).find(key)]
    assert len(built) == 3 and built[0] == max(built) and meant.header.created in built[1:]
    accumulator(store, "import functions; nbcache.publish('f', functions.f)", folder)
    assert said(store) == "it was loaded"


NO_FUSING = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-FMA,-FMA4"}


def test_a_host_whose_c_library_computes_otherwise(store, folder):
    """LLVM computes what is constant with the builder's sines: code for this host would hold others."""
    program = "from nbcache import hosts; print(hosts.libm())"
    here, there = (node(store, program, folder, **more).stdout for more in ({}, NO_FUSING))
    if here == there:
        pytest.skip("this C library computes the same with and without fused multiplication")
    refused = node(store, "import nbcache.errors\n" + SAY.format("f"), folder, **NO_FUSING).stdout
    assert refused.startswith(
        "PublicationError f: it was built where sin, exp or pow give other results than this host's"
    )
    assert refused.endswith("publish it for this kind of host, or load it with numba='allow'\n")


def test_eviction_leaves_what_is_published_until_it_is_taken_back(store, folder):
    opened(store).gc(1)
    assert said(store) == said(store, "pricing.g") == "it was loaded"
    names = opened(store).names
    names.remove("f")
    opened(store).gc(1)
    assert said(store).startswith("NotPublishedError nothing is published as f")
    assert said(store, "pricing.g") == "it was loaded"
    names.remove("pricing.g")
    opened(store).gc(1)
    assert len(list(opened(store).scan())) == 4  # of the others


def test_what_is_taken_back_stays_in_the_process_that_has_it(store, folder):
    node(
        store,
        """
        import os, shutil
        import numpy as np
        f = nbcache.load("f")
        g = nbcache.load("pricing.g")
        nbcache.unpublish("f")
        shutil.rmtree(os.environ["NBCACHE_DIR"])
        assert (f(np.array([2.0, 1.0])) == [2.0, 3.0]).all() and g(4) == 40
        """,
        folder,
    )


def test_a_store_without_execute_permission(store, folder):
    with disks.small_disk(folder / "disk", "64m", "noexec") as disk:
        shutil.copytree(store, disk / "store")
        program = "import numpy as np\nassert (nbcache.load('f')(np.array([2.0, 1.0])) == [2.0, 3.0]).all()"
        node(disk / "store", program, folder)


def test_a_store_that_may_only_be_read(store, folder):
    program = """
        import numpy as np, nbcache.errors
        assert (nbcache.load("f")(np.array([2.0, 1.0])) == [2.0, 3.0]).all()
        for attempt in (lambda: nbcache.unpublish("f"),):
            try:
                attempt()
            except nbcache.errors.PublicationError as error:
                print(error)
        """
    outcome = node(store, program, folder, NBCACHE_READONLY="1")
    assert outcome.stdout == f"f: {store} is read-only for this process: nothing is published or taken back\n"


def test_a_fetched_copy_is_all_that_a_node_needs(store, folder):
    done = proc.run(["-m", "nbcache", "fetch", "f", "pricing.g", "--to", folder / "copy"], store)
    assert done.status == 0, done.stderr
    shutil.rmtree(store)
    program = """
        import numpy as np
        assert nbcache.names() == ["f", "pricing.g"]
        assert (nbcache.load("f")(np.array([2.0, 1.0])) == [2.0, 3.0]).all() and nbcache.load("pricing.g")(4) == 40
        """
    node(folder / "copy", program, folder)


def test_two_versions_at_once(store, folder):
    node(
        store,
        """
        import numpy as np
        new, old = nbcache.load("f"), nbcache.load("f", version=1)
        assert (new(np.array([2.0, 1.0])) == [2.0, 3.0]).all() and old(4) == 40
        assert (new(np.array([2.0, 1.0])) == [2.0, 3.0]).all()
        """,
        folder,
    )
    program = "import nbcache.errors\n" + SAY.format("f").replace("nbcache.load('f')", "nbcache.load('f', version=7)")
    outcome = node(store, program, folder)
    assert outcome.stdout == "PublicationError f: version 7 is not there (there are: 1, 2)\n"


def test_a_fork_after_loading(store, folder):
    node(
        store,
        """
        import os
        import numpy as np
        f = nbcache.load("f")
        child = os.fork()
        right = (f(np.array([2.0, 1.0])) == [2.0, 3.0]).all() and nbcache.load("pricing.g")(4) == 40
        if child == 0:
            os._exit(7 if right else 1)
        assert right and os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        """,
        folder,
    )


def test_a_fork_while_others_load(store, folder):
    # What is imported is imported before: Python itself has locks for that, which a child doesn't get back.
    node(
        store,
        """
        import os, threading
        assert nbcache.load("pricing.g")(4) == 40
        threads = [threading.Thread(target=nbcache.load, args=(f"add{number}",)) for number in range(4)]
        for thread in threads:
            thread.start()
            child = os.fork()
            if child == 0:
                os._exit(7 if [nbcache.load(f"add{number}")(1) for number in range(4)] == [1, 2, 3, 4] else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        for thread in threads:
            thread.join()
        """,
        folder,
    )


def test_eight_threads_load_at_once(store, folder):
    node(
        store,
        """
        import threading
        import numpy as np
        begin, wrong, right = threading.Barrier(8), [], []

        def run(number):
            begin.wait()
            try:
                if number % 2:
                    right.append(nbcache.load("pricing.g")(number) == 10 * number)
                else:
                    right.append((nbcache.load("f")(np.array([2.0, 1.0])) == [2.0, 3.0]).all())
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong and right == [True] * 8, (wrong, right)
        """,
        folder,
    )


@pytest.mark.every(4)
@pytest.mark.parametrize("first", ["import numba", "f = nbcache.load('f')"])
def test_numba_in_the_same_process(store, folder, first):
    second = {"import numba": "f = nbcache.load('f')"}.get(first, "import numba")
    accumulator(
        store,
        f"""
        import numpy as np
        {first}
        {second}
        import functions
        x = np.array([2.0, 1.0])
        assert (f(x) == functions.f(x)).all() and nbcache.load("pricing.g")(4) == functions.g(4) == 40

        @numba.njit
        def other(x):
            return np.sort(x) * 2

        assert (other(x) == [2.0, 4.0]).all() and (f(x) == [2.0, 3.0]).all()
        """,
        folder,
    )
