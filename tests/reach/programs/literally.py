"""literals: literally, literal arguments of overloads."""

from numba import literally, njit, types
from numba.extending import overload
from shown import show


def power(x, n):
    return x**n


@overload(power)
def ol_power(x, n):
    if not isinstance(n, types.IntegerLiteral):
        return None
    k = n.literal_value

    def impl(x, n):
        r = x
        for _ in range(k - 1):
            r = r * x
        return r

    return impl


@njit
def user(x, n):
    return power(x, literally(n))


@njit
def nested(x, n):
    return user(x, n) + 1


show("user", (user(2.0, 3), user(2.0, 4)))
show("nested", nested(3, 2))
