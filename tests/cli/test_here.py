"""Commands that are run in a directory where somebody else can lay out modules, be it /tmp."""

import os

import pytest
from nbtest import proc, users
from nbtest.kinds import LIB

from nbcache.cli.store_option import away_from_strangers
from nbcache.file_trust import Trust

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


@pytest.mark.long
def test_publish_takes_modules_from_elsewhere_then(here):
    (here.parent / "code").mkdir()
    (here.parent / "code/lib.py").write_text(LIB)
    done = run(here, "publish", "f", "lib:f", "int64(int64)", path=here.parent / "code")
    assert (done.status, done.stderr) == (0, "")
    assert not (here.parent / "executed").exists()


@pytest.mark.every(3)
@pytest.mark.parametrize("command", ["doctor", "publish f lib:f int64(int64)", "bundle --layer layer -- true"])
def test_numba_takes_no_settings_from_it(here, command):
    """Such as which file to write what into, when it ends."""
    (here.parent / "code").mkdir()
    (here.parent / "code/lib.py").write_text(LIB)
    ours = here.parent / "ours"
    ours.write_text("ours\n")
    (here / ".numba_config.yaml").write_text(f"chrome_trace: {ours}\n")
    run(here, *command.replace("layer ", f"layer {here.parent}/").split(), path=here.parent / "code")
    assert ours.read_text() == "ours\n"
    assert not (here.parent / "executed").exists()


@pytest.mark.long
def test_numba_s_settings_in_a_directory_of_one_s_own_hold(here):
    os.chown(here, 0, 0)
    for name in NAMES:
        (here / f"{name}.py").unlink()
    (here / "lib.py").write_text(LIB)
    (here / ".numba_config.yaml").write_text("chrome_trace: trace\n")
    done = run(here, "publish", "f", "lib:f", "int64(int64)", "--dir", "store")
    assert (done.status, done.stderr) == (0, "")
    assert (here / "store/v1/names/f.json").exists()
    assert (here / "trace").exists()


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


def test_a_directory_that_may_not_be_entered(place, monkeypatch):
    """As after ``sudo -u`` in a home of somebody else."""
    (place / "closed/here").mkdir(parents=True)
    monkeypatch.chdir(place / "closed/here")
    (place / "closed").chmod(0)

    def work():
        trust = Trust()
        with away_from_strangers(trust) as problem:
            return problem, os.getcwd()

    assert users.become(work, STRANGER, STRANGER) == ("can't be examined: Permission denied", "/")
    with pytest.raises(FileNotFoundError, match="the command's own"), away_from_strangers(Trust(frozenset({4321}))):
        raise FileNotFoundError("the command's own")
