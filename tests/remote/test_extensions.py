"""What packages register that extend Numba: found out by one host, and known to those that have the same files."""

import json

import pytest
from nbtest import proc, remotes

EXTENSION = """
from numba.extending import overload
def thing(x):
    return x
@overload(thing)
def choose(x):
    return lambda x: x + 1
def init():
    {init}
"""
MAIN = """
import json, sys
from numba import njit
@njit
def f(x):
    return x * 2
print(f(1), "addition" in sys.modules)
import nbcache
print(json.dumps(nbcache.stats()), file=sys.stderr)
"""


@pytest.fixture
def package(tmp_path):
    """Runs MAIN beside an installed extension; `install` writes that anew."""
    info = tmp_path / "site" / "addition-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: addition\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[numba_extensions]\ninit = addition:init\n")
    (tmp_path / "main.py").write_text(MAIN)

    class Package:
        @staticmethod
        def install(init="pass"):
            fresh = tmp_path / "site" / "addition.new"
            fresh.write_text(EXTENSION.format(init=init))
            fresh.rename(tmp_path / "site" / "addition.py")

        @staticmethod
        def run(env):
            path = {"PYTHONPATH": f"{proc.search_path(proc.ROOT)}:{tmp_path / 'site'}"}
            outcome = proc.run([tmp_path / "main.py"], extra={**env, **path}, cwd=tmp_path)
            assert outcome.status == 0, outcome
            *said, counts = outcome.stderr.splitlines()
            assert said == [], outcome
            return outcome.stdout, json.loads(counts)

    Package.install()
    return Package


@pytest.fixture
def filled(fleet, tmp_path, package, command):
    """The address of a server that has what a host found out."""
    with remotes.redis(tmp_path) as (address, _):
        builder = fleet.host("builder", address)
        remotes.wake(builder)
        assert package.run(builder)[0] == "2 True\n"
        remotes.settle(builder, command)
        yield address


def reader(fleet, address, name="reader"):
    host = fleet.host(name, address, signs=False)
    remotes.wake(host)
    return host


@pytest.mark.long
def test_a_host_with_the_same_files_need_not_load_them(fleet, package, filled):
    package.install()  # as files of another host have other stamps
    host = reader(fleet, filled)
    said, counts = package.run(host)
    assert (said, counts["builds_count"], counts["errors"]) == ("2 False\n", 0, {})
    # From now on it is known here, and nobody is asked.
    said, counts = package.run(host)
    assert (said, counts["waits"]) == ("2 False\n", {})
    # What was written down for this host alone goes nowhere.
    signing = {**host, "NBCACHE_SIGNING_KEY": str(fleet.key)}
    assert "stored" not in proc.run(["-m", "nbcache", "push"], extra=signing).stdout


def test_a_host_with_other_files_loads_them(fleet, package, filled):
    package.install("pass  # another release")
    said, counts = package.run(reader(fleet, filled))
    assert (said, counts["builds_count"]) == ("2 True\n", 0)


@pytest.mark.long
def test_where_loading_does_something_else_nobody_is_asked_each_time(fleet, package, filled, command):
    package.install("print('loaded')")
    host = reader(fleet, filled)
    assert package.run(host)[0] == "loaded\n2 True\n"
    said, counts = package.run(host)
    assert (said, counts["waits"]) == ("loaded\n2 True\n", {})
