"""The index of trap programs is that of the programs at hand."""

from . import index


def test_the_index_is_up_to_date():
    assert index.INDEX.read_text(encoding="utf-8") == index.text(), "run `python -m traps.index` in tests/"
