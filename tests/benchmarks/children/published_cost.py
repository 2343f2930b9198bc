"""Compile functions, and publish them: how long each takes [ms]."""

import json
import sys
import time

import published_source as source
from numba.core import sigutils

name, way = sys.argv[1:]
function, signature = getattr(source, name), source.SIGNATURES[name]
# What a process does once for its first compilation is no part of either.
source.added.compile(sigutils.normalize_signature(source.SIGNATURES["added"])[0])
started = time.perf_counter()
if way == "publish":
    import nbcache

    nbcache.publish(name, function, [signature])
else:
    function.compile(sigutils.normalize_signature(signature)[0])
print(json.dumps({"ms": (time.perf_counter() - started) * 1e3}))
