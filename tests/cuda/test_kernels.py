"""Kernels of numba-cuda: the second process runs no front end, no NVVM, no NVRTC and no linker, and has the same code.

There is no GPU: what a launch would execute is compared. The compilers and the linker are NVIDIA's own.
"""

import os

import pytest
from cuda_programs import HEAD, PROGRAMS, UNCACHEABLE
from nbtest.kernels import needs_numba_cuda, needs_two_capabilities, run

pytestmark = needs_numba_cuda

CAPABILITIES = ["7.5", "8.0", "8.9", "9.0", "12.0"]
# Functions of numba-cuda's that an earlier program of the process used, under other options, become part of its code.
ALONE = {"debug"}
QUICK = ["eager", "device-function", "device-function-eager", "njit-callee", "cooperative", "linked-cuda"]


def check(programs, folder, cc):
    """Run *programs* with no cache, with an empty one, and with the one that this leaves."""
    plain = run(programs, folder / "programs", cc=cc)
    cold = run(programs, folder / "programs", cc=cc, store=folder / "store")
    warm = run(programs, folder / "programs", cc=cc, store=folder / "store")
    problems = []
    for name in programs:
        expected = plain["programs"][name]
        assert not expected["failure"], expected["failure"]
        assert expected["runs"].get("NVVM"), f"{name} compiles nothing"
        for kind, report in (("cold", cold), ("warm", warm)):
            found = report["programs"][name]
            if found["failure"] or found["launched"] != expected["launched"]:
                problems.append(f"{name}, {kind}: {found['failure'] or 'other code'}")
            elif found["arrays"] != expected["arrays"]:
                problems.append(f"{name}, {kind}: other results")
        if name not in UNCACHEABLE and warm["programs"][name]["runs"]:
            problems.append(f"{name} ran {warm['programs'][name]['runs']}")
    refused = cold["stats"]["uncacheable"]
    assert set(refused) == {UNCACHEABLE[name] for name in programs if name in UNCACHEABLE}
    assert not cold["stats"]["errors"]
    assert not warm["stats"]["errors"]
    assert not warm["stats"]["misses"]
    assert not problems, "\n".join(problems)
    return warm


def test_the_second_process_builds_no_kernel(tmp_path):
    check({name: PROGRAMS[name] for name in QUICK}, tmp_path, "9.0")


@pytest.mark.parametrize("name", ["linked-cuda", "njit-callee-afterwards"])
def test_where_nothing_came_before(name, tmp_path):
    check({name: PROGRAMS[name]}, tmp_path, "9.0")


@pytest.mark.long
@pytest.mark.parametrize("cc", CAPABILITIES)
def test_every_kind_of_program_for_every_capability(cc, tmp_path):
    programs = {name: text for name, text in PROGRAMS.items() if name not in ALONE}
    assert len(programs) >= 40
    check(programs, tmp_path, cc)


@pytest.mark.long
@pytest.mark.parametrize("cc", CAPABILITIES)
@pytest.mark.parametrize("name", sorted(ALONE))
def test_what_shares_functions_with_others(name, cc, tmp_path):
    check({name: PROGRAMS[name]}, tmp_path, cc)


@needs_two_capabilities
def test_kernels_for_one_capability_are_no_use_to_another(tmp_path):
    program = {"lazy": PROGRAMS["lazy"]}
    run(program, tmp_path / "programs", cc="8.0", store=tmp_path / "store")
    found = run(program, tmp_path / "programs", cc="9.0", store=tmp_path / "store")
    assert found["programs"]["lazy"]["runs"]["nvJitLink"] == 1
    assert not found["stats"]["hits"]


def test_a_process_without_numba_cuda_imports_nothing_of_it(tmp_path):
    program = "import sys\nfrom numba import njit\nassert njit(lambda x: x + 1)(1) == 2\n"
    program += "assert not [name for name in sys.modules if name.startswith(('numba.cuda', 'nbcache.glue.cuda'))]\n"
    import subprocess
    import sys

    subprocess.run([sys.executable, "-c", program], env={**os.environ, "NBCACHE_DIR": str(tmp_path)}, check=True)


def test_what_is_looked_at_is_there(tmp_path):
    program = HEAD + (
        "@cuda.jit\ndef kernel(x):\n    x[0] = 1 / x[1]\n"
        "kernel[1, 1](a)\n"
        "(found,) = kernel.overloads.values()\n"
        "assert 'define' in found.inspect_llvm() and '.visible .entry' in found.inspect_asm((9, 0, 'a'))\n"
        "assert kernel.signatures and kernel.stats.cache_path\n"
        "import pickle\n"
        "state = found._codelibrary.__reduce__()\n"
        "assert 'nbcache' not in repr(state[1][0]), state[1][0]\n"
    )
    run({"looking": program}, tmp_path, store=tmp_path / "store")
    found = run({"looking": program}, tmp_path, store=tmp_path / "store")["programs"]["looking"]
    assert not found["failure"], found["failure"]
    assert not found["runs"]


def test_its_own_cache_is_not_used(tmp_path):
    program = HEAD + "@cuda.jit(cache=True)\ndef kernel(x):\n    x[0] = 1\nkernel[1, 1](a)\n"
    found = run({"own": program}, tmp_path, store=tmp_path / "store")
    assert not found["programs"]["own"]["failure"]
    assert not list((tmp_path / "__pycache__").glob("*.nbi")) if (tmp_path / "__pycache__").exists() else True


DEVICE_FUNCTION = '@cuda.jit("float32(float32)", device=True)\ndef tripled(v):\n    return v * 3\n'
KERNEL = "@cuda.jit\ndef kernel(x):\n    x[0] = {}\nkernel[1, 1](a)\n"


def test_a_device_function_that_was_found_and_forgotten_is_in_nobodys_way(tmp_path):
    text = HEAD + DEVICE_FUNCTION + "import gc\nheld = tripled.overloads[(float32,)]\ndel tripled\ngc.collect()\n"
    run({"forgetting": text}, tmp_path, store=tmp_path / "store")
    found = run({"forgetting": text + KERNEL.format(1)}, tmp_path, store=tmp_path / "store")["programs"]["forgetting"]
    assert not found["failure"], found["failure"]
    found = run({"holding": text + "held.library\n"}, tmp_path, store=tmp_path / "store")["programs"]["holding"]
    assert not found["failure"], found["failure"]


def test_a_library_is_linked_anew_with_all_that_it_links(tmp_path):
    text = HEAD + (
        "@cuda.jit\ndef kernel(x):\n    x[0] = x[1] * x[2]\n"
        "kernel[1, 1](np.ones(4, np.float16))\n"
        "(found,) = kernel.overloads.values()\n"
        "assert '_ZmlRK6__halfS1__nbst' not in found._codelibrary.get_lto_ptx((9, 0, 'a'))\n"
        "assert found._codelibrary.get_cubin((8, 0))\n"
    )
    run({"linking": text}, tmp_path, store=tmp_path / "store")
    found = run({"linking": text}, tmp_path, store=tmp_path / "store")
    assert not found["programs"]["linking"]["failure"], found["programs"]["linking"]["failure"]
    assert len(found["stats"]["hits"]) == 1


def test_who_asks_to_see_how_a_kernel_is_compiled_sees_it(tmp_path):
    text = HEAD + KERNEL.format(2)
    run({"seeing": text}, tmp_path, store=tmp_path / "store")
    found = run({"seeing": text}, tmp_path, store=tmp_path / "store", env={"NUMBA_DUMP_IR": "1"})
    assert found["programs"]["seeing"]["runs"]["NVVM"]
    assert list(found["stats"]["uncacheable"]) == ["NUMBA_DUMP_IR, which shows how it is compiled"]
