"""Records: values with named fields, which take a tenth of a named tuple's or a dataclass's time to define.

A node defines a dozen of them for the first function that it loads, and has a few milliseconds for all of that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self, dataclass_transform
else:

    def dataclass_transform(**_: object) -> Callable[[type], type]:
        """Tell type checkers alone what it is."""
        return lambda kind: kind


@dataclass_transform(frozen_default=True)
class Record:
    """The fields are the annotations of the class that is derived from this one, in their order; all are given.

    Equal records are of one class and have equal fields. Nobody changes one.
    """

    fields: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        """Note the fields."""
        cls.fields = tuple(cls.__annotations__)

    def __init__(self, *values: Any, **named: Any) -> None:
        """Take the values of all fields, by position or by name. Raises TypeError for too few or too many."""
        own = self.__dict__
        own.update(zip(self.fields, values, strict=False), **named)
        if len(own) != len(self.fields) or len(values) + len(named) != len(own) or not own.keys() <= set(self.fields):
            raise TypeError(f"a {type(self).__name__} has the fields {', '.join(self.fields)}")

    def replaced(self, **named: Any) -> Self:
        """Return a record with other values for some of the fields."""
        return type(self)(**{**self.__dict__, **named})

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    __hash__ = None  # type: ignore[assignment]  # fields may be mappings

    def __repr__(self) -> str:
        listed = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({listed})"
