"""Commands that are run in a directory where somebody else can lay out modules, be it /tmp."""

import os

import pytest
from nbtest import proc
from nbtest.kinds import LIB

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root: changes owners")
STRANGER = 4321
NAMES = ("nbcache", "numba", "_nbcache", "lib", "sitecustomize")


@pytest.fixture
def here(place):
    """A stranger's directory with modules of names that commands import; who executes one leaves ``executed``."""
    folder = place / "here"
    folder.mkdir()
    for name in NAMES:
        text = f"open({str(place / 'executed')!r}, 'a').write(__name__)\nraise ImportError('a stranger')\n"
        (folder / f"{name}.py").write_text(text)
        os.chown(folder / f"{name}.py", STRANGER, STRANGER)
    os.chown(folder, STRANGER, STRANGER)
    # As the script that an installer puts into bin/: the current directory isn't where Python looks.
    (place / "bin").mkdir()
    (place / "bin/nbcache.py").write_text(
        "import sys\nsys.path.pop(0)\nfrom nbcache.cli.main import main\nsys.exit(main())\n"
    )
    return folder


def run(here, *command, path="", extra=None):
    """Run a command there."""
    places = os.pathsep.join(filter(None, [str(proc.ROOT), str(path)]))
    place = here.parent
    return proc.run(
        [place / "bin/nbcache.py", *command], place / "store", {"PYTHONPATH": places, **(extra or {})}, here
    )


def test_doctor_executes_nothing_of_it(here):
    done = run(here, "doctor")
    assert not (here.parent / "executed").exists()
    assert "armed" in done.stdout


def test_publish_takes_modules_from_elsewhere_then(here):
    (here.parent / "code").mkdir()
    (here.parent / "code/lib.py").write_text(LIB)
    done = run(here, "publish", "f", "lib:f", "int64(int64)", path=here.parent / "code")
    assert (done.status, done.stderr) == (0, "")
    assert not (here.parent / "executed").exists()


def test_publish_says_why_a_module_of_it_is_not_found(here):
    done = run(here, "publish", "f", "lib:f")
    assert done.status == 1
    assert done.stderr.endswith(
        f"No module named 'lib' (modules here aren't looked for: the current directory lies in {here}, which"
        f" is owned by uid {STRANGER}, who isn't trusted (see NBCACHE_TRUSTED_UIDS))\n"
    )
    assert not (here.parent / "executed").exists()


def test_publish_takes_a_trusted_users_modules_from_it(here):
    for name in NAMES:
        (here / f"{name}.py").unlink()
    (here / "lib.py").write_text(LIB)
    done = run(here, "publish", "f", "lib:f", "int64(int64)", extra={"NBCACHE_TRUSTED_UIDS": str(STRANGER)})
    assert (done.status, done.stderr) == (0, "")


def test_publish_takes_no_strangers_module_from_one_s_own_directory(here):
    os.chown(here, 0, 0)
    done = run(here, "publish", "f", "lib:f")
    assert done.status == 1
    assert f"the module lib is owned by uid {STRANGER}, who isn't trusted" in done.stderr
    assert not (here.parent / "executed").exists()
