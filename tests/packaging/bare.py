"""Bare virtual environments, made and filled without a network."""

import re
import subprocess
import sys
import sysconfig
import venv
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def call(*argv, **options):
    """Run a command that has to succeed; return its standard output."""
    done = subprocess.run([str(arg) for arg in argv], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{argv}\n{done.stdout}\n{done.stderr}"
    return done.stdout


class Environment:
    """A virtual environment with nothing in it, not even pip: what a test doesn't install isn't there."""

    def __init__(self, path):
        """Make it at `path`."""
        venv.create(path, with_pip=False, symlinks=True)
        self.python = path / "bin" / "python"
        self.site = Path(call(self.python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])").strip())

    def install(self, *what):
        """Install with the pip of the environment of the tests, which must not reach for an index."""
        pip = [sys.executable, "-m", "pip", "--python", self.python, "install", "-q", "--no-index", "--no-deps"]
        call(*pip, "--no-build-isolation", *what)

    def borrow(self, *requirements):
        """Make what is installed in the environment of the tests importable, with all that it needs there."""
        for requirement in requirements:
            with suppress(PackageNotFoundError):  # it is for another platform
                found = distribution(re.match(r"[\w.-]+", requirement)[0])
                for name in {each.parts[0] for each in found.files} - {"..", "__pycache__"}:
                    with suppress(FileExistsError):
                        (self.site / name).symlink_to(found.locate_file(name))
                self.borrow(*(each for each in found.requires or () if "extra ==" not in each))

    def borrow_packages(self):
        """Make the packages of the environment of the tests importable; its .pth files are not processed."""
        (self.site / "zz_borrowed.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")

    def run(self, code, *options, preexec_fn=None, **environ):
        """Run `code` in a new process with an otherwise empty environment, in a folder with no nbcache but the installed one."""
        return subprocess.run(
            [self.python, *options, "-c", code],
            env=environ,
            preexec_fn=preexec_fn,
            cwd=self.site,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
