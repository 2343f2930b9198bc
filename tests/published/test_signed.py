"""What is published of signed code goes with the trust in who signed it, as the code itself does."""

import textwrap

import pytest
from nbtest import proc
from nbtest.published import CALLING, accumulator, build_elsewhere, node

from nbcache import signing_keys, wheels
from nbcache.config import Settings
from nbcache.errors import PublicationError
from nbcache.keyring import Keyring
from nbcache.remote import bundles
from nbcache.secret import Secret
from nbcache.store.directory import Store

OURS, THEIRS = (str(signing_keys.generate(name).public) for name in ("ours", "theirs"))
REFUSED = "code that no key in NBCACHE_TRUSTED_KEYS signed took part in it"


@pytest.fixture
def signer(tmp_path):
    return signing_keys.generate("signer")


@pytest.fixture
def store(tmp_path, signer):
    """A store that was filled from elsewhere with what one function needs."""
    built = build_elsewhere(tmp_path)
    bundle = str(tmp_path / "bundle")
    bundles.write(bundle, bundles.of_store(Store.open(Settings(dir=str(built))), signer, None))
    made = Store.open(Settings(dir=str(tmp_path / "store"), trusted_keys=(Secret(str(signer.public)),)))
    assert bundles.load(bundle, made, Keyring([str(signer.public)]), print)["refused"] == 0
    return tmp_path / "store"


@pytest.mark.every(2)
def test_who_no_longer_trusts_the_key_runs_nothing_that_was_published_of_its_code(tmp_path, store, signer, way):
    trusted = f"{signer.public} {OURS}"
    program = """
        import functions
        assert functions.f(1.5) == 5.0
        nbcache.publish("f", functions.f)
        nbcache.publish("inner", functions.inner, ["(int64,)"])
        print(nbcache.stats()["builds_count"])
        """
    # What was built for it was built beside what was signed.
    assert accumulator(store, program, tmp_path, NBCACHE_TRUSTED_KEYS=trusted).stdout.strip() != "0"
    works = "assert nbcache.load('f')(1.5) == 5.0; assert nbcache.load('inner')(1) == 2"
    node(store, works, tmp_path, NBCACHE_TRUSTED_KEYS=trusted)
    for name in ("f", "inner"):
        refused = f"""
            try:
                import nbcache.errors
                nbcache.load({name!r})
            except nbcache.errors.PublicationError as error:
                print(error)
            """
        for keys in ({"NBCACHE_TRUSTED_KEYS": f"{OURS} {THEIRS}"}, {}):
            assert REFUSED in proc.run(["-c", "import nbcache\n" + textwrap.dedent(refused)], store, keys).stdout


def test_no_wheel_is_made_of_it_either(tmp_path, store, signer):
    program = "import functions; functions.f(1.5); nbcache.publish('f', functions.f)"
    accumulator(store, program, tmp_path, NBCACHE_TRUSTED_KEYS=str(signer.public))
    opened = Store.open(Settings(dir=str(store), trusted_keys=(Secret(OURS),)))
    with pytest.raises(PublicationError, match=REFUSED):
        wheels.export(opened, "f", str(tmp_path))


@pytest.mark.long
def test_what_was_built_here_is_nobodys(tmp_path):
    (tmp_path / "functions.py").write_text(CALLING)
    program = "import functions; functions.f(1.5); nbcache.publish('f', functions.f)"
    accumulator(tmp_path / "store", program, tmp_path, NBCACHE_TRUSTED_KEYS=OURS)
    node(tmp_path / "store", "assert nbcache.load('f')(1.5) == 5.0", tmp_path)
