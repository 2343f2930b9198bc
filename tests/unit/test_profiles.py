"""Profiles: what their files hold, in which order it is built, and whose word counts."""

import os

import pytest

from nbcache.file_trust import Trust
from nbcache.protocol import profiles, requests
from nbcache.protocol.profiles import Head, Profile, Unit
from nbcache.store import content, layout

NAME = "ab" * 16


def unit(name, seconds=1.0, inside=(), used=1.0, value=None, key="0" * 64):
    types = {"version": 1, "args": ["int64"], "returns": None}
    return Unit("dispatcher", f"lib:{name}", "(int64)", types, ("lib",), value, key, seconds, inside, used)


def profile(*units, program="main.py"):
    return Profile(Head(program, {}, "numba", 1.0), list(units))


@pytest.fixture
def root(tmp_path):
    (tmp_path / layout.LAYOUT).mkdir(0o755)
    return str(tmp_path)


def path_of(root):
    return f"{root}/{layout.PROFILES}/{os.geteuid()}/{NAME}.jsonl"


def names(of):
    return [each.function.partition(":")[2] for each in of.units]


def test_what_is_written_is_read():
    written = profile(unit("f", value=b"\0\1"), unit("g", inside=(0,)))
    read = profiles.parsed(profiles.encode(written))
    assert read.units == written.units
    assert read.head == Head("main.py", {"lib": 2}, "numba", 1.0)


def test_a_profile_lies_in_its_users_own_directory(root):
    assert profiles.write(root, NAME, profile(unit("f")))
    read = profiles.read(root, NAME, Trust())
    assert names(read) == ["f"]
    assert (read.head.uid, read.head.name) == (os.geteuid(), NAME)
    [head] = profiles.heads(root, Trust())
    assert head.packages == {"lib": 1}
    assert not profiles.remove(root, NAME, Trust(), 12345)
    assert profiles.remove(root, NAME, Trust(), os.geteuid())
    assert profiles.read(root, NAME, Trust()) is None


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data.replace(b'"version":3', b'"version":1', 1),
        lambda data: data.replace(b'"seconds"', b'"seconbs"', 1),
        lambda data: data.replace(b'"inside":[]', b'"inside":[7]', 1),
        lambda data: data.replace(b"lib:f", b"lib f", 1),
        lambda data: data[: len(data) // 2],
        lambda _data: b"",
        lambda data: data + b"[" * 100_000,
    ],
    ids=["another version", "a field", "a number", "a name", "cut off", "empty", "nested"],
)
def test_what_is_no_profile_of_this_version_is_none(root, spoil):
    profiles.write(root, NAME, profile(unit("f")))
    with open(path_of(root), "rb+") as file:
        data = spoil(file.read())
        file.seek(0)
        file.truncate()
        file.write(data)
    assert profiles.read(root, NAME, Trust()) is None


def test_what_others_may_write_is_nobodys_word(root):
    profiles.write(root, NAME, profile(unit("f")))
    os.chmod(path_of(root), 0o666)
    assert profiles.read(root, NAME, Trust()) is None
    os.chmod(path_of(root), 0o600)
    os.chmod(os.path.dirname(path_of(root)), 0o777)
    assert profiles.read(root, NAME, Trust()) is None
    assert profiles.heads(root, Trust()) == []


def test_a_file_with_another_name_may_be_anybodys(root):
    profiles.write(root, NAME, profile(unit("f")))
    os.link(path_of(root), f"{root}/elsewhere")
    assert profiles.read(root, NAME, Trust()) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files away")
def test_a_strangers_profile_is_not_read_and_a_trusted_users_is(root):
    profiles.write(root, NAME, profile(unit("f")))
    theirs = f"{root}/{layout.PROFILES}/12345"
    os.rename(os.path.dirname(path_of(root)), theirs)
    for each in (theirs, f"{theirs}/{NAME}.jsonl"):
        os.chown(each, 12345, -1)
    assert profiles.read(root, NAME, Trust()) is None
    read = profiles.read(root, NAME, Trust(frozenset({12345})))
    assert read.head.uid == 12345
    assert profiles.read(root, NAME, Trust(frozenset({12345})), os.geteuid()) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files away")
def test_a_strangers_file_in_ones_own_directory_is_not_read(root):
    profiles.write(root, NAME, profile(unit("f")))
    os.chown(path_of(root), 12345, -1)
    assert profiles.read(root, NAME, Trust(frozenset({12345}))) is None


def test_callees_come_before_callers_and_the_longest_path_first():
    listed = profile(
        unit("leaf", 1.0), unit("slow", 9.0), unit("middle", 1.0, (0,)), unit("top", 1.0, (1, 2)), unit("alone", 4.0)
    )
    assert [names(listed)[at] for at in listed.in_order()] == ["slow", "alone", "leaf", "middle", "top"]
    assert listed.ranks() == pytest.approx([3.0, 10.0, 2.0, 1.0, 4.0])
    assert listed.chain(3) == 12.0


def test_of_what_is_equally_urgent_the_last_comes_first_and_no_caller_before_its_callees():
    listed = profile(*(unit(f"f{at}") for at in range(4)), unit("g", 0.1, (0, 1)), unit("h", 0.1, (2, 3)))
    assert [names(listed)[at] for at in listed.in_order()] == ["f3", "f2", "f1", "f0", "h", "g"]


def test_units_that_are_built_upon_each_other_have_an_order():
    listed = profile(unit("f", 1.0, (1,)), unit("g", 2.0, (0,)))
    assert sorted(listed.in_order()) == [0, 1]


def test_another_run_replaces_what_it_compiled_and_keeps_the_rest():
    old = profile(unit("f", key="1" * 64), unit("gone"), unit("g", inside=(0, 1), key="2" * 64))
    new = profiles.merged(old, old.head, [unit("f", seconds=3.0, used=9.0)], ["2" * 64])
    assert names(new) == ["f", "gone", "g"]
    assert new.units[0].seconds == 3.0
    assert new.units[1].used == 1.0
    assert new.units[2].used > 1e9
    assert [names(new)[at] for at in new.units[2].inside] == ["f", "gone"]


def test_of_a_function_by_value_the_newest_counts():
    old = profile(unit("f", value=b"old"))
    new = profiles.merged(old, old.head, [unit("f", value=b"new")], [])
    assert [each.value for each in new.units] == [b"new"]


def test_a_profile_is_bounded_and_loses_what_was_used_the_longest_ago(monkeypatch):
    monkeypatch.setattr(profiles, "MAX_UNITS", 3)
    listed = profile(*(unit(f"f{at}", used=float(at), inside=(at - 1,) if at else ()) for at in range(5)))
    kept = profiles.parsed(profiles.encode(listed))
    assert names(kept) == ["f2", "f3", "f4"]
    assert [each.inside for each in kept.units] == [(), (0,), (1,)]
    monkeypatch.setattr(profiles, "MAX_SIZE", 700)
    assert len(profiles.encode(listed)) <= 700


def test_what_is_written_of_many_units_with_many_callees_is_read(monkeypatch):
    monkeypatch.setattr(requests, "MAX_PARTS", 300)
    listed = profile(*(unit(f"f{at}", used=float(at), inside=tuple(range(at))) for at in range(20)))
    kept = profiles.parsed(profiles.encode(listed))
    assert 0 < len(kept.units) < 20
    assert names(kept)[-1] == "f19"


def test_of_a_profile_that_is_looked_at_only_the_head_is_read(root, monkeypatch):
    """However long its words are, it is in there."""
    many = [Unit("dispatcher", f"p{at}{'é' * 200}:f", "()", {}, (), b"x" * 500, "0" * 64, 1.0) for at in range(100)]
    profiles.write(root, NAME, profile(*many, program="\U0001f600" * 5000))
    reads = []
    monkeypatch.setattr(content, "read_up_to", lambda fd, most: reads.append(most) or os.read(fd, most))
    [head] = profiles.heads(root, Trust())
    assert head.packages
    assert sum(reads) <= 16 << 10 < head.size


def test_a_user_has_so_many_profiles(root, monkeypatch):
    monkeypatch.setattr(profiles, "MAX_PROFILES", 3)
    for at in range(6):
        profiles.write(root, f"{at:032x}", profile(unit("f")))
        os.utime(f"{os.path.dirname(path_of(root))}/{at:032x}.jsonl", (1.8e9 + at, 1.8e9 + at))
    assert [head.name for head in profiles.heads(root, Trust())] == [f"{at:032x}" for at in (5, 4, 3)]


def test_for_a_program_without_a_profile_that_of_a_package_stands_in(root):
    profiles.write(
        root, NAME, profile(unit("f"), Unit("dispatcher", "other:g", "()", {}, (), None, "0" * 64, 1.0, (0,)))
    )
    assert names(profiles.of_package(root, "lib", Trust())) == ["f"]
    assert profiles.of_package(root, "other", Trust()).units[0].inside == ()
    assert profiles.of_package(root, "third", Trust()) is None


def asked(**changed):
    said = {
        "key": layout.reserved("a lane"), "kind": requests.PROFILE, "function": "profile:main.py", "signature": "",
        "types": {"uid": 0, "package": "", "lane": 1}, "source": NAME, "value": None, "modules": (), "path": ("/a",),
        "interpreter": "/bin/python", "settings": {}, "toolchain": "", "components": (), "created": 1.0, "host": "h",
        "pid": 1,
    }  # fmt: skip
    return requests.Request(**(said | changed))


def test_a_profile_is_asked_for_and_its_units_from_where_that_was_done():
    read = requests.read(asked().line())
    assert read == asked()
    of = unit("f", key="5a" * 32).request(read)
    assert (of.function, of.path, of.interpreter) == ("lib:f", ("/a",), "/bin/python")
    assert requests.read(of.line()).function == "lib:f"


def test_whatever_an_entry_says_that_it_took_the_sum_is_a_number():
    """Mallory's entry says 1e308 s, Bob's program loads it, and his profile has it."""
    units = [unit("f", 1e308), unit("g", 1e308, inside=(0,)), unit("h", -1e308, inside=(1,))]
    read = profiles.parsed(profiles.encode(profile(*units)))
    assert read.seconds == 2 * profiles.MAX_SECONDS
    assert read.in_order() == [0, 1, 2]


def test_who_asks_for_a_profile_has_nobodys_key_and_who_asks_for_a_function_has_no_reserved_one():
    """Mallory's lane had Bob's key, and all that he asked for waited until it was over."""
    with pytest.raises(requests.BadRequestError, match="key"):
        requests.read(asked(key="5a" * 32).line())
    with pytest.raises(requests.BadRequestError, match="key"):
        requests.read(unit("f").request(asked())._replace(key=layout.reserved("a lane")).line())


def test_who_asks_for_a_profile_names_it():
    with pytest.raises(requests.BadRequestError, match="by"):
        requests.read(asked(source=None, value=b"a pickle").line())


@pytest.mark.parametrize("types", [{}, {"uid": -1, "package": "", "lane": 0}, {"uid": 0, "package": 1, "lane": 0}])
def test_who_asks_for_a_profile_says_whose(types):
    with pytest.raises(requests.BadRequestError):
        requests.read(asked(types=types).line())
