"""What PyInstaller needs to freeze nbcache into a program: docs/frozen.md. Imports nothing of PyInstaller's.

PyInstaller finds `hook_dirs` by the entry point ``pyinstaller40`` and executes what lies there: ``hook-nbcache.py`` at
build time, and what ``rthooks.dat`` names when the program starts.
"""

import os

LIBRARY = "library.txt"
"""Lies beside nbcache's modules in the program: the names of those that its builder took from Python's library."""


def hook_dirs() -> list[str]:
    """Return where the hooks are."""
    return [os.path.dirname(__file__)]
