"""The addresses of remote tiers, as NBCACHE_REMOTE lists them.

::

    remote = address (" " address)*                            ; from fast to slow
    address = server "://" [login "@"] host [":" port] path | store "://" bucket path | "file:///" path, each with
              ["?" option ("&" option)*]
    server = "redis" | "rediss" | "http" | "https"             ; store = "s3" | "gs" | "azblob" | "ghac"
    option = "read-only" | name "=" value                      ; the names are opendal's

What can be read in two ways is no address: with a ``/``, ``?`` or ``&`` in a password that isn't written as ``%2F``,
``%3F`` or ``%26``, one half of the password would pass for a host, a path or the name of an option. So there is an
``@`` in front of the host alone (paths of files excepted), and nothing but ``read-only`` lacks a value.

What an address says besides its place may be a secret: :func:`masked` says what is shown of it. The endpoint of a store
belongs to its place.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from nbcache.secret import MASK, Secret

READ_ONLY: Final = "read-only"
_PLACE: Final = re.compile(
    r"(?:redis|rediss|http|https)://([^\s/#]+@)?[^\s/#@:][^\s/#@]*(/[^\s#@]*)?"
    r"|(?:s3|gs|azblob|ghac)://[^\s/#@:]+(/[^\s#@]*)?"
    r"|file:///[^\s#]*",
    re.ASCII,
)
_OPTION: Final = re.compile(rf"{READ_ONLY}|[a-z][a-z0-9_]*=[^\s#@]+", re.ASCII)
_SHOWN: Final = re.compile(rf"{READ_ONLY}|endpoint=https?://[a-z0-9.\-]+(:[0-9]+)?/?", re.ASCII | re.IGNORECASE)


def read(address: str) -> Secret[str]:
    """Read an address. Raises ValueError for what can be none."""
    place, mark, options = address.partition("?")
    if not _PLACE.fullmatch(place) or (mark and not all(map(_OPTION.fullmatch, options.split("&")))):
        raise ValueError
    _ = urlsplit(address).port  # raises ValueError for what can be none
    return Secret(address, masked)


def masked(address: str) -> str:
    """Return an address that was read without what may be secret in it: user and password, and options."""
    place, mark, options = address.partition("?")
    said = options.split("&")
    shown = [each for each in said if not each or _SHOWN.fullmatch(each)]
    if len(shown) < len(said):
        shown.append(MASK)
    return re.sub("//[^/]+@", f"//{MASK}@", place) + mark + "&".join(shown)
