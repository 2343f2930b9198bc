"""Images: made by the system's linker, opened without anything being looked up in them."""

import ctypes
import importlib.util
import json
import os
import shutil
import struct
import subprocess
from pathlib import Path

import numba
import numpy as np
import pytest
from nbtest import disks, proc
from nbtest.checked import builtin, resolve_all, type_data
from numba.core.environment import lookup_environment

from nbcache import elf
from nbcache.errors import ImageError
from nbcache.glue.publishing import image, native_check, shared_object
from nbcache.protocol.manifests import image_facts
from nbcache.published import images

CALL = "nbtest_call"
RELRO = 0x6474E552


def slow(*args, **keywords):
    raise TypeError(f"{args} {keywords}")


def compiled(source, *signatures, **names):
    """A function of Numba's from source: a new one each time."""
    exec(source, names := {"numba": numba, "np": np, **names})
    return numba.njit(list(signatures))(names["f"])


def built(*functions):
    """An image of several functions, and the symbols of their environments by address."""
    bitcodes, checks, environments = [], [], {}
    entries = []
    for number, function in enumerate(functions):
        overloads = []
        for signature, result in function.overloads.items():
            entry = result.fndesc.llvm_cpython_wrapper_name
            overloads.append(native_check.Overload([type_data(parameter) for parameter in signature], entry))
            bitcodes.append(result.library._final_module.as_bitcode())
            environments[result.fndesc.env_name] = lookup_environment(result.fndesc.env_name)
            entries.append(entry)
        checks.append(native_check.dispatch_ir(overloads, f"{CALL}_{number}"))
    keep = {*(f"{CALL}_{number}" for number in range(len(functions))), *entries, *environments}
    return image.build(bitcodes, checks, keep), environments


def opened(made, environments, path=None, loader=images):
    """Open an image, and return its functions."""
    found = loader.open_image(made.code, made.facts, resolve_all, path)
    found.stay()
    for symbol, environment in environments.items():
        ctypes.c_void_p.from_address(found.address(symbol)).value = id(environment)
    calls = sorted(symbol for symbol in made.facts.symbols if symbol.startswith(CALL))
    return [builtin(found.address(call), slow) for call in calls]


def written(folder, made):
    """The image's file, under a name that stands for its content."""
    path = folder / made.facts.digest
    path.write_bytes(made.code)
    return str(path)


@pytest.fixture(autouse=True)
def none_open(monkeypatch):
    """Each test opens its images itself."""
    monkeypatch.setattr(images, "_opened", {})


@pytest.fixture(scope="module")
def scaled():
    return built(compiled("def f(a, x):\n    return a * x", "(float64[::1], float64)", "(int64[::1], int64)"))


@pytest.mark.parametrize("in_memory", [False, True], ids=["file", "memory"])
def test_functions_of_an_image_do_what_they_did(tmp_path, in_memory):
    source = f"def f(a, x):\n    return a * x + {int(in_memory)}"
    made, environments = built(compiled(source, "(float64[::1], float64)", "(int64[::1], int64)"))
    (call,) = opened(made, environments, None if in_memory else written(tmp_path, made))
    assert call(np.arange(3.0), 2.0).tolist() == [in_memory, 2 + in_memory, 4 + in_memory]
    assert call(np.arange(3), 2).dtype == np.int64
    with pytest.raises(TypeError):
        call(np.arange(3), 2.0)
    mapped = [line for line in mappings() if made.facts.digest[:16] in line]
    assert mapped and all(("memfd:" in line) == in_memory for line in mapped)


def test_several_functions_may_share_an_image_and_what_they_call():
    source = "def f(x):\n    return inner(x) + {}"
    inner = compiled("def f(x):\n    return x * 2", "int64(int64)")
    made, environments = built(*(compiled(source.format(n), "int64(int64)", inner=inner) for n in range(3)), inner)
    assert [call(10) for call in opened(made, environments)] == [20, 21, 22, 20]


def test_recursion_stays_inside():
    names = {"numba": numba}
    exec("@numba.njit\ndef f(n):\n    return n if n < 2 else f(n - 1) + f(n - 2)", names)
    names["f"](5)
    made, environments = built(names["f"])
    (call,) = opened(made, environments)
    assert call(20) == 6765
    assert not any("unresolved" in symbol for _, symbol, _ in made.facts.slots)


def test_an_image_has_no_code_that_nothing_in_it_calls():
    made, _ = built(compiled("def f(x):\n    return x * 2", "int64(int64)"))
    names = {symbol.name for symbol in elf.Elf(made.code).symbols(elf.SYMBOL_TABLE)}
    assert any(name.startswith("_ZN7cpython") for name in names)
    assert not any(name.startswith("cfunc.") for name in names), names


def test_exceptions_of_several_kinds_pass():
    source = "def f(k):\n    if k == 1:\n        raise KeyError('one', k)\n    assert k != 2\n    return 1 / k"
    (call,) = opened(*built(compiled(source, "float64(int64)")))
    assert call(4) == 0.25
    for number, kind in ((0, ZeroDivisionError), (1, KeyError), (2, AssertionError)):
        with pytest.raises(kind):
            call(number)


def test_nothing_in_an_image_is_looked_up_and_its_names_are_there(tmp_path, scaled):
    made = scaled[0]
    assert {symbol for _, symbol, _ in made.facts.slots} >= {
        "PyFloat_Type",
        "nbcache.numpy.ndarray",
        "NRT_MemInfo_alloc_aligned",
    }
    file = elf.Elf(made.code)
    relocations = [
        info
        for section in file.sections
        if section.kind == elf.RELOCATIONS
        for _, info, _ in shared_object._RELOCATION.iter_unpack(file.content(section))
    ]
    assert len(relocations) >= len(made.facts.slots)
    assert {info >> 32 for info in relocations} == {0}  # none by name
    exported = [symbol.name for symbol in file.symbols(elf.DYNAMIC_SYMBOLS) if symbol.section]
    assert exported == [made.facts.anchor]
    names = [symbol.name for symbol in file.symbols(elf.SYMBOL_TABLE) if symbol.section]
    assert any(name.startswith("_ZN7cpython") for name in names) and f"{CALL}_0" in names
    # The C library, which knows none of its symbols, opens it.
    program = f"import ctypes\nctypes.CDLL({written(tmp_path, made)!r}, 2)"
    assert proc.run(["-c", program]).said == (0, "")


def mappings():
    return Path("/proc/self/maps").read_text().splitlines()


def protection_of(address):
    for line in mappings():
        start, end = (int(each, 16) for each in line.split()[0].split("-"))
        if start <= address < end:
            return line.split()[1]
    return None


def test_slots_can_not_be_written_to_once_they_are_filled(scaled):
    opened(*scaled)
    base = images._opened[scaled[0].facts.digest].base
    assert {protection_of(base + offset) for offset, _, _ in scaled[0].facts.slots} == {"r--p"}
    assert protection_of(base + scaled[0].facts.symbols[f"{CALL}_0"]) == "r-xp"


def test_images_in_memory_are_not_mistaken_for_one_another():
    # Each gets the descriptor that the one before had, and the C library goes by the path.
    sources = [f"def f(x):\n    return x + {number}" for number in range(20)]
    calls = [opened(*built(compiled(source, "int64(int64)")))[0] for source in sources]
    assert [call(100) for call in calls] == list(range(100, 120))


def test_images_in_memory_of_several_loaders_are_not_mistaken_for_one_another():
    # Each wheel has its own copy of the module.
    calls = []
    for number in range(5):
        spec = importlib.util.spec_from_file_location(f"loader_{number}", images.__file__)
        loader = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loader)
        made, environments = built(compiled(f"def f(x):\n    return x + {number}", "int64(int64)"))
        calls += opened(made, environments, loader=loader)
    assert [call(100) for call in calls] == list(range(100, 105))


def test_a_path_is_taken_as_it_is(tmp_path, scaled):
    # The C library would look in the directory of whoever opens it.
    (tmp_path / "$ORIGIN").mkdir()
    path = written(tmp_path / "$ORIGIN", scaled[0])
    (call,) = opened(*scaled, path)
    assert call(np.arange(3), 2).tolist() == [0, 2, 4]


def test_another_image_in_the_place_of_one_is_noticed(tmp_path, scaled):
    other, _ = built(compiled("def f(x):\n    return x", "int64(int64)"))
    path = tmp_path / scaled[0].facts.digest
    path.write_bytes(other.code)
    with pytest.raises(ImageError, match="can't be mapped"):
        images.open_image(scaled[0].code, scaled[0].facts, resolve_all, str(path))


@pytest.mark.parametrize("size", [0, 1, 64, 4096, -1])
def test_a_truncated_image_is_never_mapped(scaled, size):
    code, facts = scaled[0].code[:size], scaled[0].facts
    with pytest.raises(ImageError, match=f"has {len(code)} bytes instead of {facts.size}"):
        images.open_image(code, facts, resolve_all)


def test_a_store_without_execute_permission_is_no_obstacle(tmp_path, scaled):
    with disks.small_disk(tmp_path / "noexec", "1m", "noexec") as disk:
        path = written(disk, scaled[0])
        with pytest.raises(OSError, match="map segment"):
            ctypes.CDLL(path)
        (call,) = opened(*scaled, path)
        assert call(np.arange(3.0), 2.0).tolist() == [0, 2, 4]


def test_a_file_that_went_away_after_it_was_read_is_no_obstacle(tmp_path, scaled):
    (call,) = opened(*scaled, str(tmp_path / "gone"))
    assert call(np.arange(3.0), 2.0).tolist() == [0, 2, 4]


def test_the_dynamic_linker_makes_nothing_read_only_and_filled_slots_are(tmp_path, scaled):
    image, facts = scaled[0]
    (table,), (size, count) = struct.unpack_from("<Q", image, 0x20), struct.unpack_from("<HH", image, 0x36)
    kinds = {struct.unpack_from("<I", image, table + index * size)[0] for index in range(count)}
    assert RELRO not in kinds
    start, size = facts.sealed
    assert size and start <= facts.slots[0][0] < start + size
    path = written(tmp_path, scaled[0])
    found = images.open_image(image, facts, resolve_all, path)
    place = found.base + facts.slots[0][0]
    with open("/proc/self/maps") as file:
        ranges = [(line.split()[0].split("-"), line.split()[1]) for line in file]
    (rights,) = [rights for (low, high), rights in ranges if int(low, 16) <= place < int(high, 16)]
    assert rights.startswith("r--"), rights


def test_two_versions_are_two_functions(tmp_path):
    versions = [built(compiled(f"def f(x):\n    return x * {number}", "float64(float64)")) for number in (2, 3)]
    two, three = (opened(*version, written(tmp_path, version[0]))[0] for version in versions)
    assert [two(10.0), three(10.0), two(1.0)] == [20, 30, 2]


def test_an_image_is_opened_once(tmp_path, scaled):
    asked = []

    def counted(symbols):
        found = resolve_all(symbols)
        asked.extend(found)
        return found

    path = written(tmp_path, scaled[0])
    found = [images.open_image(*scaled[0], counted, path) for _ in range(3)]
    assert len(set(map(id, found))) == 1
    assert sorted(asked) == sorted({symbol for _, symbol, _ in scaled[0].facts.slots})


def test_a_child_goes_on_with_what_its_parent_opened(tmp_path, scaled):
    (call,) = opened(*scaled, written(tmp_path, scaled[0]))
    child = os.fork()
    if not child:
        os._exit(int(call(np.arange(3.0), 2.0).sum()))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 6
    assert call(np.arange(3.0), 2.0).sum() == 6


def test_an_error_while_slots_are_resolved_passes_and_may_be_overcome(scaled):
    def missing(symbols):
        raise LookupError(*symbols)

    with pytest.raises(LookupError):
        images.open_image(*scaled[0], missing)
    (call,) = opened(*scaled)
    assert call(np.arange(3.0), 2.0).sum() == 6


def test_a_symbol_that_is_not_kept_is_asked_for_in_vain(scaled):
    found = images.open_image(*scaled[0], resolve_all)
    with pytest.raises(ImageError, match="doesn't say where printf is"):
        found.address("printf")


def test_without_a_linker_there_is_no_image(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert image.linker() is None
    with pytest.raises(ImageError, match="no linker was found in PATH"):
        built(compiled("def f(x):\n    return x", "int64(int64)"))


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo first >&2; echo it is broken >&2; exit 1", "failed: it is broken"),
        ("exit 1", "failed: it said nothing"),
        ("exit 0", "couldn't be run"),
        ('while [ "$1" != -o ]; do shift; done; echo text > "$2"', "something else than a shared object"),
        ('while [ "$1" != -o ]; do shift; done; cp "$3" "$2"', "no shared object of a kind"),
    ],
)
def test_a_linker_that_fails_is_an_error(monkeypatch, tmp_path, script, said):
    linker = tmp_path / "ld"
    linker.write_text(f"#!/bin/sh\n{script}\n")
    linker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(ImageError, match=said):
        built(compiled("def f(x):\n    return x", "int64(int64)"))


@pytest.mark.parametrize("name", ["ld", "ld.lld", "ld.bfd", "cc", "gcc", "clang"])
def test_every_linker_will_do(monkeypatch, name):
    monkeypatch.setattr(image, "_LINKERS", (name,))
    if image.linker() is None:
        pytest.skip(f"there is no {name}")
    made = built(compiled("def f(a):\n    return a.sum() + 1", "float64(float64[::1])"))
    assert opened(*made)[0](np.arange(4.0)) == 7
    assert made[0].facts.sealed[1]


def test_a_symbol_to_be_kept_that_is_not_there_is_an_error():
    with pytest.raises(ImageError, match="left out nothing_like_it"):
        image.build([], [native_check.dispatch_ir([], CALL)], ["nothing_like_it"])


def test_functions_that_call_each_other_may_share_an_image():
    names = {"numba": numba}
    exec(
        "@numba.njit\ndef g(n):\n    return 0 if n < 1 else f(n - 1) + 1\n"
        "@numba.njit\ndef f(n):\n    return 0 if n < 1 else g(n - 1) + 1",
        names,
    )
    names["f"](3)
    (call,) = opened(*built(names["f"]))
    assert call(50) == 50


def test_debuggers_and_profilers_find_the_names(tmp_path, scaled):
    if shutil.which("gdb") is None:
        pytest.skip("there is no gdb")
    path = written(tmp_path, scaled[0])
    command = ["gdb", "-batch", "-nx", "-ex", f"info functions {CALL}", "-ex", "info functions cpython", path]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"{CALL}_0" in said.stdout and "cpython::" in said.stdout


def test_facts_survive_the_manifest(scaled):
    facts = scaled[0].facts
    assert image_facts(json.loads(json.dumps(facts._asdict()))) == facts
