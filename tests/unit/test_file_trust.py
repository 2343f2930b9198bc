"""The rule of trust."""

import grp
import os
import pwd
import stat
from types import SimpleNamespace

import pytest

from nbcache import file_trust as trust_module
from nbcache import groups, process
from nbcache.file_trust import Trust

ME = os.geteuid()
STRANGER = 4242


NOWHERE = "/nonexistent"
"""Where no access control list is: it is only looked at where a group may write."""


@pytest.fixture
def somewhere(tmp_path):
    """A file without an access control list."""
    (tmp_path / "plain").touch()
    return str(tmp_path / "plain")


def status(mode=stat.S_IFREG | 0o644, uid=ME, gid=0):
    return os.stat_result((mode, 1, 1, 1, uid, gid, 0, 0, 0, 0))


@pytest.mark.parametrize("uid", [ME, 0])
def test_own_files_and_roots_are_trusted(uid):
    assert Trust().allows(status(uid=uid), NOWHERE)
    assert Trust().file_problem(status(uid=uid), NOWHERE) is None


def test_a_stranger_is_trusted_when_named():
    assert not Trust().allows(status(uid=STRANGER), NOWHERE)
    assert Trust(frozenset({STRANGER})).allows(status(uid=STRANGER), NOWHERE)
    assert "is owned by uid 4242, who isn't trusted" in Trust().file_problem(status(uid=STRANGER), NOWHERE)


@pytest.mark.parametrize("kind", [stat.S_IFIFO, stat.S_IFDIR, stat.S_IFLNK, stat.S_IFSOCK, stat.S_IFCHR, stat.S_IFBLK])
def test_only_regular_files(kind):
    assert not Trust().allows(status(kind | 0o644), NOWHERE)
    assert Trust().file_problem(status(kind | 0o644), NOWHERE) == "is not a regular file"


def test_world_writable_is_not_trusted():
    assert not Trust().allows(status(stat.S_IFREG | 0o646), NOWHERE)
    assert Trust().file_problem(status(stat.S_IFREG | 0o646), NOWHERE) == "is writable by others (mode 0646)"


def group(name, gid, members=()):
    return SimpleNamespace(gr_name=name, gr_gid=gid, gr_mem=list(members))


@pytest.mark.parametrize(
    ("user_gid", "name", "members", "trusted"),
    [
        (77, "me", [], True),
        (77, "me", ["me"], True),
        (77, "me", ["me", "you"], False),
        (77, "team", [], False),
        (78, "me", [], False),
    ],
)
def test_group_writable_is_only_fine_for_a_private_group(monkeypatch, user_gid, name, members, trusted, somewhere):
    monkeypatch.setattr(pwd, "getpwuid", lambda _: SimpleNamespace(pw_name="me", pw_gid=user_gid))
    monkeypatch.setattr(grp, "getgrgid", lambda gid: group(name, gid, members))
    monkeypatch.setattr(groups, "_primary_groups", lambda: {77: {ME}})
    rule = Trust()
    assert rule.allows(status(stat.S_IFREG | 0o664, gid=77), somewhere) is trusted
    problem = rule.file_problem(status(stat.S_IFREG | 0o664, gid=77), somewhere)
    assert problem == (None if trusted else "is writable by its group (mode 0664)")


def test_an_unknown_group_is_not_private(somewhere):
    assert not Trust().allows(status(stat.S_IFREG | 0o664, gid=987654), somewhere)


def test_the_group_is_looked_up_once(monkeypatch, somewhere):
    asked = []
    monkeypatch.setattr(groups, "_is_private_group", lambda *pair: asked.append(pair[:2]) or True)
    rule = Trust()
    for _ in range(3):
        assert rule.allows(status(stat.S_IFREG | 0o664, gid=77), somewhere)
    assert asked == [(ME, 77)]


def test_directories(tmp_path):
    rule = Trust()
    assert rule.directory_problem(str(tmp_path)) is None
    assert rule.path_problem(str(tmp_path)) is None
    (tmp_path / "file").touch()
    assert rule.directory_problem(str(tmp_path / "file")) == "is not a directory"
    (tmp_path / "link").symlink_to(tmp_path)
    assert rule.directory_problem(str(tmp_path / "link")) == "is not a directory"
    assert "No such file" in rule.directory_problem(str(tmp_path / "none"))
    assert "can't be examined" in rule.directory_problem("a\0b")


@pytest.mark.parametrize(("mode", "fine_above", "fine_itself"), [(0o755, 1, 1), (0o1777, 1, 0), (0o777, 0, 0)])
def test_sticky_is_fine_above_but_not_in_the_store(tmp_path, mode, fine_above, fine_itself):
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    inner.parent.chmod(mode)
    rule = Trust()
    assert (rule.path_problem(str(inner)) is None) == bool(fine_above)
    assert (rule.directory_problem(str(inner.parent)) is None) == bool(fine_itself)


@pytest.mark.skipif(ME != 0, reason="needs root to give files away")
def test_a_strangers_parent_is_not_trusted_even_if_sticky(tmp_path):
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    inner.parent.chmod(0o1777)
    os.chown(inner.parent, STRANGER, -1)
    problem = Trust().path_problem(str(inner))
    assert (
        problem == f"lies in {inner.parent}, which is owned by uid 4242, who isn't trusted (see NBCACHE_TRUSTED_UIDS)"
    )
    assert Trust(frozenset({STRANGER})).path_problem(str(inner)) is None


def test_no_error_gets_out(monkeypatch, tmp_path):
    def fail(_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(trust_module.os, "lstat", fail)
    assert Trust().path_problem(str(tmp_path)) == "can't be examined: Input/output error"
    assert "Input/output error" in Trust().parents_problem(str(tmp_path))


def test_the_overflow_uid_is_anybody():
    everybody = Trust(frozenset({trust_module.overflow_id("uid")}))
    strange = status(uid=trust_module.overflow_id("uid"))
    assert not everybody.allows(strange, NOWHERE)
    assert (
        everybody.file_problem(strange, NOWHERE) == "is owned by uid 65534, the overflow uid, which stands for anybody"
    )
    assert not groups._is_private_group(ME, 77, nobody=77)


@pytest.mark.parametrize("data", [b"", b"\x02", b"\x03\0\0\0", b"\x02\0\0\0" + b"\0" * 7, b"\x02\0\0\0" + b"\0" * 9])
def test_an_unreadable_access_control_list_lets_others_write(monkeypatch, data):
    monkeypatch.setattr(process.os, "getxattr", lambda *_, **__: data)
    problem = Trust().file_problem(status(stat.S_IFREG | 0o664), NOWHERE)
    assert problem == "is writable by whom its access control list names, which can't be read (mode 0664)"


def test_an_access_control_list_that_cannot_be_had_lets_others_write(monkeypatch):
    def fail(*_, **__):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(process.os, "getxattr", fail)
    assert not Trust().allows(status(stat.S_IFREG | 0o664), 0)


def test_a_large_database_of_users_is_not_gone_through(monkeypatch):
    monkeypatch.setattr(groups, "MAX_ACCOUNTS", 1)
    monkeypatch.setattr(pwd, "getpwall", lambda: [SimpleNamespace(pw_uid=1, pw_gid=1)] * 2)
    groups._primary_groups.cache_clear()
    try:
        assert groups._primary_groups() == {}
    finally:
        groups._primary_groups.cache_clear()
