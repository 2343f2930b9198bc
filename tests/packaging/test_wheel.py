"""What is in the wheel and in the source distribution."""

import tarfile
import zipfile
from email import message_from_bytes

from bare import ROOT


def names_in(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def read(wheel, suffix):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(suffix))
        return archive.read(name)


def test_the_switch_is_one_line_at_the_root(wheel):
    names = names_in(wheel)
    assert "nbcache.pth" in names
    assert "nbcache/nbcache.pth" not in names
    text = read(wheel, "nbcache.pth").decode()
    assert text.startswith("import ")
    assert text.count("\n") == 1
    assert text.endswith("\n")


def test_the_package_is_complete_and_nothing_else_is_installed(wheel):
    names = names_in(wheel)
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "nbcache").rglob("*.py")}
    assert modules <= names
    assert "nbcache/py.typed" in names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"_nbcache.py", "nbcache", "nbcache.pth"}


def test_the_units_are_there_and_their_script_can_be_run(wheel):
    files = {path.name for path in (ROOT / "systemd").iterdir()}
    with zipfile.ZipFile(wheel) as archive:
        found = {info.filename.rpartition("/")[2]: info for info in archive.infolist() if "/systemd/" in info.filename}
    assert set(found) == files
    assert {info.filename.split(".data/")[1].rpartition("/")[0] for info in found.values()} == {
        "data/share/nbcache/systemd"
    }
    assert found["install"].external_attr >> 16 & 0o111


def test_entry_points(wheel):
    text = read(wheel, "entry_points.txt").decode()
    assert "[console_scripts]\nnbcache = nbcache.cli.main:main\n" in text
    assert "[numba_extensions]\ninit = _nbcache:extend\n" in text


def test_metadata(wheel):
    metadata = message_from_bytes(read(wheel, "METADATA"))
    assert metadata["License-Expression"] == "BSD-2-Clause"
    assert metadata["Requires-Python"] == ">=3.10"
    required = [name for name in metadata.get_all("Requires-Dist") if "extra ==" not in name]
    assert sorted(name.split(">")[0].split("<")[0].split(";")[0] for name in required) == [
        "filelock",
        "llvmlite",
        "numba",
        "numpy",
        "tomli",
        "watchdog",
    ]


def test_a_wheel_built_from_the_source_distribution_is_the_same(build, wheel, tmp_path):
    with tarfile.open(build("sdist")) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    assert (unpacked / "scripts" / "test").stat().st_mode & 0o100
    assert names_in(build("wheel", unpacked)) == names_in(wheel)
