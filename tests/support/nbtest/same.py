"""One program with no cache, over an empty store and over the store that it filled: it must say the same each time."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from nbtest import proc, usage

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from nbtest.usage import Usage


def everywhere(
    place: Path, text: str, *, extra: Mapping[str, str] | None = None, argv: tuple[str, ...] = (), timeout: float = 900
) -> Usage:
    """Run ``text`` without a cache, cold and warm, and assert that nothing differs; what the warm process did."""
    main, store = place / "main.py", place / "store"
    main.write_text(textwrap.dedent(text))
    plain = proc.run([*argv, main], extra=extra, timeout=timeout)
    assert plain.status == 0, plain.stderr
    cold = proc.run([*argv, main], store, extra, timeout=timeout)
    assert cold.said == plain.said, f"cold:\n{cold.stdout}{cold.stderr}\nplain:\n{plain.stdout}"
    before = usage.read(store)
    assert not before.errors, before.errors
    warm = proc.run([*argv, main], store, extra, timeout=timeout)
    assert warm.said == plain.said, f"warm:\n{warm.stdout}{warm.stderr}\nplain:\n{plain.stdout}"
    did = usage.read(store).since(before)
    assert not did.errors, did.errors
    return did
