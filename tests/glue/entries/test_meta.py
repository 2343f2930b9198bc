"""Entries refer to Numba's own types by name."""

import io
import pickle

import pytest
from numba.core import types

from nbcache.glue.entries import meta, pickling


@pytest.mark.parametrize("typ", [types.int64, types.none, types.complex128, types.voidptr, types.float64])
def test_one_of_numbas_own_comes_back_as_itself_by_its_name(typ):
    assert meta.type_called(meta.name_of(typ)) is typ
    with io.BytesIO() as file:
        pickling.TokenPickler(file, None).dump(typ)
        assert b"_type_reconstructor" not in file.getvalue()
        assert pickle.loads(file.getvalue()) is typ


@pytest.mark.parametrize("typ", [types.Array(types.int64, 1, "C"), types.UniTuple(types.int64, 2)])
def test_others_have_no_name_but_are_made_of_such(typ):
    with io.BytesIO() as file:
        pickling.TokenPickler(file, None).dump(typ)
        assert pickle.loads(file.getvalue()) is typ
    assert meta.name_of(typ) is None
