"""Programs with a limit on the size of files that are told, or end, when it is exceeded."""

from __future__ import annotations

from pathlib import Path

import pytest
from nbtest import proc

PROGRAM = """
import resource
import signal

def told(*_):
    raise RuntimeError("a file of mine is too large")

resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, resource.RLIM_INFINITY))
signal.signal(signal.SIGXFSZ, {handler})

from numba import njit

@njit
def f(x):
    return x + 1

print(f(1), f(2.5))
"""


@pytest.mark.every(4)
@pytest.mark.parametrize("size", [0, 2000], ids=["none", "small"])
@pytest.mark.parametrize("handler", ["signal.SIG_DFL", "told"])
def test_no_file_of_ours_is_what_is_too_large(tmp_path: Path, handler: str, size: int) -> None:
    main, store = tmp_path / "main.py", tmp_path / "store"
    main.write_text(PROGRAM.format(handler=handler, size=size))
    plain = proc.run([main])
    assert plain.status == 0, plain.stderr
    assert proc.run([main], store).said == plain.said, "cold"
    free = tmp_path / "free.py"
    free.write_text(PROGRAM.format(handler=handler, size="resource.RLIM_INFINITY"))
    assert proc.run([free], store).said == plain.said
    warm = proc.run([main], store)
    assert warm.said == plain.said, "warm"
    assert "Traceback" not in warm.stderr
