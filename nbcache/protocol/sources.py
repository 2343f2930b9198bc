"""What a profile says for who builds it when nobody asks: how its program would, and which files it has imported.

The second line of a profile's file (:mod:`nbcache.protocol.profiles`)::

    JSON object; an empty one where nobody else can build what the program needs
        request  = JSON object          ; of kind "profile", as in `nbcache.protocol.requests`
        files    = [path...]            ; source files of modules that the program has imported
        lanes    = number               ; how many workers are of use
        since    = Unix time [s]        ; when the program began to import them

What is guaranteed
------------------
- **It tells no more than requests do**, which lie in entries as well: of the environment, Numba's settings alone.
- **It is its owner's word, in his name.** What is asked for is the profile that it was read from, and who asks is the
  owner of that file, whatever the request says.
- It is bounded, and reading raises nothing, as with profiles.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from nbcache.file_trust import Trust
from nbcache.grammar import Malformed, fields, natural, number
from nbcache.protocol import profiles, requests
from nbcache.protocol.requests import Request
from nbcache.records import Record
from nbcache.store import layout
from nbcache.store.folders import Folder

MAX_LINE: Final = 256 << 10
"""The longest line [bytes]."""
MAX_FILES: Final = requests.MAX_ITEMS


class Sources(Record):
    """Those of one profile."""

    name: str
    program: str
    """For people."""
    written: int
    """When the profile was written, by the clock that dates files there [ns since 1970]."""
    since: float
    """What was saved after that, the program may not have imported [Unix s]."""
    files: frozenset[str]
    asked: Request
    most: int
    """How many lanes are of use."""

    def lanes(self, workers: int) -> list[Request]:
        """Ask for the profile, as many times as so many workers are of use."""
        found = []
        for lane in range(max(1, min(workers, self.most, profiles.MAX_LANES))):
            request = self.asked._replace(types={**self.asked.types, "lane": lane})
            # Not under the keys of those that programs ask for: their lanes go on with the source that they have.
            found.append(request._replace(key=layout.reserved(f"saved {request.source} {lane}")))
        return found


def line(request: Request, files: Sequence[str], lanes: int, since: float) -> bytes:
    """Return how a program asks, and what it has imported *since* when: as many files as there is room for."""
    asked = json.loads(request.line())
    while True:
        said = {"request": asked, "files": files[:MAX_FILES], "lanes": lanes, "since": since}
        data = json.dumps(said, separators=(",", ":")).encode("ascii")
        if len(data) <= MAX_LINE:
            return data
        if not files:
            return profiles.NO_SOURCES
        files = files[: len(files) // 2]


def read(root: str, trust: Trust, uid: int, known: Mapping[str, Sources]) -> dict[str, Sources]:
    """Return those of a user's newest profiles, by their names; *known* are those that were read before."""
    found: dict[str, Sources] = {}
    for folder, name, written in profiles.newest(root, trust, uid):
        before = known.get(name)
        now = before if before is not None and before.written == written else _read(folder, name, trust)
        if now is not None:
            found[name] = now
    return found


def _read(folder: Folder, name: str, trust: Trust) -> Sources | None:
    found = profiles.read_from(folder, name, trust, _parsed, profiles.MAX_HEAD + MAX_LINE)
    if found is None:
        return None
    sources, status = found
    uid, program = status.st_uid, sources.program
    types = {"uid": uid, "package": "", "lane": 0}
    asked = sources.asked._replace(source=name, function=f"profile:{program}", uid=uid, types=types)
    return sources._replace(name=name, written=status.st_mtime_ns, asked=asked)


_SOURCES: Final = {"request": requests.parsed, "files": requests.FIELDS["path"], "lanes": natural, "since": number}


def _parsed(data: bytes) -> Sources:
    first, second, _ = data.split(b"\n", 2)
    read = fields(_SOURCES, others=True)(json.loads(second))
    if not read["request"].is_profile:
        raise Malformed("the request for a profile", read["request"].kind)
    program = profiles.head_of(first).program
    return Sources("", program, 0, read["since"], frozenset(read["files"]), read["request"], read["lanes"])
