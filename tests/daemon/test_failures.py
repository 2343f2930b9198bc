"""What it is due to that something isn't built decides who is told, and for how long."""

from __future__ import annotations

import errno
import shutil
import sys
import tempfile
from concurrent.futures import Future
from pathlib import Path

import pytest
from nbtest import daemons, proc

from nbcache import config
from nbcache.daemon import building, failures, pool
from nbcache.protocol import spool
from nbcache.protocol.requests import Request

REQUEST = Request(
    key="ab" * 32, kind="dispatcher", function="gone:f", signature="(int64)", types={"version": 1}, source="0" * 32,
    value=None, modules=(), path=("/nowhere",), interpreter=sys.executable, settings={}, toolchain="", components=(),
    created=1.0, host="host", pid=1,
)  # fmt: skip

LIB = """
import os, sys
if not sys.argv[0].endswith("main.py"):
    {}
from numba import njit
@njit
def f(x):
    return x + 41
"""


def write(folder, action):
    folder.mkdir()
    (folder / "lib.py").write_text(LIB.format(action))
    (folder / "main.py").write_text("import lib\nprint(lib.f(1))\n")
    return folder / "main.py"


def ask(main, store):
    outcome = proc.run([main], store, daemons.WAITING)
    assert outcome.stdout == "42\n", outcome.stderr
    return outcome.stderr


@pytest.mark.long
def test_a_client_s_environment_keeps_no_other_from_asking(place):
    store = place / "store"
    broken = write(place / "a", "import only_elsewhere")
    shutil.copytree(place / "a", place / "b")
    (place / "b/only_elsewhere.py").write_text("")
    with daemons.daemon(store) as daemon:
        assert "importing lib fails" in ask(broken, store)
        # It isn't tried again for who has the same before them.
        assert "is not requested, because building it failed before: importing lib fails" in ask(broken, store)
        assert "is not requested" not in ask(place / "b/main.py", store)
        daemon.says("built lib:f")
        (failure,) = daemons.failures(store)
        assert failure["function"] == "lib:f"
        assert daemon.stop() == 0


@pytest.mark.every(2)
@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM])
def test_a_lack_of_resources_is_no_failure_of_the_function(place, number):
    store = place / "store"
    main = write(place / "a", f"if os.path.exists({str(place / 'scarce')!r}): raise OSError({number}, 'too little')")
    (place / "scarce").touch()
    with daemons.daemon(store) as daemon:
        ask(main, store)
        daemon.says("too little")
        assert daemons.failures(store) == []
        (place / "scarce").unlink()
        assert "is not requested" not in ask(main, store)
        daemon.says("built lib:f")
        assert daemon.stop() == 0


@pytest.mark.long
def test_an_interpreter_that_does_not_start_is_its_users_business(place):
    store = place / "store"
    main = write(place / "a", "pass")
    # Without the packages that its client has found by PYTHONPATH.
    shutil.copytree(place / "a", place / "b")
    with daemons.daemon(store) as daemon:
        python = place / "python"
        python.write_text("#!/bin/sh\nexit 3\n")
        python.chmod(0o755)
        code = f"import sys\nsys.executable = {str(python)!r}\n"
        (place / "b/main.py").write_text(code + main.read_text())
        ask(place / "b/main.py", store)
        assert "is not requested" not in ask(main, store)
        daemon.says("built lib:f")
        assert daemon.stop() == 0


@pytest.mark.parametrize(
    "error",
    [
        pool.InterpreterError("the interpreter ended: OSError: [Errno 24] Too many open files: '/x'"),
        pool.CrashError("no job can be begun: Too many open files"),
        pool.JobError("UntrustedError: the module x can't be read: Too many open files"),
    ],
)
def test_what_is_left_of_an_error_are_its_last_words(tmp_path, error, monkeypatch):
    """Of an interpreter that couldn't open its own modules, say. It failed here as well as for whoever asks next."""

    class Workers:
        closed = False

        def worked(self, _future):
            return None

        def shutdown(self):
            pass

        def submit(self, *_args, **_more):
            future = Future()
            future.set_exception(error)
            return future

    monkeypatch.setattr(building.Building, "_make_pool", lambda *_args: Workers())
    settings = config.Settings(dir=str(tmp_path / "store"))
    running, thread = daemons.in_thread(settings, tmp_path / "state")
    path = Path(spool.submit(running.settings.dir, REQUEST))
    try:
        daemons.wait_for(lambda: not path.exists())
        assert daemons.failures(tmp_path / "store") == []
    finally:
        running.stop()
        thread.join()


def test_where_temporary_files_go_is_known_before_descriptors_are_scarce(tmp_path, monkeypatch):
    """Python finds that out by making a file, and says of any failure that there is no such directory."""
    monkeypatch.setattr("tempfile.tempdir", None)
    settings = config.Settings(dir=str(tmp_path / "store"))
    running, thread = daemons.in_thread(settings, tmp_path / "state")
    running.stop()
    thread.join()
    assert tempfile.tempdir is not None


def test_what_led_to_an_error_counts():
    def raised():
        try:
            raise OSError(errno.EMFILE, "")
        except OSError as error:
            raise ImportError from error

    with pytest.raises(ImportError) as caught:
        raised()
    assert failures.of(caught.value, failures.ENVIRONMENT) == failures.RESOURCES
    assert failures.of(ImportError(), failures.ENVIRONMENT) == failures.ENVIRONMENT
    assert failures.of(OSError(errno.ENOENT, "")) == failures.FUNCTION
    assert failures.read(None) == (failures.FUNCTION, None)
    assert failures.read([failures.RESOURCES, "x"]) == (failures.RESOURCES, "x")
