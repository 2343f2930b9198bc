"""The units and what installs them. What needs a running systemd is in scripts/systemd-nspawn."""

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from nbcache import config
from nbcache.store import atomic, layout, tree

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "systemd"
UNITS = ("nbcached.service", "nbcached@.service")
MAX_EXPOSURE = 20
"""Tenths, as ``systemd-analyze security --threshold=`` takes them."""

needs_analyze = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze isn't installed")


def parse(text):
    """A unit's assignments, [(section, name, value)], in the grammar of systemd.syntax(7) without continuations."""
    section, found = None, []
    for line in text.splitlines():
        if not line.strip() or line.startswith(("#", ";")):
            continue
        heading = re.fullmatch(r"\[([A-Za-z]+)\]", line)
        if heading:
            section = heading[1]
            continue
        name, equals, value = line.partition("=")
        assert equals and section and re.fullmatch("[A-Za-z]+", name), line
        assert not value.endswith("\\"), line
        found.append((section, name, value))
    return found


def values(path, name):
    return [value for _, found, value in parse(path.read_text()) if found == name]


@pytest.mark.parametrize("unit", UNITS)
def test_what_the_daemon_relies_on(unit):
    path = FOLDER / unit
    assert {section for section, _, _ in parse(path.read_text())} == {"Unit", "Service", "Install"}
    assert values(path, "Type") == ["notify"]
    assert values(path, "ExecStart")[0].split()[1:] == ["serve"]
    assert "HUP" in values(path, "ExecReload")[0]
    assert int(values(path, "WatchdogSec")[0]) > 0
    assert int(values(path, "TimeoutStopSec")[0]) == 15
    assert values(path, "ProtectSystem") == ["strict"]
    assert values(path, "OOMPolicy") == ["continue"]
    # What jobs start is bounded, and what they are confined by is allowed (nbcache/daemon/confinement.py).
    assert int(values(path, "TasksMax")[0]) > 0
    assert values(path, "MemoryMax")[0].endswith("%")
    assert set(values(path, "RestrictNamespaces")[0].split()) == {"user", "mnt", "pid", "ipc", "net"}
    allowed = {each for value in values(path, "SystemCallFilter") for each in value.split()}
    assert {"mount", "mount_setattr", "capset", "prlimit64"} <= allowed


def test_the_template_differs_in_names_alone():
    single, template = (parse((FOLDER / unit).read_text()) for unit in UNITS)
    different = [(one[1], one[2], other[2]) for one, other in zip(single, template, strict=True) if one != other]
    assert different == [
        ("Description", "Compile daemon of nbcache", "Compile daemon of nbcache for %i"),
        ("EnvironmentFile", "/etc/nbcache/nbcache.conf", "/etc/nbcache/%i.conf"),
        ("StateDirectory", "nbcache", "nbcache-%i"),
    ]


def environment_file(text):
    """The assignments of an EnvironmentFile; comments that are assignments but for their # as well."""
    lines = (line.removeprefix("#") for line in text.splitlines() if not line.startswith("# "))
    return dict(line.split("=", 1) for line in lines if line)


def test_the_example_names_settings_that_exist():
    found = environment_file((FOLDER / "nbcache.conf").read_text())
    assert found.pop("NBCACHE_DIR").startswith("/")
    assert config.unknown_variables(found) == []
    settings = config.load(found)
    assert settings.problems == ()
    assert settings.max_size == config.DEFAULT_MAX_SIZE


def test_the_directories_are_those_of_a_store(tmp_path):
    made = tmp_path / "store"
    assert tree.make_root(str(made))
    tree.make_tree(str(made))
    modes = {
        str(path.relative_to(made)): stat.S_IMODE(path.stat().st_mode)
        for path in [made, *made.rglob("*")]
        if path.is_dir()
    }
    lines = [line.split() for line in (FOLDER / "nbcache.tmpfiles.conf").read_text().splitlines() if line[0] != "#"]
    assert {(kind, user, group) for kind, _, _, user, group in lines} == {("d", ":nbcache", ":nbcache")}
    told = {
        os.path.relpath(path, "/var/cache/nbcache"): int(mode.removeprefix(":"), 8) for _, path, mode, _, _ in lines
    }
    assert told == {name: mode for name, mode in modes.items() if name != "v1/objects"}


# The script that installs.


def run(destdir, *arguments, **environ):
    clean = {"PATH": os.environ["PATH"], "DESTDIR": str(destdir), **environ}
    command = [FOLDER / "install", *arguments]
    return subprocess.run(command, env=clean, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=600)


def contents(folder):
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "bin" / "nbcache"
    path.parent.mkdir()
    path.write_text(f"#!{sys.executable}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def installed(tmp_path, program):
    """A tree with the daemon of one store and of one team installed."""
    destdir = tmp_path / "dest"
    (destdir / "etc/nbcache").mkdir(parents=True)
    (destdir / "etc/nbcache/physics.conf").write_text('NBCACHE_DIR=/old\nNBCACHE_DIR="/shared/physics" \n')
    done = run(destdir, "--nbcache", str(program), "--uid", "987")
    assert (done.returncode, done.stderr) == (0, "")
    return destdir


def test_installing(installed, program):
    files = contents(installed)
    assert set(files) == {
        "etc/nbcache/nbcache.conf",
        "etc/nbcache/physics.conf",
        "etc/systemd/system/nbcached.service",
        "etc/systemd/system/nbcached.service.d/50-store.conf",
        "etc/systemd/system/nbcached@.service",
        "etc/systemd/system/nbcached@physics.service.d/50-store.conf",
        "etc/sysusers.d/nbcache.conf",
        "etc/tmpfiles.d/nbcache.conf",
        "etc/tmpfiles.d/nbcache-physics.conf",
    }
    for unit in UNITS:
        assert f"\nExecStart={program} serve\n" in files[f"etc/systemd/system/{unit}"]
    assert parse(files["etc/systemd/system/nbcached@physics.service.d/50-store.conf"]) == [
        ("Unit", "RequiresMountsFor", "/shared/physics"),
        ("Service", "ReadWritePaths", "/shared/physics"),
    ]
    assert "\nd /shared/physics/v1/requests  :1777" in files["etc/tmpfiles.d/nbcache-physics.conf"]
    assert "\nu nbcache 987 " in files["etc/sysusers.d/nbcache.conf"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in installed.rglob("*") if path.is_file()} == {0o644}


def test_installing_again_follows_the_settings_and_keeps_them(installed, program):
    (installed / "etc/nbcache/nbcache.conf").write_text("NBCACHE_DIR=/elsewhere\n")
    before = contents(installed)
    done = run(installed, "--nbcache", str(program), "--uid", "987")
    assert done.returncode == 0
    after = contents(installed)
    assert {name for name in after if before[name] != after[name]} == {
        "etc/systemd/system/nbcached.service.d/50-store.conf",
        "etc/tmpfiles.d/nbcache.conf",
    }
    written = [line for line in done.stdout.splitlines() if line.startswith("written: ")]
    assert len(written) == 2
    assert "ReadWritePaths=/elsewhere\n" in after["etc/systemd/system/nbcached.service.d/50-store.conf"]
    done = run(installed, "--nbcache", str(program), "--uid", "987")
    assert "written" not in done.stdout
    assert contents(installed) == after


def test_uninstalling_leaves_the_settings(installed):
    done = run(installed, "--uninstall")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("removed: ") == 7
    assert set(contents(installed)) == {"etc/nbcache/nbcache.conf", "etc/nbcache/physics.conf"}
    assert not list(installed.rglob("*.service.d"))
    assert run(installed, "--uninstall").returncode == 0


def test_a_prefix(tmp_path, program):
    assert run(tmp_path / "dest", "--nbcache", str(program), PREFIX="/usr").returncode == 0
    assert {name.rpartition("/")[0] for name in contents(tmp_path / "dest")} == {
        "etc/nbcache",
        "usr/lib/systemd/system",
        "usr/lib/systemd/system/nbcached.service.d",
        "usr/lib/sysusers.d",
        "usr/lib/tmpfiles.d",
    }


def test_the_program_is_found_beside_the_package_or_on_the_path(tmp_path, program):
    done = run(tmp_path / "dest", PATH=f"{program.parent}:{os.environ['PATH']}")
    assert done.returncode == 0
    assert f"ExecStart={program} " in contents(tmp_path / "dest")["etc/systemd/system/nbcached.service"]
    # As a wheel lays it out.
    share = tmp_path / "share" / "nbcache" / "systemd"
    shutil.copytree(FOLDER, share)
    environ = {"PATH": os.environ["PATH"], "DESTDIR": str(tmp_path / "other")}
    subprocess.run([share / "install"], env=environ, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    assert f"ExecStart={program} " in contents(tmp_path / "other")["etc/systemd/system/nbcached.service"]


@pytest.mark.parametrize(
    ("arguments", "settings", "status", "said"),
    [
        (["--nbcache", "/nonexistent"], None, 1, "not a program: /nonexistent"),
        (["--nbcache", "/etc/passwd"], None, 1, "not a program: /etc/passwd"),
        (["--nbcache"], None, 2, "--nbcache needs a value"),
        (["--uid", "abc"], None, 2, "--uid: not a number: abc"),
        (["--frobnicate"], None, 2, "unknown argument: --frobnicate (try --help)"),
        ([], "NBCACHE_MAX_SIZE=5GiB\n", 1, "doesn't say NBCACHE_DIR="),
        ([], "NBCACHE_DIR=relative\n", 1, "isn't absolute: relative"),
        ([], "NBCACHE_DIR=/a b|c\n", 1, "has characters that this script doesn't take: /a b|c"),
        ([], "NBCACHE_DIR=/a%n\n", 1, "has characters that this script doesn't take: /a%n"),
        *(
            ([], f"NBCACHE_DIR={store}\n", 1, f"choose another place, such as /var/cache: {store}")
            for store in (
                "/tmp",
                "/tmp/store",
                "/var/tmp/store",
                "/home/me/store",
                "/root/x",
                "/dev/shm/x",
                "/run/user/1",
            )
        ),
    ],
)
def test_what_cannot_be_installed_is_one_line(tmp_path, program, arguments, settings, status, said):
    destdir = tmp_path / "dest"
    if settings is not None:
        (destdir / "etc/nbcache").mkdir(parents=True)
        (destdir / "etc/nbcache/nbcache.conf").write_text(settings)
    done = run(destdir, *(arguments or ["--nbcache", str(program)]))
    assert done.returncode == status
    assert done.stderr.startswith("systemd/install: ")
    assert done.stderr.count("\n") == 1
    assert said in done.stderr


def test_a_place_that_cannot_be_written_is_one_line(tmp_path, program):
    (tmp_path / "dest").write_text("")
    done = run(tmp_path / "dest", "--nbcache", str(program))
    assert done.returncode == 1
    assert re.fullmatch(r"systemd/install: can't make .*\n", done.stderr)


def test_help():
    done = run("/nonexistent", "--help")
    assert done.returncode == 0
    assert "--uninstall" in done.stdout
    assert "#" not in done.stdout


# What systemd says of them.


def analyze(*arguments, **environ):
    command = ["systemd-analyze", *map(str, arguments)]
    return subprocess.run(command, env={**os.environ, **environ}, capture_output=True, text=True, timeout=600)


@needs_analyze
@pytest.mark.parametrize("unit", ["nbcached.service", "nbcached@physics.service"])
def test_verify(installed, unit):
    folder = installed / "etc/systemd/system"
    path = folder / unit
    if not path.exists():
        shutil.copy(folder / "nbcached@.service", path)
    # This system's units behind the installed ones, for the targets they name; the drop-ins are found by this path.
    done = analyze("verify", "--man=no", path, SYSTEMD_UNIT_PATH=f"{folder}:")
    complaints = [line for line in (done.stdout + done.stderr).splitlines() if "nbcache" in line]
    assert complaints == []
    assert done.returncode == 0


@needs_analyze
@pytest.mark.parametrize("unit", UNITS)
def test_exposure(unit):
    done = analyze("security", "--offline=true", f"--threshold={MAX_EXPOSURE}", FOLDER / unit)
    assert done.returncode == 0, done.stdout + done.stderr
    assert float(re.search(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)[1]) * 10 <= MAX_EXPOSURE


# What the units' restrictions mean for the store.


def test_a_set_group_id_directory_does_without_what_the_unit_forbids(tmp_path, monkeypatch):
    """RestrictSUIDSGID= denies chmod with a set-group-id bit, also with one that was inherited."""
    os.chmod(tmp_path, 0o2755)

    def fchmod(fd, mode):
        if mode & stat.S_ISGID:
            raise PermissionError
        os.fchmod(fd, mode)

    monkeypatch.setattr(atomic.SYS, "fchmod", fchmod, raising=False)
    old = os.umask(0o022)
    try:
        assert atomic.make_directory(str(tmp_path / "ab"))
        assert atomic.make_directory(str(tmp_path / "requests"), layout.DROP_MODE)
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "ab").stat().st_mode) == 0o2755
    assert stat.S_IMODE((tmp_path / "requests").stat().st_mode) == 0o1777
