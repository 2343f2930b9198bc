"""HTML that is safe by construction: text becomes part of it as text, whoever wrote it.

Names of functions, reasons and packages come from files that anybody may have written. So what is put together here is
either :class:`Html`, which only :func:`tag` makes, or text, which is escaped, on one line and of bounded length.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final, Union

from nbcache.cli.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_TEXT: Final = 300
"""The longest text that is shown [characters]."""
_VOID: Final = frozenset({"meta", "br", "rect", "line", "polyline", "path", "circle"})
_BREAKS: Final = (".", ":", "_", "/", ",")


class Html(str):
    """Markup. Made here, and of numbers and constants alone elsewhere."""

    __slots__ = ()


Child = Union[str, float, None, "Iterable[Child]"]


def tag(name: str, /, *children: Child, **attributes: object) -> Html:
    """Return an element. ``class_`` is ``class``, an underscore a hyphen; an attribute that is None is left out."""
    told = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_inner(value if isinstance(value, str) else str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID and not children:
        return Html(f"<{name}{told}/>")
    return Html(f"<{name}{told}>{join(*children)}</{name}>")


def join(*children: Child) -> Html:
    """Return children one after the other; what isn't markup is text."""
    return Html("".join(map(_inner, children)))


def name_of(text: str) -> Html:
    """Return a name, which may be broken between its parts where it is too long for its place."""
    shown = escape(_shown(text) or "(no name)")
    for mark in _BREAKS:
        shown = shown.replace(mark, f"{mark}<wbr>") if mark != ":" else shown.replace(":", ":<wbr>")
    return tag("code", Html(shown))


def prose(text: str) -> Html:
    """Return a sentence of ours, in which what is between backticks is code."""
    parts = text.split("`")
    return join(tag("code", part) if number % 2 else part for number, part in enumerate(parts))


def _inner(child: Child) -> str:
    if isinstance(child, Html):
        return child
    if child is None:
        return ""
    if isinstance(child, (str, int, float)):
        return escape(_shown(str(child)))
    return "".join(map(_inner, child))


def _shown(text: str) -> str:
    return printable(text[: MOST_TEXT - 1] + "…" if len(text) > MOST_TEXT else text)
