"""Programs of which there is bytecode alone, whose paths lead nowhere, and programs in archives."""

import compileall
import json
import zipapp
from pathlib import Path

import pytest
from nbtest import proc

MAIN = """
import json, sys
import numba, nbcache
from numba.core import event
with event.install_recorder("numba:compile") as recorder:
    from lib import f, g
    results = [f(1), g(2)]
compiled = sum(each.is_start for _when, each in recorder.buffer)
print(json.dumps([results, compiled, [*nbcache.stats()["uncacheable"]]]))
"""
# What `generated` returns is compiled in, and so is the value of a name in the module `constants`.
LIB = """
import os
from numba import njit, types
from numba.extending import intrinsic
import constants, late, statistics_of_ours

def generated():
    return late.K * int(os.environ["DATA"])

@intrinsic
def ask(typingctx):
    def codegen(context, builder, signature, args):
        return context.get_constant(types.int64, generated())
    return types.int64(), codegen

@njit
def f(x):
    return ask() + x

@njit
def g(x):
    return statistics_of_ours.scaled(x) + constants.K
"""
OURS = """
from numba import njit
@njit
def scaled(x):
    return x * FACTOR
"""


class Program:
    """A program as it is written, and what it is run as."""

    def __init__(self, place):
        self.place, self.sources = place, place / "sources"
        self.sources.mkdir()
        self.write(__main__=MAIN, lib=LIB, constants="K = 5\n", late="K = 10\n")
        self.write(statistics_of_ours=OURS.replace("FACTOR", "2"))

    def write(self, **modules):
        for name, text in modules.items():
            (self.sources / f"{name}.py").write_text(text)

    def run(self, make, cwd="/"):
        """Results, compile events, and what is uncacheable."""
        argv, extra = make(self)
        outcome = proc.run(argv, self.place / "store", {"DATA": "3", **extra}, cwd=cwd)
        assert (outcome.status, outcome.stderr) == (0, ""), outcome.stderr
        return json.loads(outcome.stdout)


def in_archive(program):
    """Run it as a zipapp."""
    zipapp.create_archive(program.sources, program.place / "program.pyz")
    return [program.place / "program.pyz"], {}


def without_sources(program):
    """Run bytecode alone, nbcache's as well, that says of each module no more than where it is below its folder."""
    site = program.place / "site"
    if not site.exists():
        proc.installed(site)
    for each in program.sources.iterdir():
        (site / each.name).write_text(each.read_text())
    compileall.compile_dir(site, quiet=2, legacy=True, stripdir=site, force=True)
    for source in site.rglob("*.py"):
        if (site / source.with_suffix(".pyc")).exists() and source.parent == site:
            source.unlink()
    for source in (site / "nbcache").rglob("*.py"):
        source.unlink()
    return [site / "__main__.pyc"], {"PYTHONPATH": proc.search_path(site)}


@pytest.mark.every(2)
@pytest.mark.parametrize("make", [in_archive, without_sources])
def test_a_program_without_source_files_is_cached_and_what_it_reads_counts(tmp_path, make):
    program = Program(tmp_path)
    first = program.run(make)
    assert first[0] == [31, 9] and first[2] == []
    assert program.run(make) == [[31, 9], 0, []]
    program.write(late="K = 100\n")
    assert program.run(make)[0] == [301, 9]
    program.write(constants="K = 6\n", statistics_of_ours=OURS.replace("FACTOR", "3"))
    assert program.run(make)[0] == [301, 12]


@pytest.mark.long
def test_a_numba_of_which_there_is_bytecode_alone_is_known_by_name(tmp_path):
    """Compiles Numba, llvmlite and NumPy: a minute or two."""
    import shutil

    import llvmlite
    import numba
    import numpy as np

    site = proc.installed(tmp_path / "site")
    for package in (numba, llvmlite, np):
        home = Path(package.__file__).parent
        shutil.copytree(home, site / home.name, ignore=shutil.ignore_patterns("tests", "__pycache__"))
        libraries = home.with_name(f"{home.name}.libs")
        if libraries.exists():
            shutil.copytree(libraries, site / libraries.name)
    program = Program(tmp_path)
    for name in ("numba", "llvmlite", "numpy"):
        compileall.compile_dir(site / name, quiet=2, legacy=True, stripdir=site)
        for source in (site / name).rglob("*.py"):
            source.unlink()
    assert program.run(without_sources)[::2] == [[31, 9], []]
    assert program.run(without_sources) == [[31, 9], 0, []]
