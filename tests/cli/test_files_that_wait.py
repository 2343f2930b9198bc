"""A FIFO in the place of a file that a command is given: one clear line, and no command waits for ever."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
from nbtest import proc

from nbcache import signing_keys
from nbcache.secret import Secret


@pytest.fixture
def key(place):
    path = place / "key"
    signing_keys.save(signing_keys.generate("one"), str(path))
    return {"NBCACHE_SIGNING_KEY": str(path), "NBCACHE_TRUSTED_KEYS": str(signing_keys.read(Secret(str(path))).public)}


@pytest.mark.every(8)
@pytest.mark.parametrize(
    "command",
    [
        ["load-bundle", "FIFO"],
        ["key", "sign", "FIFO"],
        ["key", "verify", "FIFO"],
        ["key", "public", "FIFO"],
        ["key", "generate", "one", "FIFO"],
        ["bundle", "out", "FIFO"],
        ["prewarm", "FIFO"],
        ["pull", "FIFO"],
        ["report", "FIFO"],
        ["ls", "--dir", "FIFO"],
        ["stats", "--dir", "FIFO"],
        ["verify", "--dir", "FIFO"],
        ["doctor", "--dir", "FIFO"],
        ["serve", "--dir", "FIFO"],
        ["health", "--dir", "FIFO"],
        ["run", "--dir", "FIFO", "--", sys.executable, "-c", "pass"],
    ],
    ids=" ".join,
)
def test_no_command_waits_for_a_fifo(place, key, command):
    os.mkfifo(place / "FIFO")
    proc.run(["-c", "import numba, nbcache; numba.njit(lambda x: x)(1)"], place / "store")
    store = [] if "--dir" in command or command[0] == "run" else ["--dir", place / "store"]
    extra = {**key, "NBCACHE_REMOTE": f"file://{place}/tier"}
    os.mkdir(place / "tier")
    argv = ["-m", "nbcache", command[0], *store, *command[1:]]
    done = proc.run(argv, None, extra, cwd=place, timeout=200)
    assert "killed after" not in done.stderr
    assert "Traceback" not in done.stderr
    if command[0] not in {"run", "doctor", "health", "stats"}:
        assert done.status in {1, 2}
        assert done.stderr.count("\n") == 1, done.stderr
        assert "FIFO" in done.stderr


def test_a_signing_key_that_is_a_fifo(place):
    os.mkfifo(place / "FIFO")
    for command in (["push"], ["bundle", "out"]):
        done = proc.run(
            ["-m", "nbcache", *command], place / "store",
            {"NBCACHE_SIGNING_KEY": str(place / "FIFO"), "NBCACHE_REMOTE": f"file://{place}", "NBCACHE_TRUSTED_KEYS": "unsigned"}, cwd=place, timeout=200,
        )  # fmt: skip
        assert done.status == 1
        assert "not a regular file" in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("how", ["a shell's", "a FIFO that somebody writes to"])
def test_a_warm_list_may_still_be_a_pipe(place, how):
    if how == "a shell's":
        command = f"exec {sys.executable} -m nbcache prewarm --dir {place}/store <(sleep 1; echo no request)"
        done = subprocess.run(
            ["bash", "-c", command], env=proc.environment(), capture_output=True, text=True, timeout=200, check=False
        )
        said = done.stderr
    else:
        os.mkfifo(place / "FIFO")
        writer = threading.Thread(target=lambda: (place / "FIFO").write_text("no request\n"))
        writer.start()
        said = proc.run(["-m", "nbcache", "prewarm", "--dir", place / "store", place / "FIFO"], timeout=200).stderr
        writer.join()
    assert "line 1: " in said
