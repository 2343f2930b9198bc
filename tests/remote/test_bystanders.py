"""What a helper has of the program that started it, and what others can do to its start."""

import fcntl
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from nbtest import daemons, proc, remotes

from nbcache import config, environ
from nbcache.protocol import helper
from nbcache.remote import helper as remote_helper
from nbcache.secret import Secret

PROGRAM = "from numba import njit\n@njit\ndef f(x):\n    return x + 1\nprint(f(1))\n"


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def test_a_helper_keeps_nothing_open_that_a_program_was_given(fleet, tmp_path, program):
    """`flock FILE python program.py`, or a shell that waits for the end of a pipe."""
    reading, writing = os.pipe()
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with remotes.redis(tmp_path) as (address, _):
        host = fleet.host("host", address)
        subprocess.run(
            [sys.executable, program], env=proc.environment(None, host), pass_fds=(writing, lock), check=True
        )
        os.close(writing)
        os.close(lock)
        assert len(fleet.helpers()) == 1
        assert select.select([reading], [], [], 0)[0] and os.read(reading, 1) == b""
        os.close(reading)
        again = os.open(tmp_path / "lock", os.O_RDWR)
        fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(again)


def test_a_helper_heeds_signals_that_the_program_ignores(fleet, tmp_path, program):
    program.write_text(
        "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n" + PROGRAM
    )
    with remotes.redis(tmp_path) as (address, _):
        proc.run([program], extra=fleet.host("host", address))
        (pid,) = fleet.helpers()
        os.kill(pid, signal.SIGTERM)
        daemons.wait_for(lambda: not fleet.helpers())


@pytest.mark.long
def test_who_begins_to_end_lets_another_one_begin(fleet, tmp_path, program):
    """Uploads that go on for a while keep nobody from asking."""
    with remotes.redis(tmp_path) as (address, server):
        host = fleet.host("host", address)
        proc.run([program], extra=host)
        server.send_signal(signal.SIGSTOP)
        program.write_text(PROGRAM.replace("x + 1", "x + 2"))
        proc.run([program], extra=host)
        (pid,) = fleet.helpers()
        assert proc.run(["-m", "nbcache", "remote", "stop"], extra=host).status == 0
        # Not because it is gone: it waits for what it can't upload.
        daemons.wait_for(lambda: pid not in fleet.helpers())
        assert os.path.exists(f"/proc/{pid}")
        server.send_signal(signal.SIGCONT)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")
def test_a_runtime_directory_of_another_user_is_not_used(tmp_path, monkeypatch):
    """`su` leaves XDG_RUNTIME_DIR: root would write where somebody else can exchange what is there, and lock him out."""
    os.chown(tmp_path, 4321, 4321)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert not environ.runtime_directory(80).startswith(str(tmp_path))
    os.chown(tmp_path, 0, 0)
    tmp_path.chmod(0o777)
    assert not environ.runtime_directory(80).startswith(str(tmp_path))
    tmp_path.chmod(0o700)
    monkeypatch.setattr(config.os, "geteuid", lambda: 0)
    assert environ.runtime_directory(len(str(tmp_path)) + 20) == f"{tmp_path}/nbcache"


def test_nobody_is_met_in_a_place_that_others_can_enter(tmp_path):
    place = helper.Meeting(str(tmp_path / "d"), str(tmp_path / "d/s"), str(tmp_path / "d/l"))
    with pytest.raises(FileNotFoundError):
        helper.ask(place, "fetch", "", 1.0)
    (tmp_path / "d").mkdir()
    (tmp_path / "d").chmod(0o711)
    with pytest.raises(NotADirectoryError):
        helper.ask(place, "fetch", "", 1.0)
    (tmp_path / "d").rmdir()
    (tmp_path / "d").symlink_to(tmp_path)
    with pytest.raises(NotADirectoryError):
        helper.ask(place, "fetch", "", 1.0)
    with pytest.raises(NotADirectoryError):
        helper.offer(place, "a" * 64)


def test_another_umask_or_another_key_needs_another_helper(tmp_path):
    key = tmp_path / "key"
    key.write_text("one")
    settings = config.Settings(dir=str(tmp_path), signing_key=Secret(str(key)))
    met = {helper.meeting(settings, "1").socket for _ in range(2)}
    assert len(met) == 1
    before = os.umask(0o077)
    try:
        met.add(helper.meeting(settings, "1").socket)
        met.add(helper.meeting(settings._replace(umask=0o022), "1").socket)
    finally:
        os.umask(before)
    (tmp_path / "next").write_text("two")
    (tmp_path / "next").replace(key)
    met.add(helper.meeting(settings, "1").socket)
    assert len(met) == 4


def test_settings_of_any_length_are_told_without_waiting(tmp_path, monkeypatch):
    """Also to somebody who never reads them."""
    (tmp_path / "python").symlink_to("/bin/true")
    monkeypatch.setattr(helper.sys, "executable", str(tmp_path / "python"))
    settings = config.Settings(dir=str(tmp_path), remote=tuple(Secret(f"redis://{n}") for n in range(20000)))
    assert len(helper.written(settings)) > 1 << 17
    assert helper.start(settings, 60.0)


def test_a_helper_that_can_not_work_says_so(fleet, program):
    host = fleet.host("host", "s3://bucket/x?region=x&endpoint=http://127.0.0.1:nonsense")
    outcome = proc.run([program], extra=host)
    assert outcome.stdout == "2\n"
    assert "no answer in time" not in outcome.stderr and len(outcome.stderr.splitlines()) == 1, outcome
    assert list(Path(host["XDG_RUNTIME_DIR"]).glob("nbcache/*.sock"))


def test_the_status_says_why_a_helper_could_not_work_though_none_runs(fleet, tmp_path):
    host = fleet.host("host", f"file://{tmp_path}/tier")
    folder = Path(host["XDG_RUNTIME_DIR"]) / "nbcache"
    folder.parent.mkdir(exist_ok=True)
    folder.touch()
    for wrong, why in (
        ({}, "not a directory of this user alone"),
        ({"XDG_RUNTIME_DIR": str(tmp_path), "NBCACHE_TRUSTED_KEYS": ""}, "NBCACHE_TRUSTED_KEYS is not set"),
    ):
        told = proc.run(["-m", "nbcache", "remote"], extra={**host, **wrong})
        assert told.status == 1 and why in told.stdout, told


@pytest.mark.long
def test_a_helper_that_hangs_is_told_from_none(fleet, tmp_path, program):
    with remotes.redis(tmp_path) as (address, _):
        host = fleet.host("host", address)
        assert "no helper runs" in proc.run(["-m", "nbcache", "remote"], extra=host).stdout
        proc.run([program], extra=host)
        (pid,) = fleet.helpers()
        os.kill(pid, signal.SIGSTOP)
        try:
            told = proc.run(["-m", "nbcache", "remote"], extra=host)
        finally:
            os.kill(pid, signal.SIGCONT)
        assert told.status == 1 and "its helper doesn't answer" in told.stdout


@pytest.mark.long
def test_a_helper_s_memory_is_bounded(fleet, tmp_path, program):
    """Libraries hold what servers send as errors, and forbid no length."""
    with remotes.redis(tmp_path) as (address, _):
        proc.run([program], extra=fleet.host("host", address))
        (pid,) = fleet.helpers()
        (line,) = [line for line in Path(f"/proc/{pid}/limits").read_text().splitlines() if "Max data size" in line]
        assert line.split()[3:5] == [str(remote_helper.MAX_MEMORY)] * 2


def test_a_program_that_embeds_python_is_not_started_again(tmp_path, monkeypatch):
    """To a server with Python in it, that server is `sys.executable`."""
    started = tmp_path / "started"
    server = tmp_path / "uwsgi"
    server.write_text(f"#!/bin/sh\ntouch {started}\n")
    server.chmod(0o755)
    monkeypatch.setattr(helper.sys, "executable", str(server))
    assert helper._python() == f"{sys.prefix}/bin/python3"
    monkeypatch.setattr(helper.sys, "prefix", str(tmp_path))
    assert not helper.start(config.Settings(dir=str(tmp_path)), 1.0)
    assert not started.exists()


def test_a_program_with_rights_of_its_own_starts_nobody(tmp_path, monkeypatch):
    """Where its Python is, whoever started it may have said."""
    monkeypatch.setattr(helper.os, "getuid", lambda: os.geteuid() + 1)
    assert helper._python() == ""
    assert not helper.start(config.Settings(dir=str(tmp_path)), 1.0)
