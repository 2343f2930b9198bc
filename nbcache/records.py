"""Records: named tuples that cost a fifteenth of `typing.NamedTuple`'s time to define.

A process defines some thirty of them before its first hit, and a node a dozen before its first call; each has a few
milliseconds for all that it does until then. What takes a named tuple's time is that the text of each annotation is
compiled, and a constructor made out of text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["Record"]

if TYPE_CHECKING:
    # The same for whoever uses it, so type checkers may take it for what they know.
    from typing import NamedTuple as Record

    from typing_extensions import Self
else:
    from collections import _tuplegetter  # what named tuples have: read in half of a property's time

    _getters = []  # what reads an item of a tuple, by its number: the same for all records

    class _RecordType(type):
        """Defines a record: its fields are its annotations in their order, what they are set to the defaults."""

        def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
            if "__annotate_func__" in namespace or "__annotate__" in namespace:
                # Since Python 3.14 annotations are made when they are asked for, but where a module wants their text.
                raise TypeError(f"the module of {name} has to begin with `from __future__ import annotations`")
            if fields := tuple(namespace.get("__annotations__", ())):
                while len(_getters) < len(fields):
                    _getters.append(_tuplegetter(len(_getters), None))
                namespace["_fields"] = namespace["__match_args__"] = fields
                given = namespace.keys() & fields
                defaults = {field: namespace[field] for field in fields if field in given} if given else {}
                namespace["_field_defaults"] = defaults
                namespace.update(zip(fields, _getters, strict=False))
            namespace.setdefault("__slots__", ())
            return super().__new__(cls, name, bases, namespace)

    class Record(tuple, metaclass=_RecordType):
        """A tuple whose items have names: see `typing.NamedTuple`, which has these methods, too."""

        __slots__ = ()
        _fields = ()

        def __new__(cls, *values: Any, **named: Any) -> Self:
            """Take the values of all fields but those with defaults, by position or by name.

            Raises TypeError for too few, too many, or others.
            """
            if named or len(values) != len(cls._fields):
                defaults, missing = cls._field_defaults, cls._fields[len(values) :]
                try:
                    values += tuple([named.pop(each) if each in named else defaults[each] for each in missing])
                except KeyError as exc:
                    raise TypeError(f"a {cls.__name__} without {exc}") from None
                if named or len(values) != len(cls._fields):
                    raise TypeError(f"a {cls.__name__} has the fields {', '.join(cls._fields)}")
            return tuple.__new__(cls, values)

        @classmethod
        def _make(cls, values: Any) -> Self:
            made = tuple.__new__(cls, values)
            if len(made) != len(cls._fields):
                raise TypeError(f"a {cls.__name__} has {len(cls._fields)} fields, not {len(made)}")
            return made

        def _replace(self, **named: Any) -> Self:
            values = [named.pop(field, value) for field, value in zip(self._fields, self, strict=True)]
            return type(self)(*values, **named)

        def _asdict(self) -> dict[str, Any]:
            return dict(zip(self._fields, self, strict=True))

        def __getnewargs__(self) -> tuple[Any, ...]:
            return tuple(self)

        def __repr__(self) -> str:
            listed = ", ".join(f"{name}={value!r}" for name, value in self._asdict().items())
            return f"{type(self).__name__}({listed})"
