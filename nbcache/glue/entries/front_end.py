"""Digests of what Numba's front end makes of a function: the same in every process that makes the same of it.

They cover the modules that are added to a library, as they are before LLVM sees to them for the first time, and the
digests of the libraries that are linked in. So they are the same whether a callee was compiled or came out of an entry,
and whether two callees have a subroutine in common or a copy each.

What belongs to one process, or one build, is renamed in order of first appearance: counters inside names of symbols,
and tokens (:mod:`nbcache.glue.capture.placeholders`). Addresses there are left out: of one type, a callee that was
loaded has another than one that was compiled. Nothing else is renamed, so constants that differ are a difference.

Of functions that call each other, Numba compiles last the one that was entered first: it calls the others, and they
call it through a pointer. So one function comes out in two ways, and a section says whether it is such a one.

There are two digests. The first is of the text. Numba goes through sets of names in places, so the order of some
instructions depends on the seed of Python's hashes: where a generator's variables are saved, or object mode drops
references. The second one is of the lines in no order, without the names of local variables.
"""

from __future__ import annotations

import functools
import hashlib
import re
import zlib
from array import array
from collections.abc import Iterable
from typing import Any, Final

from numba.core.codegen import RuntimeLinker

from nbcache.glue import own_attributes
from nbcache.glue.capture import placeholders
from nbcache.glue.entries.library import StoredLibrary

SECTION: Final = "ir"
"""The section of an entry that has the digests, behind the version of what they are of."""
_VERSION: Final = b"\x0a"
"""It rises with whatever changes a digest of one and the same code."""
_SIZE: Final = 16
_EXACT, _LOOSE, _OF_CODE = (slice(at, at + _SIZE) for at in (1, 1 + _SIZE, 2 + 2 * _SIZE))
"""Where the digests are in the section: of the text, of its lines, and of the object that was made of it."""
_IN_RECURSION: Final = 1 + 2 * _SIZE
"""Where it says whether recursive code is in it that called what was still being compiled."""

_TOKEN = re.compile(r"nbcache![0-9a-z]{24}\.\d+!")
_BUILD = re.compile(r"v[12]\d{29,}")
"""A number that belongs to a build (compilations.py)."""
_UUID = re.compile(r"\\04uuid\\94\\8[Cc]\$[0-9a-f-]{36}")
"""In the pickle of a dispatcher: what Numba knows it by."""
_MAIN, _SPAWNED_MAIN = "8__main__", "11__mp_main__"
"""The main module in mangled names, and in those of a process that multiprocessing spawned: its keys are the same."""
_LENGTH_OF_TEXT = re.compile(r'\[\d+ x i8\](?=(?:, \[\d+ x i8\])?\*? (?:@|c"))')
"""How long a constant is, which has a name in it perhaps."""
_NAME = r'@(?:"[^"]*"|[\w.$-]+)'
_NAMED, _TEXT_OR_NAMED = re.compile(f"({_NAME})"), re.compile(f'(c"[^"]*"|{_NAME})')
"""Names of symbols; where constants are, whose last byte may be an ``@``, these as well."""
_BROKEN = re.compile(r'\n(@"[^"\n]*\n[^"]*")')
"""Names over several lines, where they are defined: a text that compiled code prints names the constant it is in."""
_QUOTED = re.compile(r'c"__numba_[a-z_]+_0x[^"]*"')
"""Constants that Numba makes of such names."""
_SHOWN = re.compile(r" at 0x[0-9a-f]+")
"""Of an object that Python shows with its address."""
_DERIVED = re.compile(r'(\.sha1"?) = internal constant \[\] c"[^"]*"')
_LONG = re.compile(r', i32 \d+(?=, (?:i8\* bitcast \(\[\]\* |ptr )@"?\.const\.pickledata\.)')
"""Checksums and lengths of pickles. The pickles themselves are in the module too, and may have tokens in them."""
_SAID = re.compile(r'c"[^"]*missing Environment: [^"]*"')
"""What Numba says where the environment of a name is missing, also in the pickle of an exception."""
_POINTED_TO = re.compile(r" = linkonce global \S+ inttoptr \(i64 \d+")
"""What a global variable of Numba's for the address of something in this process begins with."""
_BYTE = r"(?:\\..|[^\\\"])"
_SHORT, _REPEATED = rf"\\8[Cc]{_BYTE}(?:(?!nbcache!)[^\"])*?\\94", rf"(?:h{_BYTE}|j{_BYTE}{{4}})"
_RECALLED = re.compile(rf"({_TOKEN.pattern})(\\94)({_SHORT}|{_REPEATED})(?=\\86)")
"""A token, and what the class that it stands for can be imported by: a node without Numba reads that, and who loads the
entry finds it out by itself (placeholders.py). What the class is called is the same in both."""
_FRAME = re.compile(rf'(\.const\.pickledata\.[^"\s]*"? = internal constant \[\] c"\\80\\04\\95){_BYTE}{{8}}')
"""How long a pickle is."""
_NUMBER = rf"(?:K{_BYTE}|M{_BYTE}{{2}}|J{_BYTE}{{4}})"
_CODE, _LAST = r"\05_code\94", r"u\87\94R\94"
_CODE_OF_TYPE = re.compile(rf"(?<={re.escape(_CODE)}){_NUMBER}|{_NUMBER}(?={re.escape(_LAST)})")
"""A type's own number in its pickle, the last thing."""
_CLASS = re.compile(r"#[0-9a-f]{9,}")
"""The number of a class in the name of its type, as exceptions spell it."""
_CHANGING = re.compile(
    r"(0x[0-9a-f]+|(?<=_)23[0-9a-f]{6,}|#[0-9a-f]{9,}|(?<=RecordILi)\d+)"
    rf"|{_BUILD.pattern}|{_TOKEN.pattern}|-?[0-9a-f]{{9,}}|[0-9a-f]{{8}}-[0-9a-f-]{{27}}"
)
"""What changes in these: addresses and numbers of types, which a loaded callee has from the process that made it; and
what tells one name from another: numbers of builds, tokens, hashes, counters."""
_FLAGS = re.compile(r"(B\d+v\d+)B(\d+)")
"""What tells one name from another, and how long what follows is: Numba's flags, compressed, with sets of them in the
order of hashes."""
_ADDRESS = re.compile(r"0x[0-9a-f]{6}|_23[0-9a-f]{6}")
"""As Numba spells addresses in names: also in mangled ones, behind an escaped ``#``."""
_LENGTH = re.compile(r"\d+(?=[A-Za-z_. ])")
"""How long a part of a mangled name is, which depends on how many digits an address has."""
_FAST_MATH = re.compile(
    r" = (f[a-z]+|(?:[a-z]*tail )?call)((?: (?:nnan|ninf|nsz|arcp|contract|afn|reassoc|fast)){2,})(?= )"
)
"""What an instruction may do with numbers, of which Numba has a set."""
_DEFERRED = re.compile(r"deferred\.[\w.]+")
"""Deferred types, by their addresses, and numbers that tell them apart."""
_NAMED_TYPE = re.compile(r"\n%.*")
_PICKLED_IR = re.compile(r'c"[^"]*numba\.core\.ir[^"]*"')
"""A block of Python inside compiled code, which is an entry of its own and has sets in it."""
_LOCAL = re.compile(r'%(?:"[^"]*"|[\w.$-]+)')
_LABEL = re.compile(r'\n(?:[\w."$-]+:|!).*')
"""Of a block; and metadata, which have numbers."""
_WRAPPERS = tuple(f'; ModuleID = "{name}"' for name in ("wrapper", "cfunc_wrapper"))
"""How the text of modules begins by which Python, or C, calls a function."""
_WRAPPED = re.compile(r'\ndeclare [^@\n]*@"_ZN([^"]+)"')
"""The first thing there: the function, whose name is a part of the names of its environment and of the wrapper."""
_CALLED = re.compile(r'@"\.const\.([^"]*)" to i8\*\), i64 ')
"""What Python calls it, where the arguments are counted."""


def note(library: Any, text: str) -> None:
    """Note the digests of a module, given as its *text*, that is about to be added to a library, and to be optimised.

    Text of llvmlite's and of LLVM's differ, so those who compare have to have the same of the two.
    """
    added = _of_wrapper(_nameless(text)) if text.startswith(_WRAPPERS) else _of_text(text)
    exact, loose, recursive = getattr(library, own_attributes.OWN_IR, (b"", b"", False))
    recursive = recursive or RuntimeLinker.PREFIX in text
    setattr(library, own_attributes.OWN_IR, (exact + added[0], loose + added[1], recursive))


def _nameless(text: str) -> str:
    """A wrapper without the names of its function: what it is for any function of that signature."""
    text = _LENGTH_OF_TEXT.sub("[]", text)
    if (wrapped := _WRAPPED.search(text)) is not None:
        text = text.replace(wrapped[1], "<>")
    if (called := _CALLED.search(text)) is not None:
        text = text.replace(f'.const.{called[1]}"', '.const."').replace(f'c"{called[1]}\\00"', 'c""')
    return text


def _of_text(text: str) -> tuple[bytes, bytes]:
    """Both digests."""
    text = canonical(text)
    lines = _encoded(_LABEL.sub("", _LOCAL.sub("%", _PICKLED_IR.sub("", text)))).split(b"\n")
    # To sort numbers takes a fraction of the time that sorting the lines does.
    unordered = array("Q", sorted(map(zlib.crc32, lines))).tobytes()
    return _digest([_encoded(text)]), _digest([unordered])


_of_wrapper = functools.lru_cache(maxsize=64)(_of_text)
"""Most functions have a signature that others have, and wrappers are two thirds of all text."""


def section_of(library: Any, code: bytes) -> bytes | None:
    """What an entry says of a finished library, whose object is *code*; None where not all of it is known."""
    digests = _digests_of(library)
    return None if digests is None else digests + _digest([code])


def section_of_request(positions: Iterable[int]) -> bytes:
    """The same for a compilation that came to nothing but a request for literals."""
    return _VERSION + 2 * _digest([b"literals", *(b"%d" % each for each in positions)]) + b"\0" + _digest([b""])


def belongs_to(section: bytes, code: bytes) -> bool:
    """Whether an entry's *section* was written for the *code* that the entry has."""
    return section[_OF_CODE] == _digest([code])


def are_the_same(stored: bytes, made: bytes) -> bool:
    """Whether two sections say that the front end made the same."""
    return stored[_EXACT] == made[_EXACT]


def are_the_same_in_another_order(stored: bytes, made: bytes) -> bool:
    """Whether the lines of both are the same."""
    return stored[_LOOSE] == made[_LOOSE]


def are_recursive(stored: bytes, made: bytes) -> bool:
    """Whether both have recursive code in them, which depends on the function that was entered first."""
    return bool(stored[_IN_RECURSION] and made[_IN_RECURSION])


def can_be_compared(*sections: bytes | None) -> bool:
    """Whether all are there, and of the version that is made here."""
    return all(each is not None and each.startswith(_VERSION) for each in sections)


def canonical(module: str) -> str:
    """The text of a module, without its name, and with everything renamed that belongs to one process."""
    names: dict[str, str] = {}
    if _SPAWNED_MAIN in module:
        module = module.replace(_SPAWNED_MAIN, _MAIN)
    for name in _BROKEN.findall(module):
        module = module.replace(name, name.replace("\n", r"\0A"))
    module = _LENGTH_OF_TEXT.sub("[]", module)
    # llvmlite has constants among functions.
    first, *others = module[max(0, module.find("\ntarget ")) :].split("\n@")
    parts = [each.partition("\n") for each in others]
    constants = "".join([f"@{constant}\n" for constant, _, _ in parts])
    code = "\n".join([first, *[rest for _, _, rest in parts]])
    code = _FAST_MATH.sub(lambda found: f" = {found[1]} {sorted(found[2].split())}", code)
    if "\n%" in first:
        # Named types are those of the whole process; what they are made of shows in what takes values of them apart.
        code = _NAMED_TYPE.sub("", code)
    if "deferred." in code:
        code = _DEFERRED.sub(lambda found: names.setdefault(found[0], f"<{len(names)}>"), code)
    return _constants(constants, names) + _symbols(code, names)


def _constants(text: str, names: dict[str, str]) -> str:
    """With everything renamed: each of these looks for a few letters, which is faster than looking for any of them."""
    text = _SAID.sub("", _POINTED_TO.sub("", _LONG.sub("", _DERIVED.sub(r"\1", text))))
    text = _RECALLED.sub(_called, _FRAME.sub(r"\1", text))
    if _CODE in text or _LAST in text:
        text = _CODE_OF_TYPE.sub("", text)
    text = _symbols(text, names, _TEXT_OR_NAMED)
    for pattern in (_QUOTED, _SHOWN, _CLASS, _TOKEN, _BUILD, _UUID):
        text = pattern.sub(lambda found: _renamed(found[0], names), text)
    return text


def _called(found: re.Match[str]) -> str:
    name = placeholders.name_of(found[1])
    return found[0] if name is None else f"{found[1]}{found[2]}<{name}>"


def _symbols(text: str, names: dict[str, str], pattern: re.Pattern[str] = _NAMED) -> str:
    parts = pattern.split(text)
    spelt = {each: _renamed(each, names) if each[0] == "@" else each for each in dict.fromkeys(parts[1::2])}
    parts[1::2] = map(spelt.__getitem__, parts[1::2])
    return "".join(parts)


def _renamed(text: str, names: dict[str, str]) -> str:
    """A name, or a constant made of one, with what belongs to a process as its number of appearance."""
    (spelt, *rest), changing = _parts(text)
    for each, lasting in zip(changing, rest, strict=True):
        spelt += (names.setdefault(each, f"<{len(names)}>") if each else "<>") + lasting
    return spelt


@functools.lru_cache(maxsize=4096)
def _parts(text: str) -> tuple[list[str], list[str]]:
    """What lasts of it, and what stands in between; "" for what isn't told apart."""
    while (flags := _FLAGS.search(text)) is not None:
        text = f"{text[: flags.end(1)]}{text[flags.end() + int(flags[2]) :]}"
    found = list(_CHANGING.finditer(text))
    ends = [0, *(each.end() for each in found)]
    starts = [*(each.start() for each in found), len(text)]
    lasting = [text[end:start] for end, start in zip(ends, starts, strict=True)]
    if _ADDRESS.search(text) is not None:
        lasting = [_LENGTH.sub("", each) for each in lasting]
    return lasting, ["" if each[1] else each[0] for each in found]


def _digests_of(library: Any) -> bytes | None:
    """All but the last of what a section says: of a library with what is linked into it."""
    found: bytes | None = own_attributes.once(library, own_attributes.IR, lambda: _combined(library))
    return found


def _combined(library: Any) -> bytes | None:
    if isinstance(library, StoredLibrary):
        section = library._read(SECTION)
        return section[: _OF_CODE.start] if section is not None and can_be_compared(section) else None
    own = getattr(library, own_attributes.OWN_IR, None)
    linked = {_digests_of(each) for each in library._linking_libraries}
    if own is None or None in linked:
        return None
    *own, recursive = own
    alone = {each for each in linked if each is not None and not each[_IN_RECURSION]}
    both = zip(own, (_EXACT, _LOOSE), strict=True)
    parts = ([mine, *sorted({each[place] for each in alone})] for mine, place in both)
    return _VERSION + b"".join(map(_digest, parts)) + bytes([recursive or len(alone) < len(linked)])


def _digest(parts: Iterable[bytes]) -> bytes:
    hasher = hashlib.blake2b(digest_size=_SIZE)
    for part in parts:
        hasher.update(len(part).to_bytes(8, "little") + part)
    return hasher.digest()


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
