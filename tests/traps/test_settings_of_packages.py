"""Where installed packages keep settings that their compile-time code reads, and what programs do to them.

Each section of ``settings.txt`` is a module of an installed package, whose intrinsic asks ``_mode()`` which constant to
compile in, and what a program does to that module, where ``B`` says whether it wants another mode. Two programs, which differ
in nothing but ``B``, run in turn over one store: each has to print what it prints without a cache.
"""

import pathlib

import pytest
from nbtest import proc
from nbtest.records import row

HEAD = """
import argparse, array, collections, configparser, contextvars, dataclasses, decimal, enum, functools, os, pathlib, re
import threading
import types as python_types
import numpy as np
from numba import types
from numba.extending import intrinsic
"""
LOWERING = """
@intrinsic
def value(context):
    def code(context, builder, signature, args):
        return context.get_constant(types.int64, _mode())
    return types.int64(), code
"""
PARTS = 3


def _sections():
    text = pathlib.Path(__file__).with_name("settings.txt").read_text()
    for section in text.split("=== ")[1:]:
        head, _, body = section.partition("\n")
        package, _, program = body.partition("---\n")
        yield head.split()[0], package, program


SECTIONS = {name: (package, program) for name, package, program in _sections()}


def _install(site, modules):
    package = site / "paket"
    package.mkdir(parents=True)
    rows = ["paket-1.0.dist-info/RECORD,,"]
    for name, text in {"__init__": "", "settings": "MODE = 1\n", **modules}.items():
        path = package / f"{name}.py"
        path.write_text(text)
        rows.append(row(f"paket/{path.name}", text.encode()))
    (site / "paket-1.0.dist-info").mkdir()
    (site / "paket-1.0.dist-info" / "RECORD").write_text("\n".join([*rows, ""]))


def _program(names):
    lines = ["import os", "from numba import njit", 'B = os.environ["APP_WHICH"] == "B"']
    for name in names:
        lines += [f"from paket import m_{name}", f"paket = m_{name}", SECTIONS[name][1]]
        lines += ["@njit", f"def f_{name}():", f"    return m_{name}.value()", f'print("{name}", f_{name}())']
    return "\n".join([*lines, ""])


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_each_program_gets_the_mode_that_it_set(tmp_path, part):
    # Who reads the environment comes last: from then on it counts for all that is compiled.
    names = sorted(SECTIONS, key=lambda name: ("environ" in SECTIONS[name][0], name))[part::PARTS]
    site, main, store = tmp_path / "site", tmp_path / "main.py", tmp_path / "store"
    _install(site, {f"m_{name}": HEAD + SECTIONS[name][0] + LOWERING for name in names})
    main.write_text(_program(names))

    def said(which, store=None):
        extra = {"PYTHONPATH": str(site), "APP_WHICH": which, "MODE_": {"A": "1", "B": "2"}[which]}
        outcome = proc.run([main], store, extra)
        assert outcome.status == 0, outcome.stderr
        return outcome.stdout.splitlines()

    right = {which: said(which) for which in "AB"}
    assert len(right["A"]) == len(names)
    assert not set(right["A"]) & set(right["B"])
    for which in "ABAB":
        assert said(which, store) == right[which]
