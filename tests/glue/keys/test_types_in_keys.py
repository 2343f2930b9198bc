"""Identities of types in signatures: remembered, but not beyond a change."""

import functools

from numba import types

from nbcache.glue.identity.graph import IdentityEngine
from nbcache.glue.keys.key_maker import KeyMaker


def kept(function):
    @functools.wraps(function)
    def wrapper(self):
        return function(self)

    return wrapper


def make_kind():
    class Kind(types.Type):
        scale = 1

        @kept
        def factor(self):
            return self.scale

    return Kind


def test_a_type_of_somebodys_own_class_is_looked_at_again_when_the_class_changes():
    kind = make_kind()
    maker, typ = KeyMaker(), kind("kind")
    first = maker.type_digest(typ)
    kind.scale = 2
    assert maker.type_digest(typ) != first
    kind.scale = 1
    assert maker.type_digest(typ) == first
    kind.factor.__wrapped__ = len
    assert maker.type_digest(typ) != first


def test_an_unchanged_type_is_not_walked_again(monkeypatch):
    maker, typ = KeyMaker(), make_kind()("kind")
    first = maker.type_digest(typ)
    monkeypatch.setattr(IdentityEngine, "_walk", None)
    assert maker.type_digest(typ) == first
    assert not maker.is_fixed(typ)


def test_a_type_of_numbas_own_is_fixed():
    assert KeyMaker().is_fixed(types.float64[::1])
