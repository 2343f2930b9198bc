"""Strangers who were first to make what is named after a user: he has another place, and nobody looks for long."""

from __future__ import annotations

import os
import shutil
import signal

import pytest
from nbtest import daemons, proc, users
from nbtest.spoiling import spoil
from storekit import open_store

from nbcache.file_trust import Trust
from nbcache.store import layout, user_directories

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="needs root: becomes other users"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]
STRANGER, HOMELESS = 4321, 54321
LIB = "from numba import njit\n@njit\ndef f(x):\n    return x + 41\n"
WARNING = f"belongs to uid {STRANGER}, and not to the uid that it is named after"


@pytest.fixture
def user():
    """A user with a home, as whom an interpreter can be executed."""
    if proc.interpreter_for(HOMELESS) is None:
        pytest.skip("no interpreter that an unprivileged user may execute")
    with users.accounts() as accounts:
        account = accounts.add()
        os.makedirs(account.pw_dir)
        os.chown(account.pw_dir, account.pw_uid, account.pw_gid)
        try:
            yield account.pw_uid
        finally:
            shutil.rmtree(account.pw_dir)


def take(store, where, uid, count, beside=0):
    """Have a stranger make what is named after a user, with so many directories in it and beside it."""

    def work():
        path = f"{store}/{where}/{uid}"
        os.mkdir(path)
        for number in range(count):
            os.mkdir(f"{path}/{number}")
        for number in range(beside):
            os.mkdir(f"{store}/{where}/{uid}-{number:08x}")

    users.become(work, STRANGER, STRANGER)


def run(main, store, uid, **extra):
    return proc.run(
        [main], store, {**proc.packages(), **extra}, user=uid, python=proc.interpreter_for(HOMELESS), cwd="/"
    )


def program(place):
    (place / "lib.py").write_text(LIB)
    (place / "main.py").write_text("import lib\nprint(lib.f(1))\n")
    return place / "main.py"


@pytest.mark.long
@pytest.mark.parametrize("count", [3000, 60_000])
def test_crashes_are_known_although_a_stranger_has_the_place(place, user, count):
    main, store = program(place), place / "store"
    assert run(main, store, 0).stdout == "42\n"
    shutil.rmtree(store / layout.TRIALS / "0", ignore_errors=True)
    spoil(store, "lib:f")
    take(store, layout.TRIALS, user, count, beside=count)
    outcomes = [run(main, store, user) for _ in range(6)]
    assert [outcome.status for outcome in outcomes] == [-signal.SIGILL] * 2 + [0] * 4
    assert {outcome.stdout for outcome in outcomes[2:]} == {"42\n"}
    for outcome in outcomes:
        assert outcome.stderr.count(WARNING) <= 1
    assert WARNING in outcomes[2].stderr


def test_who_owns_the_store_moves_it_away(place, caplog):
    main, store = program(place), place / "store"
    assert proc.run([main], store).stdout == "42\n"
    shutil.rmtree(store / layout.TRIALS / "0", ignore_errors=True)
    take(store, layout.TRIALS, 0, 10)
    for _ in range(2):
        assert user_directories.own(str(store), layout.TRIALS) == f"{store}/{layout.TRIALS}/0"
    assert os.lstat(store / layout.TRIALS / "0").st_uid == 0
    assert caplog.text.count(WARNING) == 1
    moved = [path for path in (store / layout.TRIALS).iterdir() if path.name.startswith(".taken-")]
    assert [path.stat().st_uid for path in moved] == [STRANGER]


@pytest.mark.parametrize("made", ["a file", "a link", "a fifo"])
def test_whatever_it_is_that_is_in_the_way(place, user, made):
    store = open_store(place / "store").path
    path = f"{store}/{layout.REQUESTS}/{user}"
    make = {
        "a file": lambda: open(path, "w").close(),
        "a link": lambda: os.symlink("/", path),
        "a fifo": lambda: os.mkfifo(path),
    }
    users.become(make[made], STRANGER, STRANGER)
    theirs = users.become(lambda: [user_directories.own(store, layout.REQUESTS) for _ in range(2)], user, user)
    # The same one in each of his processes, and nobody else's.
    assert users.become(lambda: user_directories.own(store, layout.REQUESTS), user, user) == theirs[0] == theirs[1]
    assert theirs[0].startswith(f"{path}-")
    user_directories.keep(store, layout.REQUESTS, [user])
    assert users.become(lambda: user_directories.own(store, layout.REQUESTS), user, user) == path


@pytest.mark.every(2)
@pytest.mark.parametrize("beside", [3000, pytest.param(200_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("who", ["root", "the store's owner"])
def test_a_daemon_hears_whose_place_a_stranger_has(place, user, beside, who):
    main, store = program(place), place / "store"
    store.mkdir()
    serves = None
    if who != "root":
        serves = HOMELESS
        os.chown(store, serves, serves)
    logs = place / "logs"
    logs.mkdir()
    logs.chmod(0o777)
    trusted = {"NBCACHE_TRUSTED_UIDS": f"{user},{HOMELESS}"}
    if serves is None:
        open_store(store)
    else:
        users.become(lambda: open_store(store), serves, serves)
    take(store, layout.REQUESTS, user, 10, beside)
    options = {"user": serves, "python": proc.interpreter_for(HOMELESS), "logs": logs}
    with daemons.daemon(store, extra={**proc.packages(), **trusted}, **options) as daemon:
        daemons.wait_for(lambda: WARNING in daemon.log, lambda: daemon.log)
        outcome = run(main, store, user, **daemons.WAITING, **trusted)
        assert outcome.stdout == "42\n", outcome.stderr
        daemon.says("INFO built lib:f")
        assert daemon.log.count(WARNING) == 1
    assert os.lstat(store / layout.REQUESTS / str(user)).st_uid == user
    assert WARNING not in outcome.stderr


@pytest.mark.parametrize("where", [layout.REQUESTS, layout.TRIALS])
def test_no_more_than_so_much_is_looked_at(place, monkeypatch, where):
    store = open_store(place / "store").path
    for number in range(user_directories.MAX_LISTED + 500):
        os.mkdir(f"{store}/{where}/{STRANGER}-{number:08x}")
    looked = []
    monkeypatch.setattr(
        user_directories, "named", lambda name: looked.append(name) or (user_directories._NAME.fullmatch(name) and 0)
    )
    assert list(user_directories.folders(store, where, Trust(frozenset({STRANGER})))) == []
    assert len(looked) == user_directories.MAX_LISTED
