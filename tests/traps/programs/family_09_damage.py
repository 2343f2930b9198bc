"""Family 9: damage to the files of the cache, and caches that can't be used. Nothing raises, nothing is wrong."""

from collections.abc import Callable
from pathlib import Path

from .. import tamper
from ..harness import Program, Rerun, Step, main, py, trap

_FILES = {
    "main.py": main("""
        from numba import vectorize, guvectorize
        from lib import g, K

        @njit
        def f(x):
            return g(x) * K

        @njit
        def text(x):
            return "<" + x + ">"

        @vectorize(["float64(float64)"])
        def u(x):
            return x + K

        @guvectorize(["void(float64[:], float64[:])"], "(n)->(n)")
        def gu(a, out):
            for i in range(a.shape[0]):
                out[i] = a[i] * K

        show("f", f, 1)
        show("f float", f, 1.5)
        show("text", text, "a")
        show("u", u, np.arange(3.0))
        show("gu", gu, np.arange(3.0))
    """),
    "lib.py": py("""
        from numba import njit

        K = 3

        @njit
        def g(x):
            return x + 1
    """),
}
_SMALL = {
    "main.py": main("""
        @njit
        def f(x):
            return x + 1

        @njit
        def h(x):
            return x - 1

        show("f", f, 1)
        show("h", h, 1)
    """)
}


def _damage(name: str, action: Callable[[Path], None], rerun: Rerun = "hit", files: dict[str, str] = _FILES) -> Program:
    """Return a program that runs, has its cache damaged, and runs again."""
    return trap(f"damage-{name}", 9, files, Step(tamper=action), differs=False, rerun=rerun)


def _at_start(name: str, action: Callable[[Path], None], rerun: Rerun) -> Program:
    """Return a program that finds its cache directory damaged from the start."""
    return trap(f"damage-{name}", 9, Step(files=_SMALL, tamper=action), Step(), differs=False, rerun=rerun)


PROGRAMS = (
    _damage("truncated-to-half", tamper.each(tamper.truncate(0.5))),
    _damage("truncated-to-a-few-bytes", tamper.each(tamper.truncate(0.002))),
    _damage("last-byte-lost", tamper.each(tamper.drop_last_byte)),
    _damage("emptied", tamper.each(tamper.empty)),
    _damage("bit-flipped-at-the-start", tamper.each(tamper.flip(0.0))),
    _damage("bit-flipped-in-the-first-tenth", tamper.each(tamper.flip(0.05))),
    _damage("bit-flipped-in-the-middle", tamper.each(tamper.flip(0.5)), rerun="same"),
    _damage("bit-flipped-at-the-end", tamper.each(tamper.flip(0.9999)), rerun="same"),
    _damage("bytes-appended", tamper.each(tamper.append), rerun="same"),
    _damage("foreign-bytes", tamper.each(tamper.foreign)),
    _damage("zeroed-second-half", tamper.each(tamper.zero_half), rerun="same"),
    _damage("files-swapped", tamper.swap_names, rerun="same"),
    _damage("files-replaced-by-directories", tamper.each(tamper.directory), rerun="same"),
    _damage("files-replaced-by-fifos", tamper.each(tamper.fifo), rerun="same"),
    _damage("files-replaced-by-dangling-links", tamper.each(tamper.dangling_link), rerun="same"),
    _damage("files-unreadable", tamper.each(tamper.unreadable), rerun="same"),
    _damage("every-other-file-lost", tamper.lose_every_other),
    _damage("cache-removed", tamper.remove),
    _damage("cache-replaced-by-a-file", tamper.replace_by_file, rerun="same"),
    _at_start("cache-is-a-file", tamper.replace_by_file, "same"),
    _at_start("cache-is-a-dangling-link", tamper.replace_by_dangling_link, "same"),
    trap(
        "damage-cache-removed-while-running",
        9,
        {
            "main.py": main("""
                import os
                import shutil

                @njit
                def f(x):
                    return x + 1

                @njit
                def h(x):
                    return f(x) * 2

                show("f", f, 1)
                for name in ("NBCACHE_DIR", "NUMBA_CACHE_DIR"):
                    if name in os.environ:
                        shutil.rmtree(os.environ[name], ignore_errors=True)
                show("h", h, 1)
                show("f float", f, 1.5)
                show("h float", h, 1.5)
            """)
        },
        Step(),
        differs=False,
        rerun="same",
    ),
    trap(
        "damage-cache-read-only",
        9,
        _SMALL,
        Step(tamper=tamper.read_only, files={"new.py": "K = 1\n"}),
        differs=False,
        hit=True,
    ),
    trap(
        "damage-read-only-by-setting",
        9,
        _SMALL,
        Step(env={"NBCACHE_READONLY": "1"}),
        differs=False,
        hit=True,
    ),
)
