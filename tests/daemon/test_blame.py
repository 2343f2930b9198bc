"""What it is due to that something isn't built decides who is told, and for how long."""

from __future__ import annotations

import errno
import shutil

import pytest
from nbtest import daemons, proc

from nbcache.daemon import blame

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
        assert "built lib:f" in daemon.log
        (failure,) = daemons.failures(store)
        assert failure["function"] == "lib:f"
        assert daemon.stop() == 0


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM])
def test_a_lack_of_resources_is_no_failure_of_the_function(place, number):
    store = place / "store"
    main = write(place / "a", f"if os.path.exists({str(place / 'scarce')!r}): raise OSError({number}, 'too little')")
    (place / "scarce").touch()
    with daemons.daemon(store) as daemon:
        ask(main, store)
        assert "too little" in daemon.log
        assert daemons.failures(store) == []
        (place / "scarce").unlink()
        assert "is not requested" not in ask(main, store)
        assert "built lib:f" in daemon.log
        assert daemon.stop() == 0


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
        assert "built lib:f" in daemon.log
        assert daemon.stop() == 0


def test_what_led_to_an_error_counts():
    def raised():
        try:
            raise OSError(errno.EMFILE, "")
        except OSError as error:
            raise ImportError from error

    with pytest.raises(ImportError) as caught:
        raised()
    assert blame.of(caught.value, blame.ENVIRONMENT) == blame.RESOURCES
    assert blame.of(ImportError(), blame.ENVIRONMENT) == blame.ENVIRONMENT
    assert blame.of(OSError(errno.ENOENT, "")) == blame.FUNCTION
    assert blame.read(None) == (blame.FUNCTION, None)
    assert blame.read([blame.RESOURCES, "x"]) == (blame.RESOURCES, "x")
