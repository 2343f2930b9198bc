"""The addresses of remote tiers, as NBCACHE_REMOTE lists them.

::

    remote = address (" " address)*                            ; from fast to slow
    address = scheme "://" place ["?" option ("&" option)*]
    option = "read-only" | name "=" value                      ; the names are opendal's

What an address says besides its place may be a secret: whatever shows one shows :func:`redacted` of it.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

SCHEMES: Final = ("redis", "rediss", "s3", "gs", "azblob", "http", "https", "file")
READ_ONLY: Final = "read-only"
_ADDRESS: Final = re.compile(r"([a-z0-9]+)://[^\s?#]+(\?[^\s#]*)?", re.ASCII)


def check(address: str) -> str:
    """Return an address that can be one; else raise ValueError."""
    match = _ADDRESS.fullmatch(address)
    if match is None or match[1] not in SCHEMES:
        raise ValueError(address)
    _ = urlsplit(address).port  # raises ValueError for what can be none
    return address


def redacted(address: str) -> str:
    """Return an address without what may be secret in it: user and password, and the values of options."""
    place, mark, options = address.partition("?")
    scheme, _, rest = place.partition("://")
    # A password with a slash in it is a mistake, and a password.
    at = rest.rfind("@")
    shown = f"{scheme}://***{rest[at:]}" if at >= 0 else place
    return shown + mark + "&".join(re.sub("=.*", "=***", option, flags=re.DOTALL) for option in options.split("&"))
