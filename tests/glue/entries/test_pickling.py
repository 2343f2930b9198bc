"""What entries write down of types."""

import pickle

from numba import types

from nbcache.glue.entries.pickling import _reduced


class Mixed(types.Type):
    """Holds items of several types, but isn't made of a tuple of them."""

    def __init__(self) -> None:
        self.dtype = types.UnionType((types.int64, types.float64))
        super().__init__("Mixed")


def test_what_items_have_in_common_is_left_to_types_that_aren_t_tuples() -> None:
    rebuild, args = _reduced(Mixed())
    assert rebuild(*pickle.loads(pickle.dumps(args))).dtype == Mixed().dtype
