"""Processors by name: what LLVM uses for each is what a host must have for it, and each host knows what it has."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import llvmlite.binding as llvm
import pytest

from nbcache import processors


def _calls(name, result, *types):
    arguments = ", ".join(f"{each} %{number}" for number, each in enumerate(types))
    return (
        f"declare {result} @llvm.aarch64.{name}({', '.join(types)})\n"
        f"define {result} @f({arguments}) {{\n %r = call {result} @llvm.aarch64.{name}({arguments})\n ret {result} %r\n}}"
    )


def _computes(result, arguments, *lines):
    return f"define {result} @f({arguments}) {{\n " + "\n ".join(lines) + f"\n ret {result} %r\n}}"


_BYTES, _INTS, _LONGS, _FLOATS = "<16 x i8>", "<4 x i32>", "<2 x i64>", "<4 x float>"
_SCALED = "<vscale x 2 x i64>"
SAMPLES = {
    "bf16": ("bfdot", _calls("neon.bfdot.v4f32.v8bf16", _FLOATS, _FLOATS, "<8 x bfloat>", "<8 x bfloat>")),
    "complxnum": ("fcmla", _calls("neon.vcmla.rot90.v4f32", _FLOATS, _FLOATS, _FLOATS, _FLOATS)),
    "crc": ("crc32b", _calls("crc32b", "i32", "i32", "i32")),
    "dotprod": ("sdot", _calls("neon.sdot.v4i32.v16i8", _INTS, _INTS, _BYTES, _BYTES)),
    "fp-armv8": ("fadd\td", _computes("double", "double %a", "%r = fadd double %a, %a")),
    "fp16fml": ("fmlal", _calls("neon.fmlal.v4f32.v8f16", _FLOATS, _FLOATS, "<8 x half>", "<8 x half>")),
    "fptoint": ("frint32z", _calls("frint32z.f64", "double", "double")),
    "fullfp16": ("fadd\th", _computes("half", "half %a", "%r = fadd half %a, %a")),
    "i8mm": ("smmla", _calls("neon.smmla.v4i32.v16i8", _INTS, _INTS, _BYTES, _BYTES)),
    "jsconv": ("fjcvtzs", _calls("fjcvtzs", "i32", "double")),
    "lse": ("ldadd", _computes("i64", "ptr %p, i64 %a", "%r = atomicrmw add ptr %p, i64 %a monotonic")),
    "lse2": ("ldp\t", _computes("i128", "ptr %p", "%r = load atomic i128, ptr %p monotonic, align 16")),
    "neon": ("add\tv", _computes(_INTS, f"{_INTS} %a", f"%r = add {_INTS} %a, %a")),
    "rcpc": ("ldapr", _computes("i64", "ptr %p", "%r = load atomic i64, ptr %p acquire, align 8")),
    "rcpc-immo": (
        "ldapur",
        _computes("i64", "ptr %p", "%q = getelementptr i8, ptr %p, i64 8", "%r = load atomic i64, ptr %q acquire, align 8"),
    ),
    "rdm": ("sqrdmlah", _calls("neon.sqrdmlah.v4i32", _INTS, _INTS, _INTS, _INTS)),
    "sha3": (
        "eor3\tv",
        _computes(_LONGS, f"{_LONGS} %a, {_LONGS} %b, {_LONGS} %c", f"%x = xor {_LONGS} %a, %b", f"%r = xor {_LONGS} %x, %c"),
    ),
    "sve": ("sdiv\tz", _computes(_INTS, f"{_INTS} %a, {_INTS} %b", f"%r = sdiv {_INTS} %a, %b")),
    "sve-bitperm": ("bdep", _calls("sve.bdep.x.nxv2i64", _SCALED, _SCALED, _SCALED)),
    "sve2": ("eor3\tz", _calls("sve.eor3.nxv2i64", _SCALED, _SCALED, _SCALED, _SCALED)),
}  # fmt: skip
"""An instruction of each feature, and a function that LLVM has it for where there is the feature and not otherwise."""

COMPILED = """
import json, os, resource, sys
import llvmlite.binding as llvm
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
target = llvm.Target.from_triple("aarch64-unknown-linux-gnu")
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
samples, found = json.loads(sys.argv[1]), {}
sys.stdout.flush()
for cpu in sys.argv[2:]:
    found[cpu] = []
    for feature, (instruction, code) in samples.items():
        # LLVM ends the process over what it has no instruction for.
        child = os.fork()
        if not child:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            text = target.create_target_machine(cpu=cpu).emit_assembly(llvm.parse_assembly(code))
            os._exit(instruction not in text)
        if os.waitpid(child, 0)[1] == 0:
            found[cpu].append(feature)
print(json.dumps(found))
"""

GRAVITON2 = (
    "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp ssbs"
)  # fmt: skip
GRAVITON3 = (
    "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm jscvt fcma lrcpc dcpop sha3 sm3 sm4"
    " asimddp sha512 sve asimdfhm dit uscat ilrcpc flagm ssbs paca pacg dcpodp svei8mm svebf16 i8mm bf16 dgh rng"
)
GRAVITON4 = (
    "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm jscvt fcma lrcpc dcpop sha3 asimddp"
    " sha512 sve asimdfhm dit uscat ilrcpc flagm sb paca pacg dcpodp sve2 sveaes svepmull svebitperm svesha3 flagm2"
    " frint svei8mm svebf16 i8mm bf16 dgh rng bti"
)
RASPBERRY4 = "fp asimd evtstrm crc32 cpuid"
"""What /proc/cpuinfo says there."""


@pytest.fixture
def on(monkeypatch):
    """Have the kernel say that this is another kind of machine."""
    return lambda machine: monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine=machine))


@pytest.mark.skipif(
    llvm.llvm_version_info[0] < 20, reason="an LLVM that writes pointers otherwise, or knows fewer processors"
)
def test_an_arm_processor_has_what_llvm_uses_for_it(on):
    on("aarch64")
    known = processors.here()
    assert set().union(*known.values()) == SAMPLES.keys()
    done = subprocess.run(
        [sys.executable, "-c", COMPILED, json.dumps(SAMPLES), *known], capture_output=True, text=True, check=True
    )
    found = {cpu: set(features) for cpu, features in json.loads(done.stdout).items()}
    # It has these, and LLVM knows that others are faster there.
    found["neoverse-v2"].add("rcpc-immo")
    assert found == known


@pytest.mark.parametrize(
    ("flags", "able"),
    [
        (RASPBERRY4, ["generic"]),
        (GRAVITON2, ["neoverse-n1", "generic"]),
        (GRAVITON3, ["neoverse-v1", "neoverse-n1", "generic"]),
        (GRAVITON4, ["neoverse-v2", "neoverse-n2", "neoverse-v1", "neoverse-n1", "generic"]),
        ("", []),
    ],
    ids=["raspberry4", "graviton2", "graviton3", "graviton4", "nothing"],
)
def test_an_arm_host_runs_the_levels_that_its_kernel_has_features_for(on, flags, able):
    on("aarch64")
    features = processors.told_by_kernel(frozenset(flags.split()))
    assert [each for each in processors.levels() if not processors.missing(each, features)] == able


def test_a_kernel_is_asked_of_arm_processors_alone(on):
    on("x86_64")
    assert processors.told_by_kernel(frozenset(GRAVITON4.split())) == frozenset()


def test_names_are_for_their_machines(on):
    for machine, own, other in (("x86_64", "haswell", "neoverse-n1"), ("aarch64", "neoverse-n1", "haswell")):
        on(machine)
        assert own in processors.here() and other not in processors.here()
        assert processors.named(f" {other.upper()}") == other
        assert processors.common() in processors.levels()
        assert set(processors.levels()) <= processors.here().keys()
    on("riscv64")
    assert not processors.here() and not processors.levels() and processors.common() is None
    with pytest.raises(ValueError, match="i486"):
        processors.named("i486")


ZEN4 = (
    "fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat pse36 clflush mmx fxsr sse sse2 ht syscall nx"
    " mmxext fxsr_opt pdpe1gb rdtscp lm constant_tsc rep_good nopl nonstop_tsc cpuid extd_apicid aperfmperf tsc_known_freq"
    " pni pclmulqdq monitor ssse3 fma cx16 pcid sse4_1 sse4_2 x2apic movbe popcnt aes xsave avx f16c rdrand hypervisor"
    " lahf_lm cmp_legacy cr8_legacy abm sse4a misalignsse 3dnowprefetch topoext perfctr_core invpcid_single ssbd ibrs ibpb"
    " stibp vmmcall fsgsbase bmi1 avx2 smep bmi2 invpcid avx512f avx512dq rdseed adx smap avx512ifma clflushopt clwb"
    " avx512cd sha_ni avx512bw avx512vl xsaveopt xsavec xgetbv1 xsaves avx512_bf16 clzero xsaveerptr rdpru wbnoinvd arat"
    " avx512vbmi pku ospke avx512_vbmi2 gfni vaes vpclmulqdq avx512_vnni avx512_bitalg avx512_vpopcntdq rdpid"
)
SAPPHIRE_RAPIDS = (
    "fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat pse36 clflush mmx fxsr sse sse2 ss ht syscall nx"
    " pdpe1gb rdtscp lm constant_tsc rep_good nopl xtopology nonstop_tsc cpuid tsc_known_freq pni pclmulqdq ssse3 fma cx16"
    " pcid sse4_1 sse4_2 x2apic movbe popcnt tsc_deadline_timer aes xsave avx f16c rdrand hypervisor lahf_lm abm"
    " 3dnowprefetch cpuid_fault ssbd ibrs ibpb stibp fsgsbase tsc_adjust bmi1 avx2 smep bmi2 erms invpcid avx512f avx512dq"
    " rdseed adx smap avx512ifma clflushopt clwb avx512cd sha_ni avx512bw avx512vl xsaveopt xsavec xgetbv1 xsaves avx_vnni"
    " avx512_bf16 wbnoinvd arat avx512vbmi umip pku ospke avx512_vbmi2 gfni vaes vpclmulqdq avx512_vnni avx512_bitalg"
    " avx512_vpopcntdq rdpid cldemote movdiri movdir64b fsrm serialize tsxldtrk amx_bf16 avx512_fp16 amx_tile amx_int8"
)


@pytest.mark.parametrize(
    ("flags", "never"),
    [(ZEN4, {"sapphirerapids"}), (SAPPHIRE_RAPIDS, {"znver1", "znver2", "znver3", "znver4"})],
    ids=["zen4", "sapphirerapids"],
)
def test_what_is_for_an_x86_processor_runs_on_hosts_whose_kernel_has_its_own_names_for_features(on, flags, never):
    on("x86_64")
    able = {name for name in processors.here() if set(processors.told_to_kernel(name)) <= set(flags.split())}
    assert able == processors.here().keys() - never
