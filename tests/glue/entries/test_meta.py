"""Entries refer to Numba's own types by name."""

import io
import pickle

import pytest
from numba.core import types

from nbcache.glue.entries import meta, pickling


def pickled(typ):
    with io.BytesIO() as file:
        pickling.TokenPickler(file, None).dump(typ)
        return file.getvalue()


@pytest.mark.parametrize("typ", [types.int64, types.none, types.complex128, types.voidptr, types.float64])
def test_one_of_numbas_own_comes_back_as_itself_by_its_name(typ):
    assert meta.type_called(meta.name_of(typ)) is typ
    assert b"_type_reconstructor" not in pickled(typ)
    assert pickle.loads(pickled(typ)) is typ


@pytest.mark.parametrize("typ", [types.Array(types.int64, 1, "C"), types.UniTuple(types.int64, 2)])
def test_others_have_no_name_but_are_made_of_such(typ):
    assert pickle.loads(pickled(typ)) is typ
    assert meta.name_of(typ) is None


def test_types_out_of_entries_are_pickled_as_those_that_numba_made():
    out_of_entry = pickle.loads(pickled(types.UniTuple(types.int64, 1237)))  # no other type of that length is alive
    made = types.UniTuple(types.int64, 1238)
    for each in (types.Tuple((out_of_entry, made)), types.Tuple((made, out_of_entry))):
        assert pickled(each).count(b"_code") == 1


@pytest.mark.parametrize("made_first", [True, False])
def test_so_are_the_names_of_their_fields(made_first):
    made = types.StructRef([("position", types.int64)])
    out_of_entry = pickle.loads(pickled(types.StructRef([("position", types.float64)])))
    both = (made, out_of_entry) if made_first else (out_of_entry, made)
    assert pickled(types.Tuple(both)).count(b"\x8c\x08position\x94") == 1
