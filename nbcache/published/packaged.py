"""Loading a publication that is part of a package: what a wheel made by ``nbcache export`` does when it is imported.

The package's folder holds ``manifest.json`` and ``files/<digest>``; this module and what it imports lie beside them
under another name, so that nothing but NumPy has to be installed. Its files are trusted as all modules of its
site-packages are; that each is the one that was built is checked by its digest before a byte of it is mapped.
"""

from __future__ import annotations

import os
from typing import Any

from nbcache import hosts
from nbcache.errors import ImageError, ManifestError, PublicationError
from nbcache.protocol import manifests
from nbcache.published.members import Member
from nbcache.published.realize import MachineCode, make
from nbcache.store.content import digest_of


class _Files:
    """The files of a package, by digest."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def read(self, digest: str, name: str) -> bytes:
        """Return what a file holds. Raises PublicationError."""
        return self.opened(digest, name)[1]

    def opened(self, digest: str, name: str) -> tuple[str, bytes]:
        """Return where it lies, too."""
        path = os.path.join(self._folder, "files", digest)
        try:
            with open(path, "rb") as file:
                data = file.read()
        except OSError as error:
            raise PublicationError(name, f"{path} can't be read: {error.strerror or error}") from error
        if digest_of(data) != digest:
            raise PublicationError(name, f"{path} is damaged: install it again")
        return path, data


def load(folder: str) -> dict[str, Any]:
    """Return the functions of a package, by the names that its manifest has for them.

    Raises ImportError, with the reason, on a host that they weren't built for, or if something is damaged or missing.
    """
    try:
        return _load(folder)
    except (ImageError, ManifestError, PublicationError, OSError) as error:
        raise ImportError(f"{os.path.basename(folder)} can't be loaded: {error}") from error


def _load(folder: str) -> dict[str, Any]:
    with open(os.path.join(folder, "manifest.json"), "rb") as file:
        manifest = manifests.decode(file.read()).fitting(hosts.features())
    problem = hosts.problem(manifest.host)
    if problem is not None:
        raise PublicationError(manifest.name, f"{problem}: export it from that kind of host")
    address_of = MachineCode(manifest.numba).load(manifest, _Files(folder), None)
    return {name: make(Member(each, address_of)) for name, each in manifest.functions.items()}
