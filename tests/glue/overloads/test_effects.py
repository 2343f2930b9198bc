"""What a hit owes: the overloads that compiling would have given, also to who may not compile any more."""

import pytest
from nbtest import same


@pytest.mark.parametrize("options", [pytest.param((), marks=pytest.mark.long), ("-O",)], ids=["", "-O"])
def test_compiling_is_disabled_after_a_hit(place, options):
    text = """
    from numba import njit
    @njit
    def g(x):
        return x + 1
    @njit
    def f(x):
        return g(x) * 2
    print(f(1), f(1.5))
    g.disable_compile()
    print(g.signatures, g(1), g(1.5))
    """
    same.everywhere(place, text, argv=options)
