"""Published names in remote tiers: for processes without Numba that share no directory with who published them."""

import textwrap
import zlib

import pytest
from nbtest import proc, published
from nbtest.published import OF_FOUR_KINDS, accumulator, node
from storekit import open_store

from nbcache import signatures
from nbcache.keyring import Keyring
from nbcache.protocol import blobs, helper
from nbcache.remote import objects, publications
from nbcache.remote.publications import Publications
from nbcache.remote.tiers import Got
from nbcache.store import publication
from nbcache.store.content import digest_of

MODULE = "import numpy as np\nfrom numba import cfunc, njit, vectorize\nTABLE = np.arange(5.0)\n" + OF_FOUR_KINDS
PUBLISHED = """
import functions
nbcache.publish("sales.revenue", functions.revenue)
nbcache.publish("sales.scaled", functions.scaled)
"""
USED = """
import numpy as np
assert nbcache.exists("sales.revenue") and not nbcache.exists("sales.other")
assert nbcache.load("sales.revenue")(np.arange(4.0), 0.5).tolist() == [0.0, 0.5, 1.0, 1.5]
scaled = nbcache.load("sales.scaled")
assert scaled(np.arange(4.0)).tolist() == [1.0, 3.0, 5.0, 7.0] and nbcache.load("sales.scaled") is scaled
"""


def store_of(env):
    return env["NBCACHE_DIR"]


@pytest.fixture
def maker(fleet, server):
    """A host that publishes, and one that loads."""
    (fleet.folder / "functions.py").write_text(textwrap.dedent(MODULE))
    return fleet.host("maker", server), fleet.host("node", server, signs=False)


def publish(fleet, env, program=PUBLISHED):
    return accumulator(store_of(env), program, fleet.folder, **env)


def load(fleet, env, program=USED):
    return node(store_of(env), program, fleet.folder, **env)


@pytest.mark.parametrize("way", ["image", "llvm"])
def test_a_node_without_numba_and_without_the_directory_loads_them(fleet, maker, way, monkeypatch, tmp_path):
    (tmp_path / "no-linker").mkdir()
    with monkeypatch.context() as patch:
        # The servers are there already, and helpers start none.
        published.choose(way, patch, tmp_path / "no-linker")
        publish(fleet, maker[0])
        load(fleet, maker[1])
        # What came is there, whoever answers.
        load(fleet, {**maker[1], "NBCACHE_REMOTE": "none"})


def test_newer_versions_come_and_what_is_taken_back_goes(fleet, maker):
    publish(fleet, maker[0])
    load(fleet, maker[1])
    publish(fleet, maker[0], 'import functions; nbcache.publish("sales.revenue", functions.squared)')
    load(fleet, maker[1], 'assert nbcache.load("sales.revenue")(3.0) == 9.0')
    publish(fleet, maker[0], 'nbcache.unpublish("sales.revenue")')
    gone = """
    import nbcache.errors
    assert not nbcache.exists("sales.revenue") and nbcache.exists("sales.scaled")
    try:
        raise SystemExit(nbcache.load("sales.revenue"))
    except nbcache.errors.NotPublishedError:
        pass
    """
    load(fleet, maker[1], gone)


def test_who_follows_takes_newer_versions_of_the_tiers(fleet, maker):
    publish(fleet, maker[0])
    begun = """
    from nbcache.published import following, tiers
    tiers.AGAIN_SECONDS = following.LOOK_SECONDS = 0.01
    revenue = nbcache.load("sales.revenue", follow=True)
    print("here", flush=True)
    import time
    while revenue.func.__name__ != "squared":
        time.sleep(0.01)
    assert revenue(3.0) == 9.0
    """
    process = published.begun(store_of(maker[1]), begun, fleet.folder, **maker[1])
    publish(fleet, maker[0], 'import functions; nbcache.publish("sales.revenue", functions.squared)')
    published.ended(process)


def test_who_does_not_trust_the_key_is_given_nothing(fleet, maker):
    publish(fleet, maker[0])
    refused = """
    import nbcache.errors
    try:
        raise SystemExit(nbcache.load("sales.revenue"))
    except nbcache.errors.PublicationError as error:
        assert "WHY" in str(error), error
    """
    other = str(signatures.generate("other").public)
    stranger = fleet.host("stranger", maker[0]["NBCACHE_REMOTE"], signs=False, trusts=other)
    load(fleet, stranger, refused.replace("WHY", objects.UNTRUSTED))
    # Nor does who has it still, and stopped trusting the key.
    load(fleet, maker[1])
    without = {**maker[1], "NBCACHE_TRUSTED_KEYS": other, "NBCACHE_REMOTE": "none"}
    load(fleet, without, refused.replace("WHY", "no key in NBCACHE_TRUSTED_KEYS signed"))


@pytest.mark.parametrize("server", ["redis"], indirect=True)
def test_what_could_not_be_uploaded_goes_with_the_next_push(fleet, maker, command):
    nowhere = {**maker[0], "NBCACHE_REMOTE": "none"}
    publish(fleet, nowhere)
    outcome = proc.run(["-m", "nbcache", "push"], extra=maker[0])
    assert outcome.status == 0 and "2 published names" in outcome.stdout, outcome
    load(fleet, maker[1])


@pytest.mark.parametrize("server", ["redis"], indirect=True)
def test_a_node_goes_on_with_what_it_has_where_nobody_answers_and_says_so_where_it_has_nothing(fleet, maker):
    publish(fleet, maker[0])
    load(fleet, maker[1])
    dead = {**maker[1], "NBCACHE_REMOTE": "redis://127.0.0.1:1", "NBTEST_PATIENT": ""}
    program = """
    import nbcache.errors
    assert nbcache.load("sales.scaled")(np.ones(1)) == 3.0
    try:
        raise SystemExit(nbcache.exists("sales.other"))
    except nbcache.errors.PublicationError as error:
        assert "of the remote cache: redis://127.0.0.1:1" in str(error), error
    """
    said = load(fleet, dead, "import numpy as np\n" + textwrap.dedent(program))
    assert "a newer version in the remote cache can't be: redis://" in said.stderr


# -- what others may have put there ----------------------------------------------------------------

KEY, OTHER = signatures.generate("ours"), signatures.generate("other")


class Tier:
    """A tier in memory."""

    label, readonly = "memory://", False

    def __init__(self):
        self.objects = {}

    def get(self, name, seconds, *, patient=False, again=False):
        return Got(self.objects.get(name))

    def head(self, name, seconds, *, patient=False):
        found = self.objects.get(name)
        return Got(found and found[: objects.HEAD_BYTES])

    def put(self, name, data):
        self.objects[name] = data
        return ""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A store in which something is published."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "functions.py").write_text(textwrap.dedent(MODULE))
    accumulator(folder / "store", PUBLISHED, folder)
    return folder / "store"


def of(path, tier, key=KEY, trusts=KEY):
    store = open_store(path, trusted_keys=(str(trusts.public),))
    return store, Publications(store, Keyring([str(trusts.public)]), [tier], key, lambda *_: None)


@pytest.fixture
def tier(made):
    found = Tier()
    assert of(made, found)[1].publish("sales.revenue").state == helper.CAME
    return found


@pytest.fixture
def there(tmp_path, tier):
    store, here = of(tmp_path / "there", tier)

    def load(name="sales.revenue"):
        return here.load(name, 60.0)

    load.store = store
    return load


NAMED = publications.name_of("sales.revenue")


def test_what_comes_is_what_was_published(tier, there, made):
    assert there().state == helper.CAME and there().state == helper.MISSING
    (ours, theirs) = (store.names.read("sales.revenue") for store in (there.store, open_store(made)))
    assert ours.manifest == theirs.manifest and ours.created == theirs.created and ours.entries == ()
    assert set(ours.files) <= set(theirs.files)


def test_any_byte_that_is_another_is_refused_and_nothing_comes(tier, there):
    whole = tier.objects[NAMED]
    for at in range(0, len(whole), max(1, len(whole) // 997)):
        tier.objects[NAMED] = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
        assert there().state == helper.REFUSED, at
        tier.objects[NAMED] = whole[:at]
        assert there().state == helper.REFUSED, at
    assert there.store.names.known() == []
    tier.objects[NAMED] = whole
    assert there().state == helper.CAME


def test_a_file_that_is_another_is_refused(tier, tmp_path):
    for number, name in enumerate(set(tier.objects) - {NAMED}):
        whole = tier.objects[name]
        store, there = of(tmp_path / str(number), tier)
        for other in (
            b"", whole[:-1], whole + b"x", zlib.compress(b"other"), zlib.compress(bytes(objects.MAX_OBJECT + 9))
        ):  # fmt: skip
            tier.objects[name] = other
            assert there.load("sales.revenue", 60.0).why == "memory://: one of its files is damaged"
        del tier.objects[name]
        assert there.load("sales.revenue", 60.0).why == "one of its files is in no tier"
        tier.objects[name] = whole
        assert store.names.known() == []


def resigned(data, key=KEY, **changed):
    found = publication.decode(data)._replace(**changed)
    return publication.encode(found._replace(signed=(tuple(signatures.sign(key, publications._text(found))),)))


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"name": "sales.other"}, publications.OTHER_NAME),
        ({"entries": ("a" * 64,)}, objects.DAMAGED),
        ({"older": (1,)}, objects.DAMAGED),
        ({"files": ()}, objects.DAMAGED),
        ({"objects": ("a" * 64,)}, objects.DAMAGED),
        ({"manifest": b"{}"}, objects.OTHER_VERSION),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_signature_does_not_make_right_what_nbcache_does_not_write(tier, there, changed, why):
    tier.objects[NAMED] = resigned(tier.objects[NAMED], **changed)
    assert there() == (helper.REFUSED, f"memory://: {why}", 0)


@pytest.mark.parametrize("signed", [None, (), "other", "wrong", "blob"])
def test_what_no_trusted_key_signed_is_refused(tier, there, signed):
    whole = tier.objects[NAMED]
    found = publication.decode(whole)
    (right,) = found.signed
    if signed == "other":
        data = resigned(whole, OTHER)
    elif signed == "wrong":
        data = publication.encode(found._replace(signed=((*right[:3], right[3][::-1]),)))
    elif signed == "blob":
        digest = digest_of(publication.encode(found._replace(signed=None)))
        wrong = signatures.sign(KEY, blobs.text_of(digest))
        data = publication.encode(found._replace(signed=(tuple(wrong),)))
    else:
        data = publication.encode(found._replace(signed=signed))
    tier.objects[NAMED] = data
    assert there().state == helper.REFUSED


def test_nobody_goes_back_to_an_older_one_and_what_expired_is_not_there(tier, there, made):
    before = tier.objects[NAMED]
    tier.objects[NAMED] = resigned(before, created=publication.decode(before).created + 9)
    assert there().state == helper.CAME
    tier.objects[NAMED] = before
    assert there().state == helper.MISSING
    # Nor does who pushes an older one replace it.
    later = resigned(before, created=publication.decode(before).created + 9)
    tier.objects[NAMED] = later
    assert of(made, tier)[1].publish("sales.revenue").state == helper.CAME and tier.objects[NAMED] == later
    tier.objects[NAMED] = resigned(before, created=publication.decode(before).created + 99, expires=1.0)
    assert there() == (helper.MISSING, "", 0)


def test_of_several_tiers_the_newest_counts(tier, tmp_path, made):
    newer = Tier()
    newer.objects = dict(tier.objects)
    created = publication.decode(tier.objects[NAMED]).created + 9
    newer.objects[NAMED] = resigned(tier.objects[NAMED], created=created)
    for order in ([tier, newer], [newer, tier]):
        store = open_store(tmp_path / str(order.index(tier)), trusted_keys=(str(KEY.public),))
        Publications(store, Keyring([str(KEY.public)]), order, None, lambda *_: None).load("sales.revenue", 60.0)
        assert store.names.read("sales.revenue").created == created


def test_what_is_taken_back_goes_where_it_is_older(tier, there, tmp_path):
    assert there().state == helper.CAME
    assert of(tmp_path / "empty", tier)[1].publish("sales.revenue").state == helper.CAME
    assert there().state == helper.MISSING and there.store.names.known() == []
    assert there().state == helper.MISSING


def test_without_a_key_nothing_is_uploaded_and_what_came_keeps_its_signatures(tier, there, made, tmp_path):
    empty = Tier()
    assert "NBCACHE_SIGNING_KEY is not set" in of(made, empty, None)[1].publish("sales.revenue").why
    assert not empty.objects
    there()
    passed_on = Publications(there.store, Keyring([str(KEY.public)]), [empty], OTHER, lambda *_: None)
    assert passed_on.publish("sales.revenue").state == helper.CAME
    assert empty.objects == tier.objects
