"""`nbcache watch -- CMD`: a command runs once, and what is saved is built until Ctrl-C."""

import os
import signal
import subprocess
import sys
import threading

import pytest
from nbtest import proc, programs
from nbtest.daemons import wait_for

LIB = (
    "from numba import njit\n@njit\ndef f(x):\n    return x + 1\n@njit\ndef g(x):\n    return f(x) * 2\nALL = [f, g]\n"
)
COLD = {"NBTEST_COLD": "600", "NBTEST_PATIENT": "1"}


class Watching:
    """`nbcache watch` with a terminal, or a pipe, as its standard error."""

    def __init__(self, place, *argv, terminal=True):
        ours, theirs = os.openpty() if terminal else os.pipe()
        self.text = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "nbcache", "watch", "--dir", str(place / "store"), *map(str, argv)],
            env=proc.environment(None, COLD),
            cwd=place,
            text=True,
            stdout=subprocess.PIPE,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._reader = threading.Thread(target=self._read, args=(ours,), daemon=True)
        self._reader.start()

    def _read(self, fd):
        try:
            while data := os.read(fd, 1 << 12):
                self.text += data.decode()
        except OSError:
            pass  # a terminal that nobody has open any more
        os.close(fd)

    def interrupt(self):
        """Press Ctrl-C; return the exit status and what the command printed."""
        os.killpg(self.process.pid, signal.SIGINT)
        out, _ = self.process.communicate(timeout=600)
        self._reader.join()
        return self.process.returncode, out


@pytest.fixture
def main(place):
    (place / "src").mkdir()
    (place / "src/lib.py").write_text(LIB)
    (place / "main.py").write_text(f"import sys\nsys.path.insert(0, {str(place / 'src')!r})\n{programs.caller('lib')}")
    return place / "main.py"


def profile_is_there(place):
    wait_for(lambda: list((place / "store/v1/profiles").glob("*/*.jsonl")))


def test_what_is_saved_while_it_watches_is_built(main, place):
    watching = Watching(place, place / "src", "--", sys.executable, main)
    try:
        profile_is_there(place)
        (place / "src/lib.py").write_text(LIB.replace("x + 1", "x + 5"))
        wait_for(lambda: "ready: 2 functions built for " in watching.text, lambda: watching.text)
    finally:
        status, out = watching.interrupt()
    assert (status, out) == (0, "f 4\ng 8\n"), watching.text
    assert "nbcache: saved: " in watching.text
    main.write_text(f"{programs.FORBID}\nforbid()\n{main.read_text()}")
    done = proc.run([main], place / "store")
    assert done.said == (0, "f 8\ng 16\n"), done.stderr


@pytest.mark.long
def test_nothing_is_said_in_a_pipe(main, place):
    watching = Watching(place, "--", sys.executable, main, terminal=False)
    try:
        profile_is_there(place)
        before = len(list((place / "store/v1/objects").glob("*/*.nbo")))
        (place / "src/lib.py").write_text(LIB.replace("x + 1", "x + 5"))
        wait_for(lambda: len(list((place / "store/v1/objects").glob("*/*.nbo"))) >= before + 2)
    finally:
        status, _ = watching.interrupt()
    assert status == 0
    # What jobs are kept from is a warning of the log.
    assert "saved: " not in watching.text
    assert "ready: " not in watching.text


def test_the_status_is_the_commands_and_an_interrupt_is_its_too(place):
    code = "import signal, time; signal.signal(signal.SIGINT, lambda *_: exit(7)); print('ready', flush=True); time.sleep(600)"
    watching = Watching(place, "--", sys.executable, "-c", code)
    assert watching.process.stdout.readline() == "ready\n"
    assert watching.interrupt() == (7, "")


def test_what_can_not_be_watched_or_run(process, place):
    done = process("watch", "nowhere", "--", "true")
    assert (done.status, done.err) == (
        2, "nbcache: watch: nowhere is no directory; the command follows --: nbcache watch src -- python x.py\n",
    )  # fmt: skip
    assert process("watch", place, "--dir", place / "store").err == (
        "nbcache: watch: --dir must come before the folders: nbcache watch --dir DIR src -- python x.py\n"
    )
    assert process("watch", place, "--").err == "nbcache: watch: no command given: nbcache watch -- python program.py\n"
    done = process("watch", "--dir", place / "store", "--", "no-such-command-anywhere")
    assert (done.status, done.err) == (1, "nbcache: watch: no such command: no-such-command-anywhere\n")
    assert process("serve", "--farm", "tcp://127.0.0.1:1", "--watch").status != 0
