"""The workflow files of deploy/ci and the action of this repository, run step by step by the rules of their services."""

import itertools
import sys

import pytest
from nbtest import runners
from nbtest.proc import ROOT

PROGRAM = """
from numba import njit, vectorize

@njit
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

@vectorize(["float64(float64)"])
def square(x):
    return x * x

print(fib(12), square(3.0))
import nbcache
print("compiled", nbcache.stats()["builds_count"])
"""
GITHUB, GITLAB = ROOT / "deploy" / "ci" / "github.yml", ROOT / "deploy" / "ci" / "gitlab.yml"
BRANCH, FORK = {"ref": "refs/pull/1/merge"}, {"ref": "refs/pull/2/merge", "fork": True}


class Service:
    """A service with a project that has a public key in its repository, and runners that share nothing."""

    def __init__(self, name, fleet, folder):
        self.name, self.fleet, self.folder = name, fleet, folder
        self.numbers = itertools.count()
        self.public = fleet.public(fleet.key)
        secret = fleet.key.read_text()
        if name == "github":
            self.service = runners.GitHub(ROOT / "action.yml", {"NBCACHE_SIGNING_KEY": secret})
        else:
            self.service = runners.GitLab({"SIGNING_KEY": secret})

    def run(self, *, main=True, fork=False):
        keys = ".github/nbcache-keys" if self.name == "github" else "nbcache-keys"
        project = {"exercise.py": PROGRAM, keys: f"{self.public}\n"}
        machine = runners.Machine(self.folder / str(next(self.numbers)), sys.executable, project)
        if self.name == "github":
            where = {} if main else FORK if fork else BRANCH
            ran = self.service.run(GITHUB, "tests", machine, **where)
        else:
            job = ("tests-of-main", "main") if main else ("tests", "branch")
            ran = self.service.run(GITLAB, job[0], machine, job[1])
        assert ran.passed and "144 9.0\n" in ran.log, ran.log
        self.log = ran.log
        return int(ran.log.partition("compiled ")[2].split()[0])

    def damage(self, change):
        kept = self.service.caches.kept
        kept.update({name: change(data) for name, data in kept.items()})


@pytest.fixture(params=["github", "gitlab"])
def service(request, fleet, tmp_path):
    return Service(request.param, fleet, tmp_path / "runners")


@pytest.mark.every(2)
def test_a_branch_compiles_nothing_that_main_has_compiled(service):
    assert service.run(main=False) > 1  # there is no bundle yet
    assert "no bundle yet" in service.log
    assert service.run() > 1
    assert service.run(main=False) == 0, service.log


@pytest.mark.long
def test_main_begins_with_its_last_bundle_and_replaces_it(service):
    assert service.run() > 1
    assert service.run() == 0, service.log
    assert service.run(main=False) == 0


@pytest.mark.long
def test_a_pull_request_from_a_fork_needs_no_secret(fleet, tmp_path):
    service = Service("github", fleet, tmp_path / "runners")
    service.run()
    assert service.run(main=False, fork=True) == 0, service.log


@pytest.mark.long
def test_a_bundle_that_was_cut_is_a_warning(service):
    service.run()
    service.damage(lambda data: data[: len(data) // 2])
    assert service.run(main=False) > 0
    assert "what is missing is compiled" in service.log


@pytest.mark.long
def test_a_key_that_was_replaced_is_a_warning_and_main_signs_with_the_next(service):
    service.run()
    key = fleet_key = service.fleet.make_key("next")
    service.public = service.fleet.public(fleet_key)
    assert service.run(main=False) > 1
    assert "what is missing is compiled" in service.log
    if service.name == "github":
        service.service.secrets["NBCACHE_SIGNING_KEY"] = key.read_text()
    else:
        service.service.protected["SIGNING_KEY"] = key.read_text()
    assert service.run() > 1
    assert service.run(main=False) == 0, service.log


@pytest.mark.long
def test_without_a_key_main_passes_and_saves_nothing(service):
    held = service.service.secrets if service.name == "github" else service.service.protected
    held.clear()
    assert service.run() > 1
    assert "bundle" in service.log
    assert service.run(main=False) > 1
