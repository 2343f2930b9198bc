"""Entries in layers that came from elsewhere: they count as long as somebody who signed them is trusted."""

import pytest
from nbtest import proc, remotes
from storekit import SECTIONS, find, header, open_store

from nbcache import signing_keys
from nbcache.file_trust import Trust
from nbcache.keyring import Keyring
from nbcache.remote import objects
from nbcache.store import layers
from nbcache.store.directory import Store
from nbcache.store.layers import Place

OURS, THEIRS = signing_keys.generate("ours"), signing_keys.generate("theirs")


@pytest.fixture
def image(tmp_path):
    """A store that was filled from a remote cache, and is now a layer of an image."""
    store = open_store(tmp_path / "image", trusted_keys=(str(OURS.public),))
    made = header("a")
    assert store.publish(made._replace(signed=(objects.sign(OURS, made, SECTIONS),)), SECTIONS).ok
    assert store.publish(header("b"), SECTIONS).ok
    return store.path


def opened(path, *keys):
    layer = layers.open_layer(Place("image", path), Trust(), Keyring([str(key.public) for key in keys]))
    assert isinstance(layer, Store)
    return layer


def test_what_was_signed_counts_in_a_layer_for_who_trusts_the_key(image):
    assert [entry.layer for entry in find(opened(image, OURS), "a")[0]] == ["image"]
    assert find(opened(image, THEIRS), "a") == find(opened(image), "a") == ([], ["revoked"])
    assert len(find(opened(image, THEIRS), "b")[0]) == 1


def test_a_process_takes_it_and_takes_it_no_more_when_the_key_is_revoked(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "from numba import njit\nimport nbcache\n@njit\ndef f(x):\n    return x + 1\n"
        "print(f(1), nbcache.stats()['builds_count'] if f(2) else 0)\n"
    )
    fleet = remotes.Fleet(tmp_path)
    builder = fleet.host("builder", "")
    assert proc.run([program], extra=builder).stdout.split()[0] == "2"
    assert proc.run(["-m", "nbcache", "bundle", tmp_path / "b"], extra=builder).status == 0
    image = fleet.host("image", "", signs=False)
    assert proc.run(["-m", "nbcache", "load-bundle", tmp_path / "b"], extra=image).status == 0
    user = fleet.host("user", "", signs=False, layers=image["NBCACHE_DIR"])
    assert proc.run([program], extra=user).stdout == "2 0\n"
    revoked = {**user, "NBCACHE_TRUSTED_KEYS": fleet.public(fleet.make_key("next"))}
    assert proc.run([program], extra=revoked).stdout not in {"", "2 0\n"}
