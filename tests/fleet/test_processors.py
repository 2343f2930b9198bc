"""Hosts with different processors over one store: each compiles for its own, or takes what is bit for bit the same."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import llvmlite.binding as llvm
import pytest
from nbtest import proc, usage

from nbcache import hosts, processors

HIGH, MIDDLE, LOW = {"aarch64": ("neoverse-v1", "neoverse-n1", "generic")}.get(
    platform.machine(), ("x86-64-v4", "x86-64-v3", "x86-64-v2")
)
KERNELS = Path(__file__).with_name("kernels.py")
TELL = """
import json, nbcache
said = nbcache.stats()
print(json.dumps({name: said[name] for name in ("hit_count", "builds_count", "sources", "errors")}))
"""
MASKED = """
import llvmlite.binding as llvm
true_features = llvm.get_host_cpu_features
def masked():
    features = true_features()
    for name in features:
        if name.startswith({prefix!r}):
            features[name] = False
    return features
llvm.get_host_cpu_features = masked
"""
WITHOUT_AVX512, WITHOUT_AVX = MASKED.format(prefix="avx512"), MASKED.format(prefix="avx")
STRICT = "from numba import njit\n@njit\ndef f(x):\n    return x * 2.0 + 1.0\nprint(f(3.0))\n"
LOOSE = STRICT.replace("@njit", "@njit(fastmath=True)")
LOOSE_CALLEE = STRICT.replace("return x * 2.0", "return g(x)").replace(
    "@njit\n", "@njit(fastmath=True)\ndef g(x):\n    return x * 2.0\n@njit\n", 1
)
OPEN = {
    "to unsigned": "import numpy as np\n" + STRICT.replace("x * 2.0 + 1.0", "np.uint64(x)"),
    "to a short integer": "import numpy as np\n" + STRICT.replace("x * 2.0 + 1.0", "np.int16(x)"),
    "by a variable": STRICT.replace("x * 2.0 + 1.0", "1 << x").replace("f(3.0)", "f(3)"),
}
"""What numbers that don't fit give depends on the processor: AVX-512 has instructions of its own for these."""
CONTRACTING = STRICT.replace("@njit\n", "@njit(fastmath={'contract'})\n")


def host_is(cpu):
    told = {name for name, present in llvm.get_host_cpu_features().items() if present}
    return not processors.missing(cpu, processors.told_by_kernel(hosts.features()) | told)


needs_x86 = pytest.mark.skipif(HIGH != "x86-64-v4", reason="features of x86-64")
needs_high = pytest.mark.skipif(not host_is(HIGH), reason=f"a host without {HIGH}")
pytestmark = pytest.mark.skipif(not host_is(MIDDLE), reason=f"a host without {MIDDLE}")


def run(place, program, cpu="", ladder="", *, before="", store="store", **extra):
    """Run a program; return what it says and what it counted."""
    settings = {"NBCACHE_CPU": cpu, "NBCACHE_CPU_LADDER": ladder, **extra}
    (place / "main.py").write_text(before + program + TELL)
    outcome = proc.run(["main.py"], place / store, settings, cwd=place)
    assert outcome.status == 0, outcome.stderr
    *said, counted = outcome.stdout.splitlines()
    return said, json.loads(counted), outcome.stderr


@pytest.mark.long
def test_code_for_the_host_and_for_levels_lies_side_by_side(place):
    for cpu in ("host", MIDDLE, LOW):
        assert run(place, STRICT, cpu)[1]["builds_count"] >= 1
    for cpu in ("host", MIDDLE, LOW):
        said, counted, _ = run(place, STRICT, cpu)
        assert said == ["7.0"]
        assert counted["builds_count"] == 0 and counted["hit_count"] >= 1 and counted["sources"] == {}
    listed = proc.run(["-m", "nbcache", "ls", "--json", "__main__:f"], place / "store")
    entries = json.loads(listed.stdout)
    assert {MIDDLE, LOW} < {entry["cpu"] for entry in entries}
    assert all(entry["toolchain"].endswith(f" {entry['cpu']}") for entry in entries)
    words = proc.run(["-m", "nbcache", "why", "--all", "f"], place / "store").stdout
    assert f"for {MIDDLE}" in words and "target `cpu`" in words


def test_the_ladder_takes_the_first_level_that_is_there(place):
    run(place, STRICT, LOW)
    run(place, STRICT, MIDDLE)
    said, counted, _ = run(place, STRICT, ladder=f"{MIDDLE},{LOW}")
    assert said == ["7.0"]
    assert counted["builds_count"] == 0 and set(counted["sources"]) == {MIDDLE}
    assert set(run(place, STRICT, ladder=f"{LOW},{MIDDLE}")[1]["sources"]) == {LOW}
    # What is compiled in spite of a ladder is for the host, and from then on found as such.
    other = STRICT.replace("2.0", "3.0")
    assert run(place, other, ladder=f"{MIDDLE},{LOW}")[1]["builds_count"] == 1
    assert run(place, other)[1]["builds_count"] == 0
    stats = json.loads(proc.run(["-m", "nbcache", "stats", "--json"], place / "store").stdout)
    assert stats["sources"][MIDDLE] >= 1 and stats["sources"][LOW] >= 1


@pytest.mark.long
@pytest.mark.skipif(
    llvm.get_host_cpu_name() not in processors.here() or not host_is(llvm.get_host_cpu_name()),
    reason="a host whose name is none of those that code is built for",
)
def test_a_host_takes_what_others_compiled_for_its_name(place):
    """Its own code uses what it has beyond that, so it has other keys."""
    own = llvm.get_host_cpu_name()
    run(place, STRICT, own)
    said, counted, _ = run(place, STRICT, ladder=own)
    assert said == ["7.0"]
    assert counted["builds_count"] == 0 and set(counted["sources"]) == {own}
    run(place, LOOSE.replace("2.0", "3.0"), own)
    assert run(place, LOOSE.replace("2.0", "3.0"), ladder=own)[1]["builds_count"] >= 1


@pytest.mark.long
def test_without_a_ladder_no_other_level_is_taken(place):
    run(place, STRICT, MIDDLE)
    assert run(place, STRICT)[1]["builds_count"] >= 1


@pytest.mark.long
@pytest.mark.parametrize(
    "program",
    [LOOSE, LOOSE_CALLEE, CONTRACTING, *OPEN.values()],
    ids=["fastmath", "in a callee", "contract", *OPEN],
)
def test_what_may_differ_is_never_taken_from_below(place, program):
    run(place, program, MIDDLE)
    _, counted, _ = run(place, program, ladder=MIDDLE)
    assert counted["builds_count"] >= 1
    # Numba's runtime, at most, comes from there.
    assert not any(entry["cpu"] == MIDDLE and entry["used"] for entry in used_by_hits(place))


def used_by_hits(place):
    """The entries of functions, and whether some process's record says that it was hit."""
    hits = set()
    for record in usage.records(place / "store"):
        hits |= record["hits"].keys()
    listed = json.loads(proc.run(["-m", "nbcache", "ls", "--json", "__main__:"], place / "store").stdout)
    return [{"cpu": entry["cpu"], "used": entry["key"] in hits} for entry in listed]


@pytest.mark.long
@needs_x86
@needs_high
def test_a_host_that_lacks_a_level_never_takes_it(place):
    run(place, STRICT, "v4")
    assert run(place, STRICT, ladder="v4,v3", before=WITHOUT_AVX512)[1]["builds_count"] >= 1
    run(place, STRICT, "v3")
    (place / "second").mkdir()
    # A fresh function: for the masked host, only the level that it has.
    other = STRICT.replace("2.0", "5.0")
    run(place, other, "v4")
    run(place, other, "v3")
    _, counted, _ = run(place, other, ladder="v4,v3", before=WITHOUT_AVX512)
    assert counted["builds_count"] == 0 and set(counted["sources"]) == {"x86-64-v3"}
    assert run(place, other, ladder="v4,v3", before=WITHOUT_AVX)[1]["builds_count"] >= 1


@pytest.mark.long
@needs_x86
def test_a_processor_that_the_host_is_not_stays_at_host_with_one_line(place):
    _, counted, told = run(place, STRICT, "v3", before=WITHOUT_AVX)
    assert counted["builds_count"] >= 1
    assert told.count("NBCACHE_CPU=x86-64-v3") == 1 and "avx2" in told
    _, _, told = run(place, STRICT, "v3", NUMBA_CPU_NAME="x86-64-v2", NUMBA_CPU_FEATURES="")
    assert "says otherwise" in told
    _, _, told = run(place, STRICT, "i486")
    assert "NBCACHE_CPU='i486'" in told and "accepted" in told
    # Numba had its target by then.
    late = "import numba.core.registry as r\nr.cpu_target.target_context\nimport nbcache, os\nnbcache.enable(os.environ['STORE'])\n"
    (place / "main.py").write_text(late + STRICT)
    outcome = proc.run(["main.py"], None, {"NBCACHE_CPU": "v3", "STORE": str(place / "late")}, cwd=place)
    assert outcome.stdout == "7.0\n" and "has begun to compile" in outcome.stderr


@pytest.mark.long
def test_levels_under_levels(place):
    """A process that compiles for a level takes what is below that, and nothing above."""
    run(place, STRICT, LOW)
    assert set(run(place, STRICT, MIDDLE, LOW)[1]["sources"]) == {LOW}
    other = STRICT.replace("2.0", "9.0")
    run(place, other)
    run(place, other, MIDDLE)
    assert run(place, other, LOW, f"{HIGH},{MIDDLE}")[1]["builds_count"] >= 1


@pytest.mark.long
@pytest.mark.parametrize("cpu", ["generic", LOW, MIDDLE, pytest.param(HIGH, marks=needs_high)])
def test_strict_code_is_the_same_to_the_bit(place, cpu):
    kernels = KERNELS.read_text()
    here, _, _ = run(place, kernels, store="own")
    there, _, _ = run(place, kernels, cpu)
    taken, counted, _ = run(place, kernels, ladder=cpu)
    assert len(here) == 30
    assert here == there == taken
    assert counted["builds_count"] == 0, counted


@pytest.mark.long
def test_prewarm_builds_for_a_fleet(place):
    (place / "lib.py").write_text("from numba import njit\n@njit\ndef f(x):\n    return x + 1\n")
    (place / "calls.py").write_text("import lib\nprint(lib.f(1))\n")
    warm = place / "warm.jsonl"
    assert proc.run(["calls.py"], place / "first", {"NBCACHE_RECORD": str(warm)}, cwd=place).status == 0
    done = proc.run(
        ["-m", "nbcache", "prewarm", "--dir", place / "store", "--cpu", f"{LOW},{MIDDLE}", warm], None, cwd=place
    )
    assert done.status == 0, done.stdout + done.stderr
    assert "2 of 2" in done.stdout
    for cpu in (LOW, MIDDLE):
        assert run(place, "import lib\nprint(lib.f(1))\n", cpu)[1]["builds_count"] == 0
    elsewhere = "haswell" if MIDDLE == "neoverse-n1" else "neoverse-n1"
    for cpu, reason in (("i486", "known are generic"), (elsewhere, f"can be built on {platform.machine()}")):
        bad = proc.run(["-m", "nbcache", "prewarm", "--dir", place / "store", "--cpu", cpu, warm], None, cwd=place)
        assert bad.status == 2 and cpu in bad.stderr and reason in bad.stderr


@needs_x86
def test_code_for_another_processor_is_not_called(place):
    (place / "calls.py").write_text(
        "from numba import njit\n@njit('f8(f8)')\ndef eager(x):\n    return x\n@njit\ndef lazy(x):\n    return x\n"
    )
    program = f"""{WITHOUT_AVX}
import os
os.environ.update(NUMBA_CPU_NAME="x86-64-v3", NUMBA_CPU_FEATURES="")
from nbcache.glue import other_processors
other_processors.forbid_calls()
import calls
for function in (calls.eager, calls.lazy):
    try:
        function(1.0)
    except other_processors.ForeignCodeError as error:
        print(error)
print(calls.lazy.compile("f8(f8)") is not None)
"""
    (place / "main.py").write_text(program)
    outcome = proc.run(["main.py"], None, cwd=place)
    assert outcome.status == 0, outcome.stderr
    first, second, compiled = outcome.stdout.splitlines()
    assert "eager is called" in first and "lazy is called" in second and "avx2" in first
    assert compiled == "True"


FOLDED = """
import math
from numba import njit
@njit
def f():
    return math.sin(21.549), math.exp(8.911), math.asin(0.273), math.pow(3.75, -0.35)
print(*f())
"""
NO_FUSING = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-FMA,-FMA4"}


@pytest.mark.long
@needs_x86
def test_what_llvm_computes_with_the_c_library_is_what_it_would_be_here(place):
    """A host without fused multiplication has other sines; code for a level that it has may have been made elsewhere."""
    level = {"NUMBA_CPU_NAME": "x86-64-v2", "NUMBA_CPU_FEATURES": ""}
    (place / "plain.py").write_text(FOLDED)
    here, there = (proc.run(["plain.py"], None, {**level, **more}, cwd=place).stdout for more in ({}, NO_FUSING))
    if here == there:
        pytest.skip("this C library computes the same with and without")
    for said, more in ((here, {}), (there, NO_FUSING), (here, {}), (there, NO_FUSING)):
        assert run(place, FOLDED, "x86-64-v2", **more)[0] == [said.rstrip("\n")]
    assert run(place, FOLDED, "x86-64-v2", **NO_FUSING)[1]["builds_count"] == 0


@pytest.mark.long
@needs_x86
@needs_high
def test_what_another_host_chose_is_no_choice_of_this_one(place):
    """Batch systems pass the environment on, and with it what nbcache told Numba on a host that has more."""
    level = {"NUMBA_CPU_NAME": "x86-64-v4", "NUMBA_CPU_FEATURES": ""}
    tell = "import os\nprint(os.environ.get('NUMBA_CPU_NAME'))\n"
    said, _, told = run(place, STRICT + tell, "v4", before=WITHOUT_AVX512, **level)
    assert said == ["7.0", "None"]
    assert "has no avx512" in told and "compiled for this host's processor" in told
    assert run(place, STRICT + tell, "v4", **level)[0] == ["7.0", "x86-64-v4"]
