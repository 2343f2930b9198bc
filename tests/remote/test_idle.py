"""A helper that nobody asks ends, and leaves room for the next one."""

import os
import threading

import filelock

from nbcache.protocol import helper as protocol
from nbcache.remote import helper


def test_a_helper_that_nobody_asks_ends(tmp_path):
    place = protocol.Meeting(str(tmp_path), str(tmp_path / "x.sock"), str(tmp_path / "x.lock"))
    tmp_path.chmod(0o700)
    lock = filelock.UnixFileLock(place.lock, thread_local=False)
    lock.acquire()
    server = helper.Server(place, lock, "for this test", idle=600.0)
    thread = threading.Thread(target=server.run)
    thread.start()
    assert protocol.ask(place, "status", "", 60)["broken"] == "for this test"
    # From here on, so that it can't end before it was asked, however slow the machine is.
    server._idle = 0.0
    thread.join()
    assert not os.path.exists(place.socket)
    with filelock.UnixFileLock(place.lock, timeout=0):
        pass


def test_ten_minutes_are_what_is_promised():
    assert helper.IDLE_SECONDS == 600.0
