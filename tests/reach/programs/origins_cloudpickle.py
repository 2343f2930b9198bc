"""origins: functions that travel by cloudpickle to another process."""

import subprocess
import sys

import cloudpickle
from numba import njit
from shown import show


def make(k):
    @njit
    def made(x):
        return x * k + 1

    return made


data = cloudpickle.dumps([make(2), make(3)])
code = "import sys, pickle; print([f(5) for f in pickle.loads(sys.stdin.buffer.read())])"
done = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=True)
show("there", done.stdout)
show("here", [f(4) for f in cloudpickle.loads(data)])
