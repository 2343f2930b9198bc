"""The command line as a whole: run, config, doctor, exit statuses, and no tracebacks."""

import json
import os
import re
import subprocess
import sys

import pytest

import nbcache as package
from nbcache.cli import doctor
from nbcache.cli.doctor import OK, REMARK, WRONG
from nbcache.config import Settings


def test_version_and_help(nbcache):
    assert nbcache("--version").out == f"nbcache {package.__version__}\n"
    done = nbcache("--help")
    for command in ("run", "stats", "ls", "show", "why", "verify", "gc", "clear", "doctor", "config"):
        assert f"    {command} " in done.out
        assert nbcache(command, "--help").status == 0


@pytest.mark.parametrize(
    "argv", [[], ["frobnicate"], ["ls", "--wrong"], ["show"], ["stats", "--dir", ""], ["run"], ["run", "--"]]
)
def test_wrong_usage_is_2(nbcache, argv):
    done = nbcache(*argv)
    assert (done.status, done.out) == (2, "")
    assert "Traceback" not in done.err


def test_run_sets_the_directory_and_becomes_the_command(process, tmp_path):
    code = "import os, sys; print(os.environ['NBCACHE_DIR'], sys.argv[1:]); sys.exit(7)"
    done = process("run", "--dir", tmp_path / "store", "--", sys.executable, "-c", code, "--flag", "--")
    assert (done.status, done.out) == (7, f"{tmp_path / 'store'} ['--flag', '--']\n")
    done = process("run", sys.executable, "-c", code, NBCACHE_DIR=str(tmp_path / "other"))
    assert done.out == f"{tmp_path / 'other'} []\n"


def test_run_has_a_default_directory(process, tmp_path):
    done = process("run", "--", sys.executable, "-c", "import os; print(os.environ['NBCACHE_DIR'])")
    assert (done.status, done.out) == (0, f"{tmp_path}/home/.cache/nbcache\n")


def test_run_of_what_cannot_be_run(process, tmp_path):
    done = process("run", "--", "no-such-command-anywhere")
    assert (done.status, done.err) == (1, "nbcache: run: no such command: no-such-command-anywhere\n")
    (tmp_path / "data").write_text("")
    done = process("run", "--", tmp_path / "data")
    assert done.status == 1
    assert done.err == f"nbcache: run: can't run {tmp_path / 'data'}: Permission denied\n"


def test_config_says_where_each_value_came_from(nbcache, monkeypatch, tmp_path):
    monkeypatch.setenv("NBCACHE_MAX_SIZE", "2GiB")
    monkeypatch.setenv("NBCACHE_TRUSTED_UIDS", "1000,7")
    folder = tmp_path / "home" / ".config" / "nbcache"
    folder.mkdir(parents=True)
    (folder / "nbcache.toml").write_text('on_miss = "compile"\n')
    done = nbcache("config", "--dir", tmp_path)
    assert (done.status, done.err) == (0, "")
    rows = {line.split()[0]: line.split(None, 2)[1:] for line in done.out.splitlines()}
    assert rows["NBCACHE_DIR"] == [str(tmp_path), "--dir"]
    assert rows["NBCACHE_MAX_SIZE"][1] == "GiB  environment NBCACHE_MAX_SIZE" or "2.0 GiB" in done.out
    assert rows["NBCACHE_ON_MISS"] == ["compile", f"file {folder / 'nbcache.toml'}"]
    assert rows["NBCACHE_TRUSTED_UIDS"][0] == "7,1000"
    assert rows["NBCACHE_DISABLE"] == ["no", "default"]
    told = nbcache("config", "--json").json
    assert told["settings"]["max_size"] == {"value": 2 << 30, "source": "environment NBCACHE_MAX_SIZE"}
    assert told["problems"] == []


@pytest.mark.parametrize(("name", "words"), [("NAMESPACE", "-"), ("CHECK", "none"), ("WAIT_SECONDS", "30")])
def test_config_shows_defaults_as_they_are_written(nbcache, name, words):
    assert re.search(rf"^NBCACHE_{name} +{words} +default$", nbcache("config").out, re.MULTILINE)


def test_config_reports_what_it_cannot_read(nbcache, monkeypatch):
    monkeypatch.setenv("NBCACHE_WAIT_SECONDS", "soon")
    done = nbcache("config")
    assert done.status == 1
    assert done.err.count("\n") == 1
    assert "NBCACHE_WAIT_SECONDS='soon'" in done.err


def test_a_reader_that_leaves_is_no_error(filled):
    for number in range(300):
        filled.add(f"pkg:{'long' * 50}{number}")
    command = f"{sys.executable} -m nbcache ls --dir {filled.path} | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_fault_of_the_filesystem_is_one_line(filled, nbcache, monkeypatch):
    def fail(*_args):
        raise PermissionError(13, "Permission denied", "/somewhere")

    monkeypatch.setattr("nbcache.store.directory.Store.scan", fail)
    done = nbcache("stats", "--dir", filled.path)
    assert (done.status, done.out, done.err) == (1, "", "nbcache: /somewhere: Permission denied\n")


def levels(findings):
    return {finding.what: finding.level for finding in findings}


def test_doctor_on_a_store_in_order(filled, nbcache):
    filled.add()
    found = levels(doctor.check_store(Settings(dir=filled.path)))
    assert set(found.values()) <= {OK}
    assert {"directory", "filesystem", "free space", "trust", "writing", "entries"} <= set(found)
    done = nbcache("doctor", "--dir", filled.path)
    assert re.search(r"^  trusted users +root", done.out, re.MULTILINE), "names, since a 0 looks like a number of them"
    told = nbcache("doctor", "--dir", filled.path, "--json").json
    assert {"level", "what", "value", "advice"} == set(told[0])
    assert done.status == any(row["level"] == WRONG for row in told)


def test_doctor_says_what_is_wrong_with_a_store_and_what_to_do(filled, tmp_path):
    os.chmod(filled.path, 0o777)
    (finding,) = (f for f in doctor.check_store(Settings(dir=filled.path)) if f.level == WRONG)
    assert finding.what == "trust"
    assert "writable by others" in finding.value
    assert "chmod" in finding.advice
    (finding,) = doctor.check_store(Settings())
    assert (finding.level, "NBCACHE_DIR" in finding.advice) == (WRONG, True)
    (tmp_path / "file").write_text("")
    assert levels(doctor.check_store(Settings(dir=str(tmp_path / "file"))))["trust"] == WRONG


def test_doctor_on_a_store_that_is_not_there_yet(tmp_path):
    tmp_path.chmod(0o755)
    found = levels(doctor.check_store(Settings(dir=str(tmp_path / "a" / "b"))))
    assert found["store"] == OK
    assert not (tmp_path / "a").exists()
    tmp_path.chmod(0o777)
    assert levels(doctor.check_store(Settings(dir=str(tmp_path / "a" / "b"))))["trust"] == WRONG


def test_doctor_remarks(filled):
    filled.add(size=10_000)
    filled.record(errors={"unpickle": 2})
    found = levels(doctor.check_store(Settings(dir=filled.path, readonly=True, max_size=1000)))
    assert (found["writing"], found["entries"], found["errors"]) == (REMARK, REMARK, REMARK)


def test_doctor_on_settings(monkeypatch):
    monkeypatch.setenv("NBCACHE_DIRR", "x")
    settings = Settings(disable=True, recache=True, problems=("NBCACHE_LOG='x' ...",), sources={"disable": "here"})
    found = list(doctor.check_settings(settings))
    assert [f.level for f in found if f.what == "setting"] == [WRONG, REMARK, REMARK, REMARK]
    assert any("NBCACHE_DIRR" in f.value for f in found)


def test_doctor_without_a_switch(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor, "switch_places", lambda: [str(tmp_path)])
    (finding,) = doctor.check_switch(Settings())
    assert (finding.level, "nbcache.enable" in finding.advice) == (WRONG, True)


def test_doctor_never_prints_a_traceback(process, tmp_path):
    done = process("doctor", "--json", NBCACHE_DIR=str(tmp_path / "store"), NBCACHE_LOG="nonsense")
    assert done.err == ""
    assert any("nonsense" in row["value"] for row in json.loads(done.out))
    assert done.status == 1
