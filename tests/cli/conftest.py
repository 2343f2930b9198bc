"""Stores filled through the Store API with made-up entries, and commands run in this process or in one of their own."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from hashlib import blake2b

import pytest

from nbcache.cli.main import main
from nbcache.config import Settings
from nbcache.store.directory import Store
from nbcache.store.entry import Header

NOW = 1_700_000_000.0


@dataclass
class Done:
    """How a command ended."""

    status: int
    out: str
    err: str

    @property
    def json(self):
        """What it printed, decoded."""
        return json.loads(self.out)


class Filled:
    """A store and a way to put entries into it."""

    def __init__(self, path):
        """Make it at `path`."""
        self.path = str(path)
        self.store = Store.open(Settings(dir=self.path))
        assert isinstance(self.store, Store), self.store

    def add(self, function="pkg.mod:f", components=(), *, size=100, **fields):
        """Publish an entry whose key follows from its components; return its header."""
        pairs = [["signature", "(int64,)"], *map(list, components)]
        key = blake2b(json.dumps([function, pairs]).encode(), digest_size=32).hexdigest()
        made = {
            "key": key,
            "kind": "dispatcher",
            "function": function,
            "signature": "(int64,)",
            "toolchain": "numba 0.68.1",
            "compile_seconds": 0.25,
            "created": NOW,
            "build": "b" * 8,
            "guard": "",
        }
        header = Header(**{**made, **fields})
        sections = {"meta": b"m" * 10, "object": b"o" * size, "components": json.dumps(pairs).encode()}
        published = self.store.publish(header, sections)
        assert published.ok, published
        return header

    def path_of(self, header):
        """The file of an entry."""
        (found,) = self.store.find(header.key, lambda _reason: None)
        return found.path

    def record(self, **fields):
        """Write a usage record."""
        assert self.store.write_usage({"start": NOW, "end": NOW + 1, **fields})

    def age(self, header, seconds):
        """Make an entry's file older."""
        path = self.path_of(header)
        os.utime(path, (os.stat(path).st_atime, os.stat(path).st_mtime - seconds))


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    """A home of its own, so that no file of settings and no ~/.cache/nbcache is found."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / "home").mkdir()


@pytest.fixture
def filled(tmp_path):
    """An empty store."""
    tmp_path.chmod(0o755)
    return Filled(tmp_path / "store")


@pytest.fixture
def nbcache(capsys):
    """Run a command in this process."""

    def run(*argv):
        capsys.readouterr()
        try:
            status = main([str(arg) for arg in argv])
        except SystemExit as end:
            status = end.code
        out, err = capsys.readouterr()
        return Done(status, out, err)

    return run


@pytest.fixture
def process():
    """Run a command in a process of its own, as users do."""

    def run(*argv, **environ):
        done = subprocess.run(
            [sys.executable, "-m", "nbcache", *map(str, argv)],
            env={**os.environ, **environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    return run
