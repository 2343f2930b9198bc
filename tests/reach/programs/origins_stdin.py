"""origins: a program from standard input, and one from -c."""

import subprocess
import sys

from shown import show

SOURCE = "from numba import njit\n@njit\ndef f(x):\n    return x + 1\nprint(f(2), f(2.5))\n"
for options, given in ((["-"], SOURCE), (["-c", SOURCE], None)):
    done = subprocess.run([sys.executable, *options], input=given, capture_output=True, text=True, check=True)
    show("said", done.stdout)
