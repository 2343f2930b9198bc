"""Archives made to hurt whoever takes them in: one line, bounded memory, and nothing outside of the store."""

import gzip
import io
import json
import resource
import subprocess
import sys
import tarfile

import pytest
from nbtest import proc
from storekit import SECTIONS, header, key, open_store

from nbcache import signing_keys
from nbcache.errors import RemoteError
from nbcache.keyring import Keyring
from nbcache.remote import bundles, objects
from nbcache.store import entry

KEY = signing_keys.generate("ours")
RING = Keyring([str(KEY.public)])
ZEROS = gzip.compress(bytes(16 << 20))
"""16 MiB, in 16 KiB: behind one another, they are one stream."""
ROOM = 700 << 20
"""What the command may have of memory [bytes]; what is in the archives is more."""


def head(size, name="a"):
    return bundles._HEAD.pack(bytes.fromhex(key(name)), size)


def old():
    with io.BytesIO() as file:
        with tarfile.open(fileobj=file, mode="w") as tar:
            tar.addfile(tarfile.TarInfo("nbcache-bundle.json"))
        return file.getvalue()


def made(tmp_path, *parts):
    path = tmp_path / "bundle"
    path.write_bytes(b"".join(part if part[:2] == b"\x1f\x8b" else gzip.compress(part) for part in parts))
    return path


BOMBS = {
    "nothing": lambda: [b""],
    "zeros": lambda: [*[ZEROS] * 64],
    "no end": lambda: [bundles._BEGIN],
    "a head that is cut off": lambda: [bundles._BEGIN + head(1)[:30]],
    "a long object": lambda: [bundles._BEGIN + head(1 << 30), *[ZEROS] * 64],
    "the longest object, cut off": lambda: [bundles._BEGIN + head(objects.MAX_OBJECT), ZEROS],
    "of an older version": lambda: [old()],
    "of a newer version": lambda: [b"nbcache bundle 3\n" + bytes(36)],
    "a long word": lambda: [b"nbcache bundle ", *[ZEROS] * 64],
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_an_archive_that_is_none_of_ours_is_one_line_and_little_memory(tmp_path, bomb):
    path = made(tmp_path, *BOMBS[bomb]())
    done = subprocess.run(
        [sys.executable, "-m", "nbcache", "load-bundle", "--dir", tmp_path / "store", path],
        env=proc.environment(None, {"NBCACHE_TRUSTED_KEYS": str(KEY.public)}),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (ROOM, ROOM)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("nbcache: ") and len(done.stderr.splitlines()) == 1, done.stderr
    assert "bundle" in done.stderr


def signed(name="a"):
    made = header(name)
    return entry.encode(made._replace(signed=(objects.sign(KEY, made, SECTIONS),)), SECTIONS)


def forged():
    """Entries with right digests whose headers nbcache couldn't have written."""
    for field, value in (("created", "NaN"), ("compile_seconds", "Infinity"), ("created", "-Infinity")):
        data = signed()
        length = int.from_bytes(data[12:16], "little")
        fields = json.loads(data[32 : 32 + length])
        fields[field] = "FORGED"
        text = json.dumps(fields, separators=(",", ":")).replace('"FORGED"', value).encode()
        fixed = data[:12] + len(text).to_bytes(4, "little")
        yield fixed + entry._digest(fixed, text) + text + data[32 + length :]


def test_numbers_that_are_none_are_refused_and_no_error():
    for data in forged():
        assert entry.parse(data) is not None
        for ring in (RING, Keyring(["unsigned"])):
            assert objects.admit(data, key("a"), ring) == objects.DAMAGED


def test_what_is_forged_in_a_bundle_keeps_nothing_else_out(tmp_path):
    path = tmp_path / "bundle"
    objects = [(key("a"), data) for data in forged()]
    objects += [("ab" * 32, signed("b")), (key("b"), signed("c")), (key("d"), signed("d"))]
    with gzip.open(path, "wb") as file:
        file.write(bundles._BEGIN)
        for name, data in [*objects, ("00" * 32, b"")]:
            file.write(bundles._HEAD.pack(bytes.fromhex(name), len(data)) + data)
    store, refused = open_store(tmp_path / "store", trusted_keys=(str(KEY.public),)), []
    assert bundles.load(str(path), store, RING, refused.append) == {"taken": 1, "already there": 0, "refused": 5}
    assert {info.key for info in store.scan()} == {key("d")}


def test_a_file_that_somebody_else_writes_by_a_like_name_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(bundles.layout, "unique", lambda: "here-1")
    other = tmp_path / "b.here-1.tmp"
    other.write_text("of somebody else")
    with pytest.raises(FileExistsError):
        bundles.write(str(tmp_path / "b"), iter([signed()]))
    assert other.read_text() == "of somebody else"


def test_an_archive_that_ends_too_early(tmp_path):
    bundles.write(str(tmp_path / "b"), iter([signed()]))
    whole = gzip.decompress((tmp_path / "b").read_bytes())
    for cut in (len(bundles._BEGIN), len(bundles._BEGIN) + 10, len(bundles._BEGIN) + 100, len(whole) - 1):
        (tmp_path / "c").write_bytes(gzip.compress(whole[:cut]))
        with pytest.raises(RemoteError, match="is damaged"):
            list(bundles.read(str(tmp_path / "c")))
