"""origins: notebook cells, run again and redefined."""

import linecache

from numba import njit
from shown import show

NAMESPACE = {"njit": njit}
COUNT = 0


def run(source):
    global COUNT
    COUNT += 1
    name = f"<ipython-input-{COUNT}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    exec(compile(source, name, "exec"), NAMESPACE)


CELL = "@njit\ndef f(x):\n    return x * {}\n"
for by in (2, 2, 3, 2):
    run(CELL.format(by))
    run("@njit\ndef g(x):\n    return f(x) + 1\n")
    show("g", (NAMESPACE["g"](5), NAMESPACE["f"](1.5)))
