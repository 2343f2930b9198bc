"""Profiles: what a program compiled or loaded, for the day on which all of it has to be compiled again.

::

    v1/profiles/<uid>/<name>.jsonl      ; a directory of that user's own (`nbcache.store.user_directories`)
    first line = JSON object
        nbcache      = "profile"
        version      = 3
        program      = text                 ; for people: a path, or -m and a module, and a working directory
        packages     = {name: number of units}
        toolchain    = text                 ; with which it was compiled last
        written      = Unix time [s]
    second line = JSON object                   ; as in `nbcache.protocol.sources`
    each other line = JSON object: a unit
        kind, function, signature, types, modules   ; as in `nbcache.protocol.requests`
        value        = base64 | null        ; the function, where no module has it
        key          = 64 hex digits        ; the last one under which it was compiled or loaded
        seconds      = number               ; how long it took by itself [s]
        inside       = [numbers of units, from 0]    ; which others it was built upon, as far as they are listed
        used         = Unix time [s]

Version log: 1 had no second line, 2 another form of requests. What is no profile of this version is none.

What is guaranteed
------------------
- **It is bounded**: :data:`MAX_UNITS` units, :data:`MAX_SIZE` bytes, and :data:`MAX_PROFILES` for each user; what was
  used the longest ago goes first.
- **Reading raises nothing.** A unit that makes no sense makes it none.
- **It is somebody's word.** Whoever carries it out imports and unpickles what it says. So it counts only in a directory
  of a trusted user's own, and as that user's file, by the rule of trust. What was read is only text.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from nbcache.file_trust import Trust
from nbcache.grammar import Malformed, choice, document, fields, hexadecimal, mapping, natural, number, several, text
from nbcache.passing_exceptions import suppressed
from nbcache.process import os, time
from nbcache.protocol import requests
from nbcache.protocol.requests import Request
from nbcache.records import Record
from nbcache.store import atomic, content, layout, user_directories
from nbcache.store.folders import Folder

VERSION: Final = 3
MAX_UNITS: Final = 1000
MAX_SIZE: Final = 2 << 20
"""The largest profile [bytes]."""
MAX_PROFILES: Final = 100
"""How many profiles a user has."""
MAX_AGE: Final = 90 * 86400.0
"""For how long a profile is kept that nobody writes or uses [s]."""
MAX_VALUE: Final = 64 << 10
"""The largest pickle of a unit [bytes]."""
MAX_INSIDE: Final = 64
"""How many others a unit names that it was built upon."""
MAX_PACKAGES: Final = 100
MAX_LANES: Final = 64
NO_SOURCES: Final = b"{}"
MAX_HEADS: Final = 50
"""How many profiles are looked at for one of a package."""
MAX_HEAD: Final = 16 << 10
"""The longest first line [bytes]: so much is read of a profile that is only looked at."""
MAX_SHOWN: Final = 500
"""The longest text in it [characters], each of which may take twelve bytes."""
MAX_SECONDS: Final = 1e6
"""The longest that a unit is said to take [s]."""
NAME_SIZE: Final = 32
T = TypeVar("T")


class Unit(Record):
    """See the module."""

    kind: str
    function: str
    signature: str
    types: Mapping[str, Any]
    modules: tuple[str, ...]
    value: bytes | None
    key: str
    seconds: float
    inside: tuple[int, ...] = ()
    used: float = 0.0

    @property
    def identity(self) -> tuple[str, ...]:
        """The same for what is asked for in the same way: of functions by value, the newest of one name counts."""
        how = self.signature if self.value is not None else json.dumps(self.types, sort_keys=True)
        return self.kind, self.function, how, "" if self.value is None else "by value"

    @property
    def package(self) -> str:
        """The package that the function is in, or its module where that is in none."""
        return self.function.partition(":")[0].partition(".")[0]

    def request(self, asked: Request) -> Request:
        """Ask for this one from the environment of who *asked* for the profile."""
        source = "0" * 32 if self.value is None else None
        return asked._replace(
            key=self.key, kind=self.kind, function=self.function, signature=self.signature,
            types=self.types, modules=self.modules, value=self.value, source=source,
        )  # fmt: skip


class Head(Record):
    """What its first line says of a profile, and where it lies."""

    program: str
    packages: Mapping[str, int]
    toolchain: str
    written: float
    name: str = ""
    uid: int = -1
    """Whose it is, as the owner of the file says; not in the file."""
    size: int = 0
    """[bytes]"""


class Profile(Record):
    """See the module."""

    head: Head
    units: Sequence[Unit] = ()

    @property
    def seconds(self) -> float:
        """How long all of it takes on one processor [s]."""
        return sum(unit.seconds for unit in self.units)

    @property
    def seconds_of(self) -> dict[tuple[str, str], float]:
        """How long each unit takes by itself, by function and signature [s]."""
        return {(unit.function, unit.signature): unit.seconds for unit in self.units}

    def lanes(self, workers: int = MAX_LANES) -> int:
        """How many of so many workers are of use: more than these would wait for the longest chain."""
        useful = math.ceil(self.seconds / max(max(self.ranks(), default=0.0), 0.1))
        return max(1, min(workers, useful, len(self.units), MAX_LANES))

    def of_package(self, package: str) -> Profile:
        """What of it is in one package."""
        return Profile(self.head, _renumbered(self.units, [unit.package == package for unit in self.units]))

    def ranks(self) -> list[float]:
        """For each unit, the longest chain of seconds that begins with it and goes on with who uses it [s].

        Whoever goes by falling ranks begins with what keeps others waiting the longest, and meets no unit before
        those that it is built upon, but where units are built upon each other.
        """
        users: list[list[int]] = [[] for _ in self.units]
        for at, unit in enumerate(self.units):
            for each in unit.inside:
                users[each].append(at)
        found: dict[int, float] = {}
        for start in range(len(self.units)):
            todo, open_ = [start], set[int]()
            while todo:
                at = todo[-1]
                waits = [each for each in users[at] if each not in found and each not in open_]
                if at not in found and at not in open_ and waits:
                    open_.add(at)
                    todo.extend(waits)
                    continue
                todo.pop()
                above = max((found.get(each, 0.0) for each in users[at]), default=0.0)
                found.setdefault(at, above + max(self.units[at].seconds, 1e-6))
                open_.discard(at)
        return [found[at] for at in range(len(self.units))]

    def chain(self, at: int) -> float:
        """How long a unit takes with all that it is built upon [s]."""
        return sum(self.units[each].seconds for each in self.upon([at]))

    def upon(self, numbers: Iterable[int]) -> set[int]:
        """Return the numbers of these units, and of all that they are built upon."""
        todo = list(numbers)
        seen = set(todo)
        while todo:
            fresh = set(self.units[todo.pop()].inside) - seen
            seen |= fresh
            todo += fresh
        return seen

    def in_order(self) -> list[int]:
        """The numbers of the units, in the order in which others than the program best build them.

        Of those with about the same rank, what the program comes to last is first: it begins at the other end.
        """
        ranks, heights = self.ranks(), self._heights()
        return sorted(range(len(ranks)), key=lambda at: (-math.floor(math.log2(ranks[at])), heights[at], -at))

    def _heights(self) -> list[int]:
        """For each unit, how many there are in the longest chain of those that it is built upon."""
        found: list[int] = []
        for at, unit in enumerate(self.units):
            # What is listed later than its user is part of a recursion.
            found.append(max((found[each] + 1 for each in unit.inside if each < at), default=0))
        return found


def merged(old: Profile | None, head: Head, units: Sequence[Unit], used: Iterable[str]) -> Profile:
    """What a program's profile is after another run: what that compiled or loaded (*units*) replaces what was known of
    it, and of the rest, what has one of the keys that were *used* was used now.
    """
    now, seen, rest = time.time(), set(used), [] if old is None else old.units
    # In the order of the first run, which is that in which the program needs them.
    newest = {unit.identity: (unit, listed) for listed in (rest, units) for unit in listed}
    places = {identity: at for at, identity in enumerate(newest)}
    joined: list[Unit] = []
    for unit, listed in newest.values():
        inside = {places[listed[each].identity] for each in unit.inside} - {len(joined)}
        was_used = listed is rest and unit.key in seen
        joined.append(unit._replace(used=now if was_used else unit.used, inside=tuple(sorted(inside))))
    return Profile(head, _latest(joined, MAX_UNITS))


def _latest(units: Sequence[Unit], most: int) -> list[Unit]:
    """The units that were used last, so many at most, in the order that they have."""
    if len(units) <= most:
        return list(units)
    newest = sorted(range(len(units)), key=lambda at: -units[at].used)[:most]
    stays = set(newest)
    return _renumbered(units, [at in stays for at in range(len(units))])


def _renumbered(units: Sequence[Unit], kept: Sequence[bool]) -> list[Unit]:
    places = {at: place for place, at in enumerate(at for at, stays in enumerate(kept) if stays)}
    return [
        units[at]._replace(inside=tuple(places[each] for each in units[at].inside if each in places)) for at in places
    ]


def encode(profile: Profile, sources: bytes = NO_SOURCES) -> bytes:
    """Return a profile as its file holds it: the line of its *sources*, and as many units as there is room for."""
    units = _latest(profile.units, MAX_UNITS)
    while True:
        data = b"\n".join([_head_line(profile.head, units), sources, *map(_unit_line, units)]) + b"\n"
        if (len(data) <= MAX_SIZE and _parts(data) <= requests.MAX_PARTS) or not units:
            return data
        units = _latest(units, len(units) * 3 // 4)


def _parts(data: bytes) -> int:
    return sum(map(data.count, (b"[", b"{", b",")))


def _head_line(head: Head, units: Iterable[Unit]) -> bytes:
    packages: dict[str, int] = {}
    for unit in units:
        if unit.package in packages or len(packages) < MAX_PACKAGES:
            packages[unit.package] = packages.get(unit.package, 0) + 1
    said = {
        "nbcache": "profile", "version": VERSION, "program": head.program[:MAX_SHOWN], "packages": packages,
        "toolchain": head.toolchain[:MAX_SHOWN], "written": head.written,
    }  # fmt: skip
    while True:
        line = json.dumps(said, separators=(",", ":")).encode("ascii")
        if len(line) < MAX_HEAD or not packages:
            return line
        packages.popitem()


def _unit_line(unit: Unit) -> bytes:
    said = {
        **{name: getattr(unit, name) for name in _UNIT},
        "seconds": round(unit.seconds, 4), "inside": unit.inside[:MAX_INSIDE], "used": round(unit.used, 1),
        "value": None if unit.value is None else base64.b64encode(unit.value).decode("ascii"),
    }  # fmt: skip
    return json.dumps(said, separators=(",", ":")).encode("ascii")


_HEAD: Final = document("profile", VERSION, fields(
    {"program": text, "packages": mapping(natural, MAX_PACKAGES), "toolchain": text, "written": number}, others=True
))  # fmt: skip
_UNIT: Final = {
    **{name: requests.FIELDS[name] for name in ("function", "signature", "types", "modules", "value", "key")},
    "kind": choice(*requests.KINDS),
    # Some come from entries of others. Their sum has to be a number.
    "seconds": lambda value: min(max(number(value), 0.0), MAX_SECONDS),
    "inside": several(natural, most=MAX_INSIDE),
    "used": number,
}
_name: Final = hexadecimal(NAME_SIZE)


def head_of(data: bytes) -> Head:
    """Return what the first line of a file's content says. Raises ValueError for one that is no profile."""
    return Head(**_HEAD(json.loads(data.partition(b"\n")[0])))


def parsed(data: bytes) -> Profile:
    """Return the profile that a file's content is. Raises ValueError for what is none."""
    if _parts(data) > requests.MAX_PARTS:
        raise ValueError("it has too many parts")
    head = head_of(data)
    lines = [line for line in data.split(b"\n")[2:] if line]
    if len(lines) > MAX_UNITS:
        raise ValueError("it has too many units")
    units: list[Unit] = []
    for line in lines:
        unit = Unit(**fields(_UNIT, others=True)(json.loads(line)))
        if unit.value is None:
            requests.named_function(unit.function)
        if any(each >= len(lines) for each in unit.inside):
            raise Malformed("the number of a unit", unit.inside)
        units.append(unit)
    return Profile(head, units)


# -- where they lie ----------------------------------------------------------------------------


def write(root: str, name: str, profile: Profile, sources: bytes = NO_SOURCES) -> bool:
    """Write one of this user's own profiles; return whether it is there now. Never raises."""
    with suppressed(OSError, ValueError, TypeError):
        directory = _own(root)
        if directory is not None:
            path = f"{directory}/{file_of(name)}"
            if not os.path.lexists(path):
                _make_room(directory)
            return atomic.write_file(path, encode(profile, sources), durable=False)
    return False


def _own(root: str) -> str | None:
    """This user's own directory. Raises OSError."""
    try:
        return user_directories.own(root, layout.PROFILES)
    except FileNotFoundError:
        # A store from before there were profiles.
        atomic.make_directory(f"{root}/{layout.PROFILES}", layout.DROP_MODE)
        return user_directories.own(root, layout.PROFILES)


def _make_room(directory: str) -> None:
    """Remove what is too old, and the oldest where there are too many. Raises OSError."""
    with os.scandir(directory) as items:
        found = [(item.stat(follow_symlinks=False).st_mtime, item.name) for item in items]
    found.sort(reverse=True)
    old = time.time() - MAX_AGE
    for at, (written, each) in enumerate(found):
        if at >= MAX_PROFILES - 1 or written < old:
            with suppressed(OSError):
                os.unlink(f"{directory}/{each}")


def read(root: str, name: str, trust: Trust, uid: int | None = None) -> Profile | None:
    """Return the profile of this name: one's own, else that of another trusted user, or of *uid* alone.

    None if there is none that counts. Never raises.
    """
    found = None
    for folder in folders(root, trust, uid):
        if found is None or folder.status.st_uid == os.geteuid():
            found = read_from(folder, name, trust, parsed) or found
    return None if found is None else found[0]._replace(head=_placed(found[0].head, name, found[1]))


def folders(root: str, trust: Trust, uid: int | None = None) -> Iterator[Folder]:
    """Yield the directories of trusted users' profiles, or those of *uid* alone. Never raises."""
    for folder in user_directories.folders(root, layout.PROFILES, trust):
        if uid is None or folder.status.st_uid == uid:
            yield folder


def newest(root: str, trust: Trust, uid: int | None = None, most: int = MAX_HEADS) -> Iterator[tuple[Folder, str, int]]:
    """Yield the newest files in each of these directories: that, its name, and when it was written [ns since 1970]."""
    for folder in folders(root, trust, uid):
        with suppressed(OSError):
            dated = ((item.stat(follow_symlinks=False).st_mtime_ns, item.name) for item in folder.json_files())
            for written, file in sorted(dated, reverse=True)[:most]:
                yield folder, file.removesuffix(layout.GROWING), written


def read_from(
    folder: Folder, name: str, trust: Trust, parse: Callable[[bytes], T], most: int = MAX_SIZE
) -> tuple[T, os.stat_result] | None:
    """Read the profile of a directory's owner, so many bytes of it; None for anything else. Never raises."""
    with suppressed(OSError, ValueError), content.reading(file_of(name), folder.open) as (fd, status):
        # Somebody else's, moved or linked here, would be the owner's word.
        if status.st_uid == folder.status.st_uid and status.st_nlink == 1:
            return content.read_json_from(fd, MAX_SIZE, trust, parse, most)
    return None


def heads(root: str, trust: Trust, most: int = MAX_HEADS) -> list[Head]:
    """Return the first lines of the profiles of trusted users, the newest *most* ones. Never raises."""
    found: list[Head] = []
    for folder, name, _written in newest(root, trust, most=most):
        read = read_from(folder, name, trust, head_of, MAX_HEAD)
        if read is not None:
            found.append(_placed(read[0], name, read[1])._replace(written=read[1].st_mtime))
    return sorted(found, key=lambda head: -head.written)[:most]


def _placed(head: Head, name: str, status: os.stat_result) -> Head:
    return head._replace(name=name, uid=status.st_uid, size=status.st_size)


def of_package(root: str, package: str, trust: Trust) -> Profile | None:
    """Return what the newest profile that has anything of a package has of it; None if none has."""
    for head in heads(root, trust):
        if package in head.packages:
            found = read(root, head.name, trust, head.uid)
            if found is not None:
                return found.of_package(package)
    return None


def remove(root: str, name: str, trust: Trust, uid: int) -> bool:
    """Remove a user's profile of this name, if this process may; return whether one went."""
    return sum(folder.remove(file_of(name)) for folder in folders(root, trust, uid)) > 0


def file_of(name: str) -> str:
    """What the file of a profile is called. Raises ValueError for what is no name of one."""
    return f"{_name(name)}{layout.GROWING}"
