"""What a manifest says of an image: read back as it was written, and anything else is refused in one line."""

import copy
import json

import pytest

from nbcache.grammar import Malformed
from nbcache.protocol.manifests import ImageFacts, image_facts

ANCHOR = "nbcache_image_" + "0123456789abcdef" * 2
SLOTS = ((8, "PyFloat_Type", 0), (16, "sin", -4))
FACTS = ImageFacts("ab" * 32, 4096, ANCHOR, SLOTS, (0, 4096), {ANCHOR: 100, "call": 200})


def said():
    return json.loads(json.dumps(FACTS._asdict()))


def test_what_was_written_is_read():
    assert image_facts(said()) == FACTS


def changed(field, value):
    whole = said()
    whole[field] = value
    return whole


@pytest.mark.parametrize(
    "whole",
    [
        None,
        [],
        {},
        {**FACTS._asdict(), "more": 1},
        {name: value for name, value in FACTS._asdict().items() if name != "slots"},
        *(changed("digest", value) for value in (None, 5, "ab" * 31, "AB" * 32, "../" * 21 + "a")),
        *(changed("size", value) for value in (None, -1, True, 1.5, 1 << 40, "4096")),
        *(changed("anchor", value) for value in (None, "printf", ANCHOR + "0", "nbcache_image_" + "1" * 32)),
        *(changed("slots", value) for value in (None, {}, [8], [[8]], [[8, "sin"]], [[8, "sin", 0, 0]])),
        *(
            changed("slots", [value])
            for value in ([-8, "sin", 0], ["8", "sin", 0], [8, 5, 0], [8, "sin", 0.5], [8, "sin", None])
        ),
        *(changed("sealed", value) for value in (None, [], [0], [0, -1], [0, 1, 2], {"0": 1})),
        *(
            changed("symbols", value)
            for value in (None, [], {}, {ANCHOR: -1}, {ANCHOR: "100"}, {ANCHOR: 1, "call": None})
        ),
    ],
    ids=repr,
)
def test_anything_else_is_refused(whole):
    before = copy.deepcopy(whole)
    with pytest.raises(Malformed, match=r"^[^\n]* must be [^\n]+$"):
        image_facts(whole)
    assert whole == before
