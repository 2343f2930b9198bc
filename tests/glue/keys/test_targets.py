"""What code may use, and whose code a process may take: on hosts that this one isn't."""

import os
import subprocess
import sys
from types import SimpleNamespace

import llvmlite.binding as llvm
import pytest

from nbcache import hosts
from nbcache.glue.keys import targets
from nbcache.glue.publishing import target

CPUINFO = "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp ssbs"
GRAVITON2 = frozenset(CPUINFO.split())
LLVMS_ACCOUNT = {"aes": True, "crc": True, "fp-armv8": True, "lse": True, "neon": True, "sha2": True, "sve": False}
LEVELS = ("neoverse-v1", "neoverse-n1", "generic", "x86-64-v2")
NEEDED_BY_N1 = ("asimd", "asimddp", "asimdhp", "asimdrdm", "atomics", "crc32", "fp", "fphp", "lrcpc")


@pytest.fixture
def compiles_for(monkeypatch):
    """Make this an AArch64 host, a Graviton2, whose process compiles for a processor with features more or less."""
    features = ",".join(("+" if present else "-") + name for name, present in LLVMS_ACCOUNT.items())

    def host(cpu="neoverse-n1", told=features, kernels=GRAVITON2):
        monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine="aarch64"))
        monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: LLVMS_ACCOUNT)
        monkeypatch.setattr(llvm, "get_host_cpu_name", lambda: "neoverse-n1")
        monkeypatch.setattr(hosts, "features", lambda: kernels)
        monkeypatch.setattr(targets, "_magic", lambda: ("aarch64-unknown-linux-gnu", cpu, told))

    return host


def test_an_arm_host_takes_the_code_of_its_own_name(compiles_for):
    compiles_for()
    assert targets.lower(LEVELS) == ("neoverse-n1", "generic")
    compiles_for("neoverse-n1", "")
    assert targets.lower(LEVELS) == ("generic",)
    compiles_for("generic", "")
    assert targets.lower(LEVELS) == ()


def test_an_arm_host_that_hides_something_takes_less(compiles_for):
    compiles_for(kernels=GRAVITON2 - {"asimddp"})
    assert targets.lower(LEVELS) == ("generic",)
    assert targets.lacks("neoverse-n1") == ["dotprod"]


def test_a_processor_of_another_machine_is_refused(compiles_for):
    compiles_for()
    assert targets.choose("haswell") == f"this machine is {targets.platform.machine()}"


def test_code_of_an_arm_host_says_what_a_node_needs(compiles_for):
    compiles_for()
    # LLVM goes by the processor's name: most of these it doesn't tell.
    assert set(NEEDED_BY_N1) <= set(target.needed_features())
    compiles_for("neoverse-n1", "")
    assert target.needed_features() == NEEDED_BY_N1
    compiles_for("generic", "")
    assert target.needed_features() == ("asimd", "fp")


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="processors of x86-64")
def test_code_for_a_level_needs_that_level_alone():
    program = "from nbcache.glue.publishing import target; print(*target.needed_features())"
    level = {"NUMBA_CPU_NAME": "x86-64-v2", "NUMBA_CPU_FEATURES": ""}

    def needed(more):
        done = subprocess.run([sys.executable, "-c", program], env=os.environ | more, capture_output=True, check=True)
        return set(done.stdout.decode().split())

    assert "sse4_2" in needed(level) and not any(name.startswith("avx") for name in needed(level))
    assert needed(level) < needed({})
