"""What was built beside signed code, and may have it inside, counts as long as that code does."""

import json

import pytest
from nbtest import proc, remotes
from storekit import SECTIONS, find, header, key, open_store

from nbcache import signing_keys
from nbcache.keyring import Keyring, group_of
from nbcache.remote import bundles, objects
from nbcache.store import entry, layers

OURS, THEIRS, NEXT = (signing_keys.generate(name) for name in ("ours", "theirs", "next"))
LIBRARY = "from numba import njit\n\n@njit\ndef g(x):\n    return 2 * x + 1\n"
FIRST = "from library import g\n\nprint(g(3))\n"
SECOND = (
    "import json, sys\nimport nbcache\nfrom numba import njit\nfrom library import g\n\n"
    "@njit\ndef f(x):\n    return g(x) + 1\n\n"
    "print(g(3), f(3))\nprint(json.dumps(nbcache.stats()), file=sys.stderr)\n"
)


@pytest.fixture
def programs(tmp_path):
    (tmp_path / "library.py").write_text(LIBRARY)
    first, second = tmp_path / "first.py", tmp_path / "second.py"
    first.write_text(FIRST)
    second.write_text(SECOND)
    return first, second


def run(program, env, expected):
    outcome = proc.run([program], extra=env)
    assert outcome.stdout == expected, outcome
    return outcome.stderr


def counts_of(program, env):
    """What a process counts, and which functions it compiled besides what Numba needs for itself."""
    if env["NBCACHE_REMOTE"]:
        remotes.wake(env)
    counts = json.loads(run(program, env, "7 8\n").splitlines()[-1])
    built = {each["function"].partition(" ")[0].partition(":")[2] for each in counts["builds"]}
    return counts, built - {"nrt"}


def push(env):
    outcome = proc.run(["-m", "nbcache", "push"], extra=env)
    assert outcome.status == 0, outcome


@pytest.mark.long
def test_a_caller_that_was_built_beside_what_a_key_signed_goes_with_it(fleet, tmp_path, programs):
    first, second = programs
    own = fleet.make_key("own")
    both = f"{fleet.public()} {fleet.public(own)}"
    with remotes.redis(tmp_path) as (address, _):
        builder = fleet.host("builder", address)
        run(first, {**builder, "NBCACHE_REMOTE": ""}, "7\n")
        push(builder)
        host = {**fleet.host("host", address, trusts=both), "NBCACHE_SIGNING_KEY": str(own)}
        assert counts_of(second, host)[1] == {"f"}
        push(host)
        # Signed by one's own key, with the other's code inside.
        reader = fleet.host("reader", address, trusts=both, signs=False)
        assert counts_of(second, reader)[0]["builds_count"] == 0
        wary = fleet.host("wary", address, trusts=fleet.public(own), signs=False)
        counts, built = counts_of(second, wary)
        assert built == {"f", "g"} and "remote: entries were refused" in counts["errors"]
    # Where it was built, and where it came to.
    for each in (host, reader):
        revoked = {**each, "NBCACHE_REMOTE": "", "NBCACHE_TRUSTED_KEYS": fleet.public(own)}
        counts, built = counts_of(second, revoked)
        assert built == {"f", "g"} and counts["misses"]["revoked"] >= len(built)
        # Built anew, beside nobody's.
        assert counts_of(second, revoked)[1] == set()


def beside(*keys):
    made = header("a")
    groups = [[list(each) for each in group_of([objects.sign(key, made, SECTIONS)])] for key in keys]
    return {entry.BESIDE: groups}


def test_an_entry_in_a_store_needs_all_that_it_was_built_beside(tmp_path):
    store = open_store(tmp_path, trusted_keys=(str(OURS.public), str(THEIRS.public)))
    assert store.publish(header("a", extra=beside(OURS, THEIRS)), SECTIONS).ok
    assert len(find(store, "a")[0]) == 1
    for trusted in ([OURS], [THEIRS], []):
        fewer = open_store(tmp_path, trusted_keys=tuple(str(each.public) for each in trusted))
        assert find(fewer, "a") == ([], ["revoked"])
    assert len(find(open_store(tmp_path, trusted_keys=("unsigned",)), "a")[0]) == 1


def test_what_came_in_unsigned_keeps_what_was_built_beside_it_to_those_who_take_that(tmp_path):
    store = open_store(tmp_path, trusted_keys=("unsigned",))
    assert store.publish(header("a", extra={entry.BESIDE: [[]]}), SECTIONS).ok
    assert len(find(store, "a")[0]) == 1
    assert find(open_store(tmp_path, trusted_keys=(str(OURS.public),)), "a") == ([], ["revoked"])


@pytest.mark.parametrize("what", [{}, "", 1, [1], [[1]], [[["ours"]]], [[["ours", 1, 2]]], [[["ours", "x", "0"]]]])
def test_what_cannot_be_read_of_it_counts_for_nothing_good(tmp_path, what):
    store = open_store(tmp_path, trusted_keys=(str(OURS.public),))
    assert store.publish(header("a", extra={entry.BESIDE: what}), SECTIONS).ok
    assert find(store, "a") == ([], ["revoked"])
    assert find(open_store(tmp_path), "a") == ([], ["revoked"])


def packed(made, *keys):
    return entry.encode(made._replace(signed=tuple(objects.sign(each, made, SECTIONS) for each in keys)), SECTIONS)


def test_who_signs_a_bundle_vouches_for_what_its_entries_were_built_beside(tmp_path):
    path = str(tmp_path / "bundle")
    bundles.write(path, iter([packed(header("a", extra=beside(THEIRS)), OURS), packed(header("b"), OURS)]))
    ring = Keyring([str(OURS.public)])
    verdicts = [objects.admit(data, name, ring) for name, data in bundles.read(path)]
    assert verdicts[0] == objects.BESIDE_UNTRUSTED and verdicts[1].header.key == key("b")
    assert bundles.sign(path, NEXT) == 2
    ring = Keyring([str(NEXT.public)])
    admitted = [objects.admit(data, name, ring) for name, data in bundles.read(path)]
    assert [each.header.key for each in admitted] == [key("a"), key("b")]
    # Of what was put into the header afterwards, what others signed before is no proof.
    assert [[each.name for each in found.header.signed] for found in admitted] == [["next"], ["next"]]
    both = Keyring([str(OURS.public), str(NEXT.public)])
    signers = [
        [each.name for each in objects.admit(data, name, both).header.signed] for name, data in bundles.read(path)
    ]
    assert signers == [["next"], ["ours", "next"]]


def test_a_layer_keeps_it(tmp_path):
    store = open_store(tmp_path / "store", trusted_keys=(str(THEIRS.public),))
    assert store.publish(header("a", extra=beside(THEIRS)), SECTIONS).ok
    assert layers.fill(str(tmp_path / "layer"), store, lambda _: True) == 1
    assert find(open_store(tmp_path / "layer", trusted_keys=(str(OURS.public),)), "a") == ([], ["revoked"])
