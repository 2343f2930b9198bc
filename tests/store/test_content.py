"""JSON as the store reads it: what `json` says, also where nobody imported that package."""

import json
import math
import subprocess
import sys

import pytest

from nbcache.store.content import parsed

GOOD = (
    '{"a": [1, -2.5e3, "x\\u00e4\\n", null, true]}',
    " [] ",
    "3",
    '"\\ud83d\\ude00"',
    "{}\n",
    '{"a":1,"a":2}',
    "[Infinity, -Infinity]",
)
BAD = (
    "",
    "{",
    "[1,",
    '{"a"',
    '{"a":}',
    "[1] 2",
    "nul",
    '"',
    '"\t"',
    "Nan",
    "[Infinite]",
    "-",
    "{1:2}",
    "'a'",
    "\ufeff1",
    '"\\x"',
)


@pytest.mark.parametrize("text", GOOD)
def test_json_is_read_as_json_reads_it(text):
    assert parsed(text.encode()) == json.loads(text)
    assert math.isnan(parsed(b"NaN"))


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_json_is_a_value_error(text):
    with pytest.raises(ValueError):
        parsed(text.encode())
    with pytest.raises(ValueError):
        parsed(b"\xff")
    with pytest.raises(RecursionError):
        parsed(b"[" * 100_000)


def test_so_it_is_where_nobody_imported_the_package():
    program = f"""
import sys
from nbcache.store.content import parsed
assert parsed(b'[1, "a"]') == [1, "a"] and "json" not in sys.modules
for text in {BAD!r}:
    try:
        parsed(text.encode())
    except ValueError:
        continue
    print("read", text)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("", "")
