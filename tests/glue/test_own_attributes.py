"""What nbcache keeps on objects of others has its names in one place."""

from pathlib import Path

from nbcache.glue import own_attributes

SOURCES = Path(own_attributes.__file__).resolve().parents[1]


def test_no_other_module_spells_a_mark():
    spelling = [path for path in SOURCES.rglob("*.py") if own_attributes.PREFIX in path.read_text()]
    assert spelling == [Path(own_attributes.__file__).resolve()]


def test_marks_are_told_apart():
    names = [
        value
        for name, value in vars(own_attributes).items()
        if isinstance(value, str) and name.isupper() and name != "PREFIX"
    ]
    assert len(names) == len(set(names)) > 15
    assert all(name.startswith(own_attributes.PREFIX) for name in names)
