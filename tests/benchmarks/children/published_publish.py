"""Publish: the functions of calls by their names, and so many small ones, each by a name of its own."""

import json
import sys

import many
import published_source as source

import nbcache

for name, signature in source.SIGNATURES.items():
    nbcache.publish(name, getattr(source, name), [signature])
for index, function in enumerate(many.ALL[: int(sys.argv[1])]):
    function(3.0)
    nbcache.publish(f"many.f{index}", function)
if len(sys.argv) > 2:
    with open(sys.argv[2], "wb") as file:
        file.write(nbcache.dumps(source.scaled))
print(json.dumps({}))
