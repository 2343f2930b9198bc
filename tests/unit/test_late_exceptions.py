"""Exceptions that are imported late are what they are, whoever asks for them."""

import subprocess
import sys

from nbcache import errors, passing_exceptions


def test_exceptions_that_are_imported_late_are_the_very_same():
    for name in ("NbcacheError", "PublicationError", "ManifestError", "ImageError", "BadKeyError"):
        assert getattr(passing_exceptions.errors, name) is getattr(errors, name)


def test_nobody_has_them_who_neither_raises_nor_catches_one():
    program = """
import sys
from nbcache.store import layout
assert "nbcache.errors" not in sys.modules
try:
    layout.check_key("..")
except ValueError as exc:
    from nbcache.errors import BadKeyError
    assert type(exc) is BadKeyError, exc
"""
    subprocess.run([sys.executable, "-c", program], check=True)
