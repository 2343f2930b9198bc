"""The identity of a function at the end of a chain of 300 callees, asked again with nothing changed, and of one alone."""

import json
import timeit

from numba import njit

from nbcache.glue.keys.key_maker import KeyMaker

CHAIN = 300
scope = {"njit": njit, "f0": njit(lambda x: x + 1)}
for number in range(1, CHAIN):
    exec(f"@njit\ndef f{number}(x):\n    return f{number - 1}(x) + {number}\n", scope)
maker = KeyMaker()
maker.prepare()
measured = {}
for name, function in (("us alone", scope["f0"]), ("us chain", scope[f"f{CHAIN - 1}"])):
    digest = maker.engine.digest(function)
    assert maker.engine.digest(function) == digest
    measured[name] = min(timeit.repeat(lambda f=function: maker.engine.digest(f), number=200, repeat=15)) / 200 * 1e6
print(json.dumps(measured))
