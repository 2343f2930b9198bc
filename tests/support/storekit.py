"""What the tests of the store share: settings, headers, keys and a store in a temporary directory."""

import hashlib
import os
import stat

from nbcache.config import Settings
from nbcache.setting_syntax import read
from nbcache.store.directory import Store
from nbcache.store.entry import Header

SECTIONS = {"meta": b"m" * 100, "object": b"\x7fELF" * 500, "components": b"{}" * 50, "bitcode": b"BC\xc0\xde" * 100}


def key(text="a"):
    return hashlib.sha256(str(text).encode()).hexdigest()


def header(name="a", *, guard="", **other):
    fields = {
        "key": key(name),
        "kind": "dispatcher",
        "function": f"mod:{name}",
        "signature": "(int64, float64)",
        "toolchain": "CPython 3.11, Numba 0.68.1",
        "compile_seconds": 0.25,
        "created": 1700000000.0,
        "build": "b" * 16,
        "guard": guard,
        "extra": {"files": ["x.py"]},
    }
    return Header(**{**fields, **other})


def open_store(path, **settings):
    if "trusted_keys" in settings:
        settings["trusted_keys"] = read("trusted_keys", list(settings["trusted_keys"]))
    store = Store.open(Settings(dir=str(path), **settings))
    assert isinstance(store, Store), store
    return store


def find(store, name="a"):
    """The entries found under a key, and the reasons for what was passed over."""
    reasons = []
    return list(store.find(key(name), reasons.append)), reasons


def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


def leftovers(root):
    """Temporaries anywhere in a store."""
    return [name for _, _, names in os.walk(root) for name in names if name.endswith(".tmp")]
