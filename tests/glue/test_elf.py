"""ELF files: symbols of object files, and what is no such file."""

import llvmlite.binding as llvm
from hypothesis import given
from hypothesis import strategies as st

from nbcache.elf import symbols_of

SOURCE = """
@given = common global i64 0
@own = internal global i64 7
declare double @elsewhere(double)
define internal double @hidden(double %x) noinline {
  ret double %x
}
define linkonce_odr double @shared(double %x) {
  %a = call double @hidden(double %x)
  ret double %a
}
declare double @llvm.powi.f64.i32(double, i32)
@data = external global i64
define double @f(double %x, i32 %n) {
  %a = call double @elsewhere(double %x)
  %b = call double @llvm.powi.f64.i32(double %a, i32 %n)
  %c = load i64, i64* @data
  %d = sitofp i64 %c to double
  %e = fadd double %b, %d
  ret double %e
}
"""


def compiled():
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    source = (
        SOURCE
        if "i64*" in str(llvm.parse_assembly("define void @g(i64* %p) { ret void }"))
        else SOURCE.replace("i64*", "ptr")
    )
    machine = llvm.Target.from_default_triple().create_target_machine()
    return machine.emit_object(llvm.parse_assembly(source))


def test_declared_and_implied_symbols():
    assert set(symbols_of(compiled()).undefined) == {"elsewhere", "data", "__powidf2"}


def test_what_others_may_use():
    symbols = symbols_of(compiled())
    assert set(symbols.functions) == {"f", "shared"}
    assert set(symbols.variables) == {"given"}


@given(st.binary(max_size=200))
def test_anything_else_is_none(noise):
    assert symbols_of(noise) is None


@given(st.binary(max_size=300))
def test_noise_behind_a_magic_never_raises(noise):
    assert not any(symbols_of(b"\x7fELF\x02\x01" + noise) or ())


def test_truncations_never_raise():
    code = compiled()
    for end in range(0, len(code), 7):
        symbols_of(code[:end])
