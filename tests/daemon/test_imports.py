"""A daemon imports nothing when it serves: it may have no descriptor left by then (``tests/faults/syscalls.py``)."""

import os
import signal

from nbtest import daemons, proc
from nbtest.kinds import LIB

SERVE = """
import sys
from nbcache.cli.main import main
from nbcache.daemon import presence

ready, before = presence.Notifier.ready, set()

def snapshot(self, status):
    before.update(sys.modules)
    ready(self, status)

presence.Notifier.ready = snapshot
try:
    main(sys.argv[1:])
finally:
    late = [name for name in set(sys.modules) - before if getattr(sys.modules[name], "__file__", None)]
    print("imported late:", *sorted(late))
"""


def test_nothing_is_imported_late(place):
    (place / "lib.py").write_text(LIB)
    (place / "main.py").write_text("import lib\nprint(lib.f(1))\n")
    store = place / "store"
    options = ["--dir", str(store), "--state", str(place / "state"), "--name", "one"]
    daemon = proc.start(["-c", SERVE, "serve", *options], cwd=place)
    try:
        daemons.wait_for(lambda: (store / "v1/daemon/one.json").exists() or daemon.poll() is not None)
        assert proc.run([place / "main.py"], store, daemons.WAITING).status == 0
        os.kill(daemon.pid, signal.SIGTERM)
        outcome = proc.finish(daemon)
    finally:
        daemon.kill()
    assert "INFO built lib:f" in outcome.stderr
    assert outcome.stdout == "imported late:\n"
