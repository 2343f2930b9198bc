"""What compiled code only refers to, and types that stand for how something is done: they keep nothing from being shared."""

import pytest
from test_processes import run  # noqa: F401  a fixture

HASHING = """
    @njit
    def {name}(x):
        return hash(x) != {number}
    print({name}({value}), [name for name in Events.seen if not name.startswith({name!r})])
    """


@pytest.mark.parametrize("value", ["4", "'text'", "(1, 2.5)", "np.datetime64(3, 'D')"])
def test_methods_that_are_passed_around_inside_numba(run, value):  # noqa: F811
    assert run(HASHING.format(name="first", number=30, value=value))[0] != "True []\n"
    assert run(HASHING.format(name="second", number=40, value=value))[0] == "True []\n"
