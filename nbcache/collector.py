"""Python's collector of garbage around what Numba does: importing itself, and compiling. A node does neither."""

from __future__ import annotations

import gc
from typing import Final

from nbcache.process import counts_as_old, is_ours_to_tell


class only_young_collected:  # noqa: N801  named as what it is like
    """Around an import that makes a hundred thousand objects, all of which stay.

    What was just made is looked at, a few hundred objects at a time, and nothing else: the rest counts as old. If
    nothing were looked at, the first full collections, which have to look at all of it, would take longer than what
    that saves.
    """

    def __enter__(self) -> None:
        """Begin."""
        self._ours = is_ours_to_tell()
        if self._ours:
            self._usual = gc.get_threshold()
            gc.set_threshold(self._usual[0], _NEVER, *self._usual[2:])
            self._meanwhile = gc.get_threshold()

    def __exit__(self, *_raised: object) -> None:
        """End."""
        if self._ours and gc.get_threshold() == self._meanwhile:  # what is imported may have set its own
            gc.set_threshold(*self._usual)
            if gc.get_count()[1] > self._usual[1]:
                counts_as_old()


class collected_seldom:  # noqa: N801  likewise
    """Around a compilation, which makes thousands of objects that refer to each other, nearly all of them garbage soon.

    What is young is looked at after ten thousand new objects, and not after some hundred, so less of it has become old
    by then. Nothing changes within another of these, nor where the program chose how often Python looks.
    """

    def __enter__(self) -> None:
        """Begin."""
        self._usual = gc.get_threshold()
        self._ours = self._usual[0] in _PYTHONS_OWN and is_ours_to_tell()
        if self._ours:
            gc.set_threshold(_SELDOM, *self._usual[1:])

    def __exit__(self, *_raised: object) -> None:
        """End."""
        if self._ours and gc.get_threshold() == (_SELDOM, *self._usual[1:]):  # what ran meanwhile may have set its own
            gc.set_threshold(*self._usual)


_PYTHONS_OWN: Final = frozenset({700, 2000})
"""After how many new objects Python itself looks at what is young: before 3.13, and since then."""

_SELDOM: Final = 10_000
"""With 50,000, collecting takes no less time, and a program that compiles 60 functions 5 MB more."""

_NEVER: Final = 2**31 - 1
"""A threshold that nothing reaches."""
