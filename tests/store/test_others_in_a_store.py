"""What somebody who isn't trusted can do to a store that others use, and to those who look into it: done by a real user."""

import json
import os

import pytest
from nbtest import users
from storekit import SECTIONS, find, header, key, open_store

from nbcache.config import Settings
from nbcache.file_trust import Trust
from nbcache.metrics.ledger import Ledger
from nbcache.store import layers, layout, listing, pins, publication, usage, usage_sums
from nbcache.store.directory import Store
from nbcache.store.opened import Refusal

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="needs root: becomes another user"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]
STRANGER = 4321


def as_stranger(work):
    return users.become(work, STRANGER, STRANGER)


@pytest.fixture
def shared(place):
    """A directory like /tmp."""
    folder = place / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


@pytest.fixture
def unpacked(place):
    """A store that is ours, as far as owners tell: it came out of a stranger's archive."""
    store = open_store(place / "downloads/archive/store")
    assert store.publish(header(), SECTIONS).ok
    return store.path


def filled(path):
    """Make a store with an entry, and the directory that another one needs."""
    store = open_store(path)
    store.publish(header("theirs"), SECTIONS)
    os.makedirs(os.path.dirname(layout.slot_path(store.path, key())), exist_ok=True)


@pytest.mark.parametrize("how", ["a link", "a link on the way", "in their directory", "to what isn't there"])
def test_a_store_that_a_stranger_named(shared, unpacked, how):
    above, name = os.path.split(unpacked)
    if how == "a link":
        as_stranger(lambda: os.symlink(unpacked, shared / "store"))
        given = shared / "store"
    elif how == "a link on the way":
        as_stranger(lambda: os.symlink(above, shared / "link"))
        given = shared / "link" / name
    elif how == "in their directory":
        as_stranger(lambda: os.mkdir(shared / "theirs"))
        os.symlink(unpacked, shared / "theirs/store")
        given = shared / "theirs/store"
    else:
        as_stranger(lambda: os.symlink(f"{above}/new", shared / "store"))
        given = shared / "store"
    refused = Store.open(Settings(dir=str(given)))
    assert isinstance(refused, Refusal)
    assert f"is owned by uid {STRANGER}, who isn't trusted" in refused.reason
    assert not os.path.exists(f"{above}/new")
    place = layers.Place("layer", str(given))
    if how != "to what isn't there":
        assert isinstance(layers.open_layer(place, Trust()), Refusal)
        assert find(open_store(given, trusted_uids=frozenset({STRANGER})))[0]
    assert isinstance(layers.open_layer(layers.Place("layer", unpacked), Trust()), Store)


def test_one_s_own_links_lead_to_a_store(shared, unpacked):
    os.symlink(os.path.dirname(unpacked), shared / "link")
    for given in (shared / "link/store", f"{shared}/link/../archive/store/", shared / "link/new/store"):
        assert open_store(given).path.startswith(os.path.dirname(unpacked))
    assert find(open_store(shared / "link/store"))[0]


@pytest.mark.parametrize("how", ["theirs", "an entry", "a published name", "a link"])
def test_nothing_is_added_to_a_layer_that_a_stranger_has_begun(place, shared, how):
    """It becomes part of a package, and whoever installs that owns all of it."""
    ours, layer = open_store(place / "ours"), shared / "layer"
    ours.publish(header(), SECTIONS)
    if how in {"theirs", "a link"}:
        as_stranger(lambda: filled(layer))
    else:
        filled(layer)
    if how == "an entry":
        for info in open_store(layer).scan():
            os.chown(info.path, STRANGER, STRANGER)
    elif how == "a published name":
        os.mkdir(layer / layout.NAMES)
        os.chown(layer / layout.NAMES, STRANGER, STRANGER)
    elif how == "a link":
        (shared / "mine/v1").mkdir(parents=True)
        (shared / "mine/v1/objects").symlink_to(layer / "v1/objects")
        layer = shared / "mine"
    with pytest.raises(PermissionError, match=r"isn't trusted|is a symbolic link"):
        layers.fill(str(layer), ours, lambda _: True)
    assert not os.path.exists(layout.slot_path(str(layer), key()))


def test_a_layer_of_one_s_own_grows(place, shared):
    ours = open_store(place / "ours")
    ours.publish(header(), SECTIONS)
    assert layers.fill(str(shared / "layer"), ours, lambda _: True) == 1
    ours.publish(header("b"), SECTIONS)
    assert layers.fill(str(shared / "layer"), ours, lambda _: True) == 2


def many(store, form, count=2000):
    """Have a stranger fill the directory of usage records with old files of such names."""

    def work():
        for number in range(count):
            path = f"{store.path}/{layout.USAGE}/{form}" % number
            with open(path, "w"):
                pass
            os.utime(path, (1, 1))

    as_stranger(work)


class Clock:
    """One on which a second passes each time that somebody looks at it."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 1.0
        return self.now


def test_names_without_end_cost_a_sweep_no_more_than_it_has(place, monkeypatch):
    store = open_store(place / "store")
    many(store, ".%d.tmp")
    behind = f"{store.path}/{layout.REQUESTS}/.left.tmp"
    open(behind, "w").close()
    os.utime(behind, (1, 1))
    monkeypatch.setattr(listing.time, "monotonic", Clock())
    went = listing.sweep(store.path, deadline=12.0)
    assert 0 < went < 2000
    # Who gets no further there goes on elsewhere.
    assert not os.path.exists(behind)


def test_names_that_are_no_records_are_looked_at_only_as_long_as_there_is_time(place):
    store = open_store(place / "store")
    many(store, "name%d")
    budget = usage.Budget(seconds=-1.0)
    assert list(usage.read(store.path, budget)) == []
    assert budget.over


def test_a_record_counts_once_however_many_names_it_has(place, monkeypatch):
    store = open_store(place / "store")
    assert store.write_usage({"hits": {key("a"): 1}}) is not None
    where = f"{store.path}/{layout.USAGE}"

    def work():
        with open(f"{where}/0.json", "w") as file:
            json.dump({"version": usage.VERSION, "hits": {key("b"): 1}}, file)
        for number in range(1, 100):
            os.link(f"{where}/0.json", f"{where}/{number}.json")

    as_stranger(work)
    read = []
    parse = usage.content.read_json_from
    monkeypatch.setattr(
        usage.content, "read_json_from", lambda *given, **named: read.append(1) or parse(*given, **named)
    )
    assert usage.merge(usage.read(store.path))["processes"] == 2
    assert len(read) == 2
    ledger = Ledger(store.path)
    sums, complete = ledger.sums()
    assert (sums["processes"], complete) == (2, True)
    assert len(read) == 4
    usage_sums.fold(store.path, lambda _: True, age=-60.0)
    assert usage.read_total(store.path)["processes"] == 2
    assert os.listdir(where) == []


def test_what_lies_in_a_layer_keeps_nobody_who_looks_at_it(place):
    layer = open_store(place / "layer")
    names = {what: f"{key(what)[:2]}/{key(what)[2:]}.nbo" for what in ("a", "fifo", "link", "endless", "directory")}
    paths = {what: f"{layer.path}/{layout.OBJECTS}/{name}" for what, name in names.items()}
    layer.publish(header(), SECTIONS)
    for path in paths.values():
        os.makedirs(os.path.dirname(path), exist_ok=True)
    os.mkfifo(paths["fifo"])
    os.symlink("/dev/zero", paths["link"])
    os.mkdir(paths["directory"])
    with open(paths["endless"], "wb") as file:
        file.truncate(1 << 40)
    assert {bad.path for bad in layer.verify()} == set(paths.values()) - {paths["a"]}
    assert layers.processors_of(layer) == []


@pytest.mark.parametrize("created", ["1" + "0" * 400, "NaN", "Infinity", "-1e308"])
def test_a_publication_of_no_time(created):
    about = f'"name":"x","version":1,"created":{created},"entries":[],"files":[]'.encode()
    rest = about + b',\n"manifest":{}}\n'
    data = b'{"nbcache-name":1,"digest":"%s",\n' % publication._digest(rest).encode() + rest
    assert publication.decode(data) == pins.references(data) == publication.DAMAGED
