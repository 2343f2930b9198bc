"""The rule of trust against real users: who can write is proven by writing, then the entry must be refused."""

import ctypes
import grp  # noqa: F401  what the children need is imported before they give up their rights
import os
import subprocess
import sys

import filelock  # noqa: F401
import pytest
from nbtest import users
from nbtest.users import GROUP, GROUP_OBJ, MASK, NO_ID, OTHER, USER, USER_OBJ
from storekit import SECTIONS, find, header, open_store

import nbcache.store.locks
import nbcache.store.slots
import nbcache.store.usage  # noqa: F401
from nbcache.config import Settings
from nbcache.file_trust import Trust
from nbcache.store.directory import Store
from nbcache.store.opened import Refusal

NEW_USER_NAMESPACE = 0x10000000
BOTH = ["entry", "shard"]


@pytest.fixture
def accounts():
    with users.accounts() as made:
        yield made


@pytest.fixture
def owner(accounts):
    """A user with a group of their own."""
    return accounts.add()


@pytest.fixture
def stranger(accounts):
    """Another one."""
    return accounts.add()


def publish(place, account, umask=0o022):
    """Have a user publish an entry into a store of theirs; return the entry and its directory."""
    os.chown(place, account.pw_uid, account.pw_gid)

    def work():
        os.umask(umask)
        return open_store(place / "store").publish(header(), SECTIONS).path

    path = users.become(work, account.pw_uid, account.pw_gid)
    return {"entry": path, "shard": os.path.dirname(path)}


def found(place, account, **settings):
    """What a user finds in the store: how many entries, and why others are passed over."""

    def work():
        entries, reasons = find(open_store(place / "store", **settings))
        return len(entries), reasons

    return users.become(work, account.pw_uid, account.pw_gid)


def acl(*named, mask=7, group=5):
    return [(USER_OBJ, 7, NO_ID), *named, (GROUP_OBJ, group, NO_ID), (MASK, mask, NO_ID), (OTHER, 5, NO_ID)]


@pytest.mark.parametrize("which", BOTH)
@pytest.mark.parametrize("by", ["user", "group"])
def test_an_access_control_list_that_lets_a_stranger_write(place, owner, stranger, which, by):
    paths = publish(place, owner)
    named = (USER, 7, stranger.pw_uid) if by == "user" else (GROUP, 7, stranger.pw_gid)
    users.set_acl(paths[which], acl(named))
    assert users.may_write(paths[which], stranger.pw_uid, stranger.pw_gid)
    assert found(place, owner) == (0, ["untrusted"])
    problem = users.become(
        lambda: Trust().writers_problem(os.stat(paths[which]), paths[which]), owner.pw_uid, owner.pw_gid
    )
    who = f"uid {stranger.pw_uid}" if by == "user" else f"the group {stranger.pw_gid}"
    assert problem == f"is writable by {who}, by its access control list (mode 0775)"


@pytest.mark.parametrize("which", BOTH)
def test_an_access_control_list_that_its_mask_makes_harmless(place, owner, stranger, which):
    paths = publish(place, owner)
    users.set_acl(paths[which], acl((USER, 7, stranger.pw_uid), mask=5))
    assert not users.may_write(paths[which], stranger.pw_uid, stranger.pw_gid)
    assert found(place, owner) == (1, [])


@pytest.mark.parametrize("which", BOTH)
def test_an_access_control_list_that_names_who_is_trusted(place, owner, stranger, which):
    paths = publish(place, owner)
    users.set_acl(paths[which], acl((USER, 7, stranger.pw_uid), group=7))
    assert found(place, owner, trusted_uids=frozenset({stranger.pw_uid})) == (1, [])


def test_an_access_control_list_that_new_files_inherit_gives_nobody_write(place, owner, stranger):
    """nbcache asks for no more than 0755 and 0644, and that bounds what is inherited."""
    users.set_acl(place, acl((USER, 7, stranger.pw_uid)), users.DEFAULT)
    paths = publish(place, owner, umask=0)
    assert not any(users.may_write(path, stranger.pw_uid, stranger.pw_gid) for path in paths.values())
    assert found(place, owner) == (1, [])


@pytest.mark.parametrize("which", BOTH)
def test_a_group_of_one_s_own(place, owner, which):
    paths = publish(place, owner)
    os.chmod(paths[which], 0o775)
    assert found(place, owner) == (1, [])


@pytest.mark.parametrize("which", BOTH)
def test_a_group_of_one_s_own_that_is_another_s_primary_group(place, owner, accounts, which):
    other = accounts.add(group=owner.pw_gid)
    paths = publish(place, owner)
    os.chmod(paths[which], 0o775)
    assert users.may_write(paths[which], other.pw_uid, other.pw_gid)
    assert found(place, owner) == (0, ["untrusted"])


@pytest.mark.parametrize("which", BOTH)
def test_group_0_is_whoever_s_a_container_runs_as(place, accounts, stranger, which):
    store = open_store(place / "store")
    path = store.publish(header(), SECTIONS).path
    writable = path if which == "entry" else os.path.dirname(path)
    os.chown(writable, 0, 0)
    os.chmod(writable, 0o775)
    assert users.may_write(writable, stranger.pw_uid, 0)
    assert find(open_store(place / "store")) == ([], ["untrusted"])


def unshare():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(NEW_USER_NAMESPACE):
        raise OSError(ctypes.get_errno(), "unshare")


def test_an_owner_without_a_number_in_a_user_namespace(place, owner, stranger):
    """Everybody's files show as one's own there."""
    if subprocess.run(["unshare", "-U", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no user namespaces here")
    publish(place, stranger)

    def work():
        assert os.geteuid() == os.stat(place).st_uid
        return Store.open(Settings(dir=str(place / "store"), trusted_uids=frozenset({os.geteuid()})))

    opened = users.become(work, owner.pw_uid, owner.pw_gid, unshare)
    assert isinstance(opened, Refusal)
    assert "the overflow uid, which stands for anybody" in opened.reason


def test_a_database_of_users_that_does_not_list_everybody(place, owner):
    """Who else is in the group can't be known then."""
    program = f"""
import os, pwd
from nbcache.file_trust import Trust
me = pwd.getpwuid({owner.pw_uid})
pwd.getpwall = lambda: []
os.chown({str(place)!r}, me.pw_uid, me.pw_gid)
os.chmod({str(place)!r}, 0o775)
print(Trust(frozenset({{me.pw_uid}})).directory_problem({str(place)!r}))
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "is writable by its group (mode 0775)"
