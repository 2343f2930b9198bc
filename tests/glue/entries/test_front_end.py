"""Digests of what the front end made: what they leave out is names, and nothing else."""

import weakref

import pytest

from nbcache.glue.capture import placeholders
from nbcache.glue.entries import front_end

PRINTED = """; ModuleID = 'f'
source_filename = "<string>"
target triple = "x86_64-unknown-linux-gnu"

@{env} = common global ptr null
@".const.missing Environment: {env}" = internal constant [9 x i8] c"missing Environment: {env}\\00"
@.const.pickledata.{sha} = internal constant [60 x i8] c"\\80\\04\\952{zeros}nbcache!{token}.0!\\94\\8C\\05_code\\94{code}u\\87\\94R\\94."
@.const.pickledata.{sha}.sha1 = internal constant [20 x i8] c"{digest}"
@.bytes.{hash} = internal constant [4 x i8] c"{text}\\00"

define i32 @_ZN3libB37v1{build}B1cE({type} %x) {{
entry:
  %.2 = add i64 %x, {number}
  call void @{callee}(ptr @{env}, double {real})
  ret i32 0
}}
"""
WRITTEN = """; ModuleID = "f"
target triple = "x86_64-unknown-linux-gnu"
target datalayout = "e-m:e"

%"deferred.{address}" = type {{i64, %"deferred.{address}"*}}
@"{env}" = common global i8* null
define i32 @"_ZN3libB37v1{build}B1cE"({type} %"x")
{{
entry:
  %".2" = add i64 %"x", {number}
  call void @"{callee}"(i8* @"{env}", double {real})
  ret i32 0
}}

@".const.missing Environment: {env}" = internal constant [9 x i8] c"missing Environment: {env}\\00"
@".const.pickledata.{sha}" = internal constant [60 x i8] c"\\80\\04\\952{zeros}nbcache!{token}.0!\\94\\8c\\05_code\\94{code}u\\87\\94R\\94."
@".const.pickledata.{sha}.sha1" = internal constant [20 x i8] c"{digest}"
@".bytes.{hash}" = internal constant [4 x i8] c"{text}\\00"
declare void @"{callee}"(i8* %".1", double %".2")

"""
FIRST = {
    "zeros": "\\00" * 7,
    "address": "140245733",
    "env": "_ZN08NumbaEnv3lib1fB37v1" + "1" * 35, "sha": "a1" * 20, "token": "a" * 24, "code": "M\\0F\\08",
    "digest": "\\01\\02abc", "hash": "-1234567890123", "text": "abc", "build": "1" * 35, "type": "i64", "number": "7",
    "callee": "sin", "real": "0x4000000000000000",
}  # fmt: skip
OTHER = {
    "address": "98765",
    "env": "_ZN08NumbaEnv3lib1fB37v1" + "2" * 35, "sha": "b2" * 20, "token": "b" * 24, "code": "M\\11\\09",
    "digest": "\\03", "hash": "987654321012", "build": "2" * 35,
}  # fmt: skip


@pytest.fixture(params=[PRINTED, WRITTEN], ids=["printed by LLVM", "written by Numba"])
def module(request):
    return request.param


@pytest.fixture
def canonical(module):
    return lambda **fields: front_end.canonical(module.format(**{**FIRST, **fields}))


def test_builds_tokens_hashes_and_numbers_of_types_are_names(canonical):
    assert canonical(**OTHER) == canonical()


@pytest.mark.parametrize(
    "changed",
    [{"number": "8"}, {"text": "abd"}, {"callee": "cos"}, {"type": "i32"}, {"real": "0x4000000000000001"}],
    ids=str,
)
def test_nothing_else_is(canonical, changed):
    assert canonical(**changed) != canonical()


def test_two_things_do_not_become_one(canonical):
    """The build of the environment's name isn't that of the function's."""
    mixed = canonical(env=OTHER["env"])
    assert mixed != canonical()
    assert mixed == canonical(**{**OTHER, "env": FIRST["env"]})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("_ZN8instance8jitclass33P_237fbdd614de10_3ca_3eE", "_ZN8instance8jitclass28P_2301d3a4f0_3ca_3eE"),
        (
            "_ZN13_3cdynamic_3e36__numba_parfor_gufunc_0x7fbdd5eb9910E",
            "_ZN13_3cdynamic_3e36__numba_parfor_gufunc_0x55d0ffE",
        ),
        ("_ZN4func20at_200x7fbdddd5a5c0_3eE", "_ZN4func20at_200x7f0b643e65c0_3eE"),
        (".kernel.140453311755712_f", ".kernel.139686767323904_f"),
        ("_ZN1fB3v57B7c8tJ_3dEx", "_ZN1fB3v57B8c8tEQ_3dEx"),
        ("_ZN1fB2v5B10dZJBCsAg0DE5Array", "_ZN1fB2v5B12dZI8xCsAgDEWE5Array"),
        ("_ZN1f6RecordILi2067EE", "_ZN1f6RecordILi2069EE"),
    ],
)
def test_addresses_and_counters_in_names(canonical, one, other):
    assert canonical(callee=one) == canonical(callee=other)
    assert canonical(callee=one) != canonical(callee=one.replace("_", "_x", 1))


def test_the_number_of_a_class_in_the_exception_of_a_generator_whose_environment_is_missing(module):
    """Numba pickles it for generators; numbers of records' types depend on what was typed before, and lived."""
    array, pointer = ("[{} x i8]* ", "i8* bitcast ({}{} to i8*)") if module is WRITTEN else ("", "ptr {}{}")

    def said(number, length):
        name = f"_ZN08NumbaEnv3lib1gB37v1{'1' * 35}E5ArrayI6RecordILi{number}EE"
        data = pointer.format(array.format(length), '@".const.pickledata.aa"')
        checksum = pointer.format(array.format(20), '@".const.pickledata.aa.sha1"')
        return front_end.canonical(
            f"target\n@{name} = common global ptr null\n"
            f'@".const.pickledata.aa" = internal constant [{length} x i8] c"\\80missing Environment: {name}\\94."\n'
            f'@".const.picklebuf.aa" = internal constant {{ x }} {{ {data}, i32 {length}, {checksum} }}\n'
            "define i32 @f() {\n}\n"
        )

    assert said(581, 100) == said(582, 100) == said(1001, 101)


@pytest.fixture
def tokens(monkeypatch):
    """Spellings of tokens of the first build, by number: two classes, and a place."""
    spelt = [f"nbcache!{'a' * 24}.{number}!" for number in range(3)]
    kinds = {spelt[0]: ("object", None, ""), spelt[1]: ("object", None, ""), spelt[2]: ("line", "f", ())}
    monkeypatch.setattr(placeholders, "definitions", kinds)
    classes = {token: weakref.ref(cls) for token, cls in zip(spelt, (Library, LookupError), strict=False)}
    monkeypatch.setattr(placeholders, "_live", classes)
    return spelt


KNOWN, NAMELESS, AGAIN = r"\8c\0clib:Pair\94", r"\8C\00\94", "h\\05"


@pytest.fixture
def recalling(tokens):
    """The digest's text of a pickle that recalls classes: (number of the token, what is written down of its name)."""

    def made(*classes, then="", before=""):
        recalled = "".join(rf"\8c#{tokens[number]}\94{name}\86\94R\94" for number, name in classes)
        length = rf"\{len(recalled):02x}" + r"\00" * 7
        return front_end.canonical(
            f'target\n@.const.pickledata.aa = internal constant [9 x i8] c"\\80\\04\\95{length}{before}{recalled}{then}."\n'
        )

    return made


def test_what_a_recalled_class_can_be_imported_by(recalling):
    """It is found by the entry that is loaded; whether its name led to it when it was compiled isn't what was made."""
    assert recalling((0, KNOWN)) == recalling((0, NAMELESS)) == recalling((0, AGAIN))
    assert recalling((0, KNOWN), (1, KNOWN)) != recalling((0, KNOWN), (0, KNOWN))
    assert recalling((0, KNOWN), then="a") != recalling((0, KNOWN), then="b")
    assert recalling((0, KNOWN), then=r"\8c\01a\94\86") != recalling((0, KNOWN), then=r"\8c\01b\94\86")


def test_what_a_recalled_class_is_called(recalling):
    assert recalling((0, KNOWN)) != recalling((1, KNOWN))


def test_what_stands_behind_the_token_of_a_place_is_no_name(recalling, tokens):
    """It is followed by as many strings as it takes, and what follows these may end as a name does."""

    def made(said, name):
        before = rf"\8c\09locate_in\94\93\94(\8c#{tokens[2]}\94\8c\04{said}\94\8c\02, \94t\94R\94"
        return recalling((0, name), before=before)

    assert made("on a", KNOWN) != made("on b", KNOWN)
    assert made("on a", KNOWN) == made("on a", NAMELESS)


@pytest.mark.parametrize("behind", ["abcdefgh", r"\01" * 8, "abc"])
def test_an_array_that_begins_like_a_pickle(behind):
    text = '\n@"array" = internal constant [9 x i8] c"\\80\\04\\95{}", align 1\n@".bytes.{}" = constant [1 x i8] c"a"\n'
    first = front_end.canonical(text.format(behind, 123456789012))
    assert front_end.canonical(text.format(behind, 210987654321)) == first
    assert front_end.canonical(text.format("cbadefgh", 123456789012)) != first


def test_a_constant_whose_last_byte_is_an_at_sign():
    text = '\n@"array" = constant [2 x i8] c"\\00@", align 8\n@".bytes.{}" = constant [1 x i8] c"a"\n'
    assert front_end.canonical(text.format(123456789012)) == front_end.canonical(text.format(210987654321))
    assert front_end.canonical('\n@"a" = constant c"@123456789"') != front_end.canonical(
        '\n@"a" = constant c"@987654321"'
    )


def test_a_name_over_several_lines():
    text = (
        '\ntarget\n@".const.\n" = internal constant [2 x i8] c"\\0a\\00"\n'
        '@".const.pickledata.{0}" = internal constant [1 x i8] c"a"\n'
        'define ptr @f() {{\n  %a = load ptr, ptr @".const.\n"\n  %b = load ptr, ptr @".const.pickledata.{0}"\n}}\n'
    )
    made = front_end.canonical(text.format(123456789012))
    assert made == front_end.canonical(text.format(210987654321))
    assert made != front_end.canonical(text.format(123456789012).replace('c"a"', 'c"b"'))


def test_a_spawned_main_module_is_the_main_module(canonical, module):
    env = "_ZN08NumbaEnv{}1fB37v1" + "1" * 35
    spawned = module.replace("[9 x", "[13 x")
    main = canonical(env=env.format("8__main__"), text="11")
    assert front_end.canonical(spawned.format(**{**FIRST, "env": env.format("11__mp_main__"), "text": "11"})) == main
    assert canonical(env=env.format("11__mp_mine__"), text="11") != main


class Library:
    def __init__(self, *linked):
        self._linking_libraries = list(linked)


def library(*linked, text=WRITTEN, **fields):
    made = Library(*linked)
    front_end.note(made, text.format(**{**FIRST, **fields}))
    return made


def test_what_is_linked_in_counts_once():
    callee, same, other = library(number="1"), library(number="1", **OTHER), library(number="2")
    section = front_end.section_of(library(callee), b"code")
    assert front_end.section_of(library(same, callee), b"code") == section
    assert not front_end.are_the_same(front_end.section_of(library(other), b"code"), section)
    assert front_end.section_of(library(Library()), b"code") is None


def test_recursive_code_may_differ_by_who_was_entered_first():
    meanwhile, first, same = library(callee=".numba.unresolved$f"), library(callee="f"), library(callee="g")
    sections = [front_end.section_of(each, b"") for each in (meanwhile, library(meanwhile, callee="f"), first, same)]
    one, other, neither, different = sections
    assert not front_end.are_the_same(one, other)
    assert front_end.are_recursive(one, other)
    assert not front_end.are_recursive(one, neither)
    assert not front_end.are_recursive(neither, different)
    # Who calls one of them has the same code, whichever it was.
    callers = [front_end.section_of(library(each), b"") for each in (meanwhile, library(meanwhile, callee="f"))]
    assert front_end.are_the_same(*callers)


def test_the_order_of_lines_and_names_of_variables(module):
    section = front_end.section_of(library(text=module), b"code")
    text = module.format(**FIRST).replace('%"x"', '%"y"').replace("%x", "%y").replace("entry:", "B0:")
    lines = text.split("\n")
    one, other = (at for at, line in enumerate(lines) if " add " in line or " call " in line)
    lines[one], lines[other] = lines[other], lines[one]
    moved = Library()
    front_end.note(moved, "\n".join(lines))
    found = front_end.section_of(moved, b"code")
    assert not front_end.are_the_same(found, section)
    assert front_end.are_the_same_in_another_order(found, section)
    another = front_end.section_of(library(text=module, number="8"), b"")
    assert not front_end.are_the_same_in_another_order(another, section)


@pytest.mark.parametrize("what", ["fadd", "tail call"])
def test_the_order_of_what_fast_math_allows(canonical, what):
    """Numba has a set of these."""

    def made(flags):
        return canonical(number=f'7\n  %".3" = {what} {flags} double 0x0, 0x0')

    assert made("nsz arcp contract") == made("contract nsz arcp") != made("nsz arcp")


WRAPPER = """; ModuleID = "wrapper"
target triple = "x86_64-unknown-linux-gnu"

declare i32 @"_ZN{name}v1{build}E"(i64* %".1", i64 %".2")

define i8* @"_ZN7cpython{name}v1{build}E"(i8* %"py_args")
{{
entry:
  %".6" = call i32 @"PyArg_UnpackTuple"(i8* %"py_args", i8* bitcast ([{length} x i8]* @".const.{called}" to i8*), i64 1)
  %".7" = load i8*, i8** @"_ZN08NumbaEnv{name}v1{build}E"
  %".8" = call i64 @"{unbox}"(i8* %".7")
  ret i8* null
}}

@".const.{called}" = internal constant [{length} x i8] c"{called}\\00"
"""


def test_wrappers_of_functions_of_one_signature_are_looked_at_once():
    one = {"name": "3lib1f", "build": "1" * 35, "called": "f", "length": 2, "unbox": "PyLong_AsLongLong"}
    other = {"name": "3lib5other", "build": "2" * 35, "called": "other", "length": 6, "unbox": "PyLong_AsLongLong"}
    front_end._of_wrapper.cache_clear()
    section = front_end.section_of(library(text=WRAPPER, **one), b"")
    assert front_end.section_of(library(text=WRAPPER, **other), b"") == section
    assert front_end._of_wrapper.cache_info().misses == 1
    unboxed = front_end.section_of(library(text=WRAPPER, **{**one, "unbox": "PyLong_AsLong"}), b"")
    assert not front_end.are_the_same(unboxed, section)
    assert not front_end.are_the_same_in_another_order(unboxed, section)


def test_a_section_belongs_to_one_object_and_one_version():
    section = front_end.section_of(library(), b"code")
    assert front_end.belongs_to(section, b"code")
    assert not front_end.belongs_to(section, b"other")
    assert front_end.can_be_compared(section, section)
    assert not front_end.can_be_compared(section, b"\x7f" + section[1:])
    assert not front_end.can_be_compared(section, None)
    assert front_end.section_of_request((0, 2)) != front_end.section_of_request((0, 1))
