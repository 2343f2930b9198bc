"""Published names in remote tiers: for processes without Numba that share no directory with who published them."""

import random
import textwrap
import threading
import time
import zlib

import pytest
from nbtest import daemons, proc, published
from nbtest.fuzzing import mutated
from nbtest.published import OF_FOUR_KINDS, accumulator, node
from storekit import open_store

from nbcache import signing_keys
from nbcache.config import Settings
from nbcache.errors import PublicationError
from nbcache.keyring import Keyring
from nbcache.protocol import blobs, helper
from nbcache.published import as_bytes
from nbcache.published import load as loading
from nbcache.remote import objects, publications
from nbcache.remote.publications import Publications
from nbcache.remote.tiers import Got
from nbcache.secret import Secret
from nbcache.store import content, name_writing, publication
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


@pytest.mark.every(6)
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


@pytest.mark.every(3)
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


@pytest.mark.every(3)
def test_who_follows_takes_newer_versions_of_the_tiers(fleet, maker):
    publish(fleet, maker[0])
    begun = """
    from nbcache.published import following, names_in_tiers
    names_in_tiers.AGAIN_SECONDS = following.LOOK_SECONDS = 0.01
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


@pytest.mark.every(3)
def test_who_does_not_trust_the_key_is_given_nothing(fleet, maker):
    publish(fleet, maker[0])
    refused = """
    import nbcache.errors
    try:
        raise SystemExit(nbcache.load("sales.revenue"))
    except nbcache.errors.PublicationError as error:
        assert "WHY" in str(error), error
    """
    other = str(signing_keys.generate("other").public)
    stranger = fleet.host("stranger", maker[0]["NBCACHE_REMOTE"], signs=False, trusts=other)
    load(fleet, stranger, refused.replace("WHY", objects.UNTRUSTED))
    # Nor does who has it still, and stopped trusting the key.
    load(fleet, maker[1])
    without = {**maker[1], "NBCACHE_TRUSTED_KEYS": other, "NBCACHE_REMOTE": "none"}
    load(fleet, without, refused.replace("WHY", "no key in NBCACHE_TRUSTED_KEYS signed"))


@pytest.mark.long
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
    import sys
    import numpy as np
    import nbcache.errors
    assert nbcache.load("sales.scaled")(np.ones(1)) == 3.0
    try:
        raise SystemExit(nbcache.exists("sales.other"))
    except nbcache.errors.PublicationError as error:
        print("nothing here:", error, file=sys.stderr)
    """

    def said():
        """What a node says; not which server it is as long as the helper that was started hasn't answered."""
        line = load(fleet, dead, program).stderr
        return ("no answer in time" not in line and line) or None

    line = daemons.wait_for(said)
    assert "a newer version in the remote cache can't be: redis://" in line
    assert "of the remote cache: redis://127.0.0.1:1" in line.partition("nothing here:")[2]


# -- what others may have put there ----------------------------------------------------------------

KEY, OTHER = signing_keys.generate("ours"), signing_keys.generate("other")


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


def with_digest(data):
    """Have the digest right, as whoever alters bytes on purpose would."""
    _first, _, rest = data.partition(b"\n")
    return publication._FIRST + publication._digest(rest).encode() + publication._FIRST_END + rest


MUTATIONS = 2000


def test_what_was_mutated_on_purpose_is_refused(tier, there):
    rng, whole = random.Random(7), tier.objects[NAMED]
    for number in range(MUTATIONS):
        tier.objects[NAMED] = with_digest(mutated(rng, [whole]))
        if tier.objects[NAMED] != whole:
            assert there().state == helper.REFUSED, (number, tier.objects[NAMED])
    assert there.store.names.known() == []


def test_pieces_of_two_versions_make_no_third(tier, there):
    rng, whole = random.Random(7), tier.objects[NAMED]
    one = publication.decode(whole)
    other = publication.decode(resigned(whole, version=7, created=one.created + 9, expires=1e12, manifest=b"null"))
    fields = ("version", "created", "files", "manifest", "expires", "objects", "signed")
    for number in range(MUTATIONS):
        mixed = one._replace(
            **{name: getattr(other, name) for name in rng.sample(fields, rng.randrange(1, len(fields)))}
        )
        tier.objects[NAMED] = publication.encode(mixed)
        # Of the files both have the same, and neither needs object files.
        if mixed._replace(digest="") not in {one._replace(digest=""), other._replace(digest="")}:
            assert there().state == helper.REFUSED, (number, mixed)
    assert there.store.names.known() == []


def altered(data, **changed):
    """Write what nbcache wouldn't, with the digest right."""
    found = publication.decode(data)
    line = publication.encode(found._replace(manifest=b"")).split(b"\n")[1] + changed.get("about", b",")[:-1]
    return with_digest(b"\n" + line + b'\n"manifest":' + changed.get("manifest", found.manifest) + b"}\n")


@pytest.mark.parametrize(
    "data",
    [
        {"manifest": b'{"manifest":\n8}'},
        {"about": b'"x":[' + b"0," * publication.MAX_ABOUT + b"0],"},
        {"manifest": b" " * publication.MAX_SIZE},
    ],
    ids=["a-line-more", "much-json", "large"],
)
def test_what_is_in_the_way_keeps_no_good_one_out_and_is_replaced(tier, tmp_path, made, data, monkeypatch):
    first = Tier()
    first.objects = {**tier.objects, NAMED: altered(tier.objects[NAMED], **data)}
    read = []
    monkeypatch.setattr(publication, "parsed", lambda line: read.append(len(line)) or content.parsed(line))
    store = open_store(tmp_path / "there", trusted_keys=(str(KEY.public),))
    here = Publications(store, Keyring([str(KEY.public)]), [first, tier], None, lambda *_: None)
    assert here.load("sales.revenue", 60.0).state == helper.CAME
    assert of(made, first)[1].publish("sales.revenue").state == helper.CAME
    assert first.objects[NAMED] == tier.objects[NAMED]
    # Whoever wrote it: reading takes no time nor memory to speak of.
    assert max(read) <= publication.MAX_ABOUT + 2


def test_no_more_signatures_are_verified_than_anything_has(tier, there, monkeypatch):
    found = publication.decode(tier.objects[NAMED])
    (right,) = found.signed
    verified = []
    monkeypatch.setattr(signing_keys, "is_right", lambda *_: verified.append(1))
    for count in (content.MAX_SIGNATURES, content.MAX_SIGNATURES + 1, 1000):
        tier.objects[NAMED] = publication.encode(found._replace(signed=(right,) * count))
        assert there().state == helper.REFUSED
    assert len(verified) == content.MAX_SIGNATURES


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
    return publication.encode(found._replace(signed=(tuple(signing_keys.sign(key, publications._text(found))),)))


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"name": "sales.other"}, publications.OTHER_NAME),
        ({"entries": ("a" * 64,)}, objects.DAMAGED),
        ({"older": (1,)}, objects.DAMAGED),
        ({"files": ()}, objects.DAMAGED),
        ({"objects": ("a" * 64,)}, objects.DAMAGED),
        ({"manifest": b"{}"}, objects.OTHER_VERSION),
        ({"created": float(publications.LATEST)}, objects.DAMAGED),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_signature_does_not_make_right_what_nbcache_does_not_write(tier, there, changed, why):
    tier.objects[NAMED] = resigned(tier.objects[NAMED], **changed)
    assert there() == helper.Answer(helper.REFUSED, f"memory://: {why}")


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
        wrong = signing_keys.sign(KEY, blobs.text_of(digest))
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
    assert of(made, tier)[1].publish("sales.revenue").why == f"memory://: {publications.NEWER}"
    whole_store = of(made, tier)[1].publish("sales.revenue", whole=True)
    assert whole_store.state == helper.CAME and tier.objects[NAMED] == later
    tier.objects[NAMED] = resigned(before, created=publication.decode(before).created + 99, expires=1.0)
    assert there() == helper.Answer(helper.MISSING)


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


def test_what_was_taken_back_does_not_come_again_but_what_is_newer_does(tier, there, tmp_path):
    before = tier.objects[NAMED]
    there()
    of(tmp_path / "empty", tier)[1].publish("sales.revenue")
    there()
    tier.objects[NAMED] = before
    assert there().state == helper.MISSING and there.store.names.known() == []
    tier.objects[NAMED] = resigned(before, created=time.time() + 9)
    assert there().state == helper.CAME
    # It is not kept for ever, nor does a key count that isn't trusted any more.
    assert there.store.names.withdrawal("sales.revenue").expires < time.time() + name_writing.REMEMBERED_SECONDS + 1
    there.store.names.remove("sales.revenue")
    tier.objects[NAMED] = resigned(before, OTHER)
    assert of(there.store.path, tier, trusts=OTHER)[1].load("sales.revenue", 60.0).state == helper.CAME


def test_what_a_server_did_not_hear_of_is_taken_back_by_the_next_push(tier, made, tmp_path):
    before, (store, here) = tier.objects[NAMED], of(tmp_path / "publisher", tier)
    here.load("sales.revenue", 60.0)
    store.names.remove("sales.revenue", remember=True)
    assert here.load("sales.revenue", 60.0).state == helper.MISSING and store.names.known() == []
    assert store.names.withdrawn() == ["sales.revenue"]
    assert here.publish("sales.revenue", whole=True).state == helper.CAME
    assert publication.decode(tier.objects[NAMED]).created == store.names.withdrawal("sales.revenue").created
    assert tier.objects[NAMED] != before


def test_what_is_replaced_or_taken_back_by_a_clock_that_is_behind_is_so_all_the_same(tier, there):
    later = publications.LATEST - 1.0
    tier.objects[NAMED] = resigned(tier.objects[NAMED], created=later)
    there()
    found = there.store.names.read("sales.revenue")
    assert there.store.names.write("sales.revenue", found.manifest, digests=found.files).created > later
    there.store.names.remove("sales.revenue", remember=True)
    taken_back = there.store.names.withdrawal("sales.revenue").created
    assert there.store.names.write("sales.revenue", found.manifest, digests=found.files).created > taken_back > later


@pytest.mark.every(4)
@pytest.mark.parametrize("meanwhile", ["from-elsewhere", "here"])
@pytest.mark.parametrize("what", ["an-older-one", "a-withdrawal"])
def test_who_is_slow_brings_nothing_back(tier, tmp_path, made, meanwhile, what, monkeypatch):
    """A server that answers two who ask at once as it likes, and the second one sooner."""
    before = publication.decode(tier.objects[NAMED])
    store, here = of(tmp_path / "there", tier)
    if what == "a-withdrawal":
        here.load("sales.revenue", 60.0)
        tier.objects[NAMED] = resigned(tier.objects[NAMED], created=before.created + 1, manifest=b"null", files=())
    waits, goes_on = threading.Event(), threading.Event()
    lacks = store.names.lacks

    def slow(found, counts):
        answer = lacks(found, counts)
        if not waits.is_set():
            waits.set()
            assert goes_on.wait(600)
        return answer

    monkeypatch.setattr(store.names, "lacks", slow)
    slow_one = threading.Thread(target=here.load, args=("sales.revenue", 600.0))
    slow_one.start()
    assert waits.wait(600)
    other, there = of(tmp_path / "there", tier)
    newer = resigned(publication.encode(before), created=before.created + 9)
    tier.objects[NAMED] = newer
    assert there.load("sales.revenue", 60.0).state == helper.CAME
    if meanwhile == "here":
        found = other.names.read("sales.revenue")
        newer = publication.encode(other.names.write("sales.revenue", found.manifest, digests=found.files))
    goes_on.set()
    slow_one.join()
    assert other.names.read("sales.revenue").created == publication.decode(newer).created


def test_what_nobody_who_is_trusted_signed_is_in_nobody_s_way(tier, tmp_path):
    before = tier.objects[NAMED]
    both = Keyring([str(KEY.public), str(OTHER.public)])
    store = open_store(tmp_path / "there", trusted_keys=(str(KEY.public), str(OTHER.public)))
    tier.objects[NAMED] = resigned(before, OTHER, created=publications.LATEST - 1.0)
    assert Publications(store, both, [tier], None, lambda *_: None).load("sales.revenue", 60.0).state == helper.CAME
    tier.objects[NAMED] = before
    assert of(tmp_path / "there", tier)[1].load("sales.revenue", 60.0).state == helper.CAME


def test_who_has_a_newer_one_in_a_layer_gets_no_older_one(tier, there):
    created = publication.decode(tier.objects[NAMED]).created
    there_now = of(there.store.path, tier)[1]
    assert there_now.load("sales.revenue", 60.0, created).state == helper.MISSING
    assert there.store.names.known() == []
    assert there_now.load("sales.revenue", 60.0, created - 1).state == helper.CAME


def test_what_has_another_number_here_than_it_was_signed_with_is_pushed_by_nobody(tier, there, made):
    before = publication.decode(tier.objects[NAMED])
    tier.objects[NAMED] = resigned(tier.objects[NAMED], version=5)
    there()
    tier.objects[NAMED] = resigned(tier.objects[NAMED], version=1, created=before.created + 9)
    there()
    empty = Tier()
    passed_on = Publications(there.store, Keyring([str(KEY.public)]), [empty], OTHER, lambda *_: None)
    assert "came signed as another version" in passed_on.publish("sales.revenue").why
    assert not empty.objects


def test_a_file_that_nobody_would_take_is_not_pushed(tier, tmp_path, monkeypatch):
    here = of(tmp_path / "there", tier)[1]
    here.load("sales.revenue", 60.0)
    monkeypatch.setattr(objects, "MAX_OBJECT", 100)
    assert "a file of it is larger than 100 bytes" in here.publish("sales.revenue").why


def test_who_signs_what_was_loaded_makes_nobody_s_key_superfluous(there, tmp_path):
    """Neither as bytes, nor when these are signed by somebody else again."""
    there()
    keys = [KEY, OTHER, signing_keys.generate("third")]
    loaded = loading._load([there.store], "sales.revenue", None, "forbid")[1]
    for count, key in enumerate(keys[1:], 2):
        path = tmp_path / f"{count}.key"
        signing_keys.save(key, str(path))
        data = as_bytes.dumps(loaded, Settings(signing_key=Secret(str(path))), None)
        trusted = [Secret(str(each.public)) for each in keys[:count]]
        for without in range(count):
            with pytest.raises(PublicationError, match="in NBCACHE_TRUSTED_KEYS signed"):
                as_bytes.loads(data, Settings(trusted_keys=(*trusted[:without], *trusted[without + 1 :])))
        loaded = as_bytes.loads(data, Settings(trusted_keys=tuple(trusted)))
        assert loaded(2.0, 0.5) == 1.0


def test_without_a_key_nothing_is_uploaded_and_what_came_keeps_its_signatures(tier, there, made, tmp_path):
    empty = Tier()
    assert "NBCACHE_SIGNING_KEY is not set" in of(made, empty, None)[1].publish("sales.revenue").why
    assert not empty.objects
    there()
    passed_on = Publications(there.store, Keyring([str(KEY.public)]), [empty], OTHER, lambda *_: None)
    assert passed_on.publish("sales.revenue").state == helper.CAME
    assert empty.objects == tier.objects
