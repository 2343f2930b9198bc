"""origins: functions from exec, lambdas, and a REPL-like namespace."""

from numba import njit
from shown import show

SOURCE = """
def made(x):
    return x * K + 1
"""
for k in (2, 3):
    namespace = {"K": k}
    exec(SOURCE, namespace)
    show("exec", njit(namespace["made"])(5))

show("lambda", njit(lambda x: x + 1)(1))
show("eval", njit(eval("lambda x, y: x - y"))(5, 3.5))
exec(compile("@njit\ndef cell(x):\n    return x / 2", "<cell 1>", "exec"), globals())
show("cell", cell(3))  # noqa: F821
