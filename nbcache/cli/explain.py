"""Why two entries of one function are different entries: their components compared, in words.

Pure. A component is a label and a short text (the table of the key is in ARCHITECTURE.md). Labels are
``toolchain/numba``, ``target/cpu``, ``config/NUMBA_OPT``, ``options/fastmath``, ``signature``, ``code <function>``,
``global <function>: <name>``, ``closure ...``, ``default ...``, ``callee ...``, ``dependency <file>``. Labels this
module has never heard of are compared too, and shown as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

# Labels "group/name", and "group function: name" or "group name": what a person calls the group.
_GROUPS = {
    "toolchain": "toolchain",
    "target": "target",
    "config": "setting",
    "options": "option",
    "code": "code of",
    "global": "global",
    "closure": "closure",
    "default": "default",
    "callee": "callee",
    "dependency": "dependency",
    "extension": "extension",
}
_PART = "key/"
# A digest says that a value changed and nothing else: a reader gains nothing from its digits.
_DIGEST = re.compile(r"[0-9a-f]{12,}\Z")


def components_of(raw: object) -> dict[str, str]:
    """Return the pairs of a decoded "components" section; whatever isn't a pair is left out.

    A label that occurs several times is numbered, so that no value is lost.
    """
    found: dict[str, str] = {}
    for pair in raw if isinstance(raw, list) else []:
        if isinstance(pair, list) and len(pair) == 2:
            label, count = str(pair[0]), 1
            while label in found:
                count += 1
                label = f"{pair[0]} #{count}"
            found[label] = str(pair[1])
    return found


def differing(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Return the labels whose values differ or that only one side has, in the order of `new`, then of `old`."""
    labels = [*new, *(label for label in old if label not in new)]
    return [label for label in labels if old.get(label) != new.get(label)]


def explain(old: Mapping[str, str], new: Mapping[str, str], function: str = "") -> list[str]:
    """Return one line for each component in which `new` differs from `old`: ``global `pkg.cfg.K`: 3 → 4``.

    A value found in another function than `function` is followed by that one's name. The parts that the key was
    computed from (``key/...``) are digests of what the other components say in words, and are named if no words differ.
    """
    labels = differing(old, new)
    words = [label for label in labels if not label.startswith(_PART)]
    return [_line(label, old.get(label), new.get(label), function) for label in words or labels]


def nearest(new: Mapping[str, str], others: Sequence[Mapping[str, str]]) -> int | None:
    """Return the index of the one among `others` that differs from `new` in the fewest labels; the last of equals.

    None when there are no others.
    """
    best = min(((len(differing(other, new)), -index) for index, other in enumerate(others)), default=None)
    return None if best is None else -best[1]


def _line(label: str, old: str | None, new: str | None, function: str) -> str:
    name, where = name_of(label)
    suffix = f" (in {where})" if where not in ("", function) else ""
    if old is None:
        return f"{name}: new{_value(new)}{suffix}"
    if new is None:
        return f"{name}: gone{_value(old)}{suffix}"
    if _are_digests(old, new):
        return f"{name}: changed{suffix}"
    return f"{name}: {old} → {new}{suffix}"


def name_of(label: str) -> tuple[str, str]:
    """Return what a label names, in words, and the function it was found in, or ""."""
    label = label.removeprefix(_PART).removesuffix(" is")  # of what a name leads to, where that is described by itself
    group, mark, rest = label.partition("/" if "/" in label.partition(" ")[0] else " ")
    if not mark or group not in _GROUPS:
        return label, ""
    where, colon, what = rest.partition(": ")
    return f"{_GROUPS[group]} `{what if colon else rest}`", where if colon else ""


def _are_digests(*values: str) -> bool:
    # Decimal digits alone are rather a number; of several digests, hardly all are without a letter.
    return all(map(_DIGEST.match, values)) and not all(map(str.isdigit, values))


def _value(text: str | None) -> str:
    return "" if text is None or _are_digests(text) else f", {text}"
