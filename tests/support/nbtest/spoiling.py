"""Entries whose code crashes, with all of their digests right; and entries whose digests are wrong."""

import os
import struct
import time

from nbcache.store import entry, first_calls, layout, user_directories


def crashing(code):
    """The object with every instruction in it replaced by ``ud2``."""
    changed = bytearray(code)
    table, size, count = *struct.unpack_from("<Q", code, 0x28), *struct.unpack_from("<HH", code, 0x3A)
    for number in range(count):
        row = table + number * size
        flags, _, offset, length = struct.unpack_from("<QQQQ", code, row + 8)
        if struct.unpack_from("<I", code, row + 4)[0] == 1 and flags & 4:
            changed[offset : offset + length] = (b"\x0f\x0b" * length)[:length]
    return bytes(changed)


def spoil(store, function):
    """Make the entries of a function crash, with all of their digests right."""
    found = 0
    for path in sorted((store / "v1/objects").glob("??/*.nbo")):
        parsed = entry.parse(path.read_bytes())
        if parsed.header.function == function and "object" in parsed.section_sizes:
            sections = {name: parsed.section(name) for name in parsed.section_sizes}
            sections["object"] = crashing(sections["object"])
            fresh = path.with_suffix(".new")
            # As new as it is: what programs said of the one before isn't about this one.
            fresh.write_bytes(entry.encode(parsed.header._replace(created=time.time()), sections))
            fresh.rename(path)
            found += 1
    assert found


POSITIONS = "first", "middle", "last"


def damage(store, section, position="middle", kind=None):
    """Flip a bit in a section of all entries, or those of one *kind*; return how many there are."""
    found = 0
    for path in sorted((store / "v1/objects").glob("??/*.nbo")):
        data = bytearray(path.read_bytes())
        parsed = entry.parse(bytes(data))
        sizes = parsed.section_sizes
        if kind in {None, parsed.header.kind} and sizes.get(section):
            begin = len(data) - sum(sizes.values()) + sum(list(sizes.values())[: list(sizes).index(section)])
            data[begin + {"first": 0, "middle": sizes[section] // 2, "last": sizes[section] - 1}[position]] ^= 1
            fresh = path.with_suffix(".new")
            fresh.write_bytes(data)
            fresh.chmod(path.stat().st_mode)
            fresh.rename(path)
            found += 1
    return found


def damaged(store):
    """Return the functions whose entries have a section that isn't what was written."""
    return {header.function for header, sound in _entries(store) if not sound}


def not_built_again(store):
    """Return what has an entry that is damaged, by kind, function and signature; wrappers without one that isn't.

    A wrapper's key has the build of its kernel in it: once that is built again, nobody asks for the wrapper before.
    """
    entries = [((each.kind, each.function, each.signature), sound) for each, sound in _entries(store)]
    again = {what for what, sound in entries if sound and what[0].endswith("wrapper")}
    return {what for what, sound in entries if not sound} - again


def _entries(store):
    for path in (store / "v1/objects").glob("??/*.nbo"):
        each = entry.parse(path.read_bytes())
        yield each.header, all(each.section(name) is not None for name in each.section_sizes)


def condemn(root, digest, key, deaths=first_calls.PLACES, function="mod:a"):
    """Say in this user's table that so many processes died in an entry."""
    fd = os.open(
        f"{user_directories.own(str(root), layout.TRIALS)}/{first_calls.FILE}", first_calls.FLAGS, layout.FILE_MODE
    )
    call = first_calls.Call(digest, key, first_calls.DIED, b"", -1, time.time(), function)
    for at in first_calls.places(digest)[:deaths]:
        first_calls.write(fd, at, first_calls.encode(call))
    os.close(fd)
