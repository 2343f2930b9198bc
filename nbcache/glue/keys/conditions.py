"""The conditions a compilation runs under: toolchain, target, Numba's configuration."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from operator import is_, itemgetter
from types import ModuleType
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numba
import numpy as np
from numba.core import config
from numba.core.registry import cpu_target
from numba.parfors import parfor

from nbcache import hosts
from nbcache.config import namespace
from nbcache.glue.identity import unregistered
from nbcache.glue.identity.compiler_files import COMPILER
from nbcache.glue.identity.distributions import Distributions
from nbcache.glue.identity.node import Unidentifiable
from nbcache.passing_exceptions import let_pass, suppressed

# Settings by which a user asks to see how something is compiled, each with what it is where nobody asks.
SHOWING_SETTINGS: dict[str, Any] = {
    "ANNOTATE": 0, "DEBUG": 0, "DEBUG_ARRAY_OPT": 0, "DEBUG_ARRAY_OPT_STATS": 0, "DEBUG_FRONTEND": 0,
    "DEBUG_INLINE_CLOSURE": 0, "DEBUG_PRINT_AFTER": "none", "DEBUG_PRINT_BEFORE": "none", "DEBUG_PRINT_WRAP": "none",
    "DEBUG_TYPEINFER": 0, "DUMP_ASSEMBLY": 0, "DUMP_BYTECODE": 0, "DUMP_CFG": 0,
    "DUMP_FUNC_OPT": 0, "DUMP_IR": 0, "DUMP_LLVM": 0, "DUMP_OPTIMIZED": 0, "DUMP_SSA": 0, "HTML": None,
    "JIT_COVERAGE": 0, "PARALLEL_DIAGNOSTICS": 0, "TRACE": 0,
}  # fmt: skip
# Settings that cannot change generated code.  Everything not listed here is in the key, so a
# setting that a new Numba brings causes a miss, never a wrong hit.
IRRELEVANT_SETTINGS: dict[str, str] = {
    **dict.fromkeys(SHOWING_SETTINGS, "shows what is compiled, which then isn't looked up"),
    "CACHE_DIR": "where Numba's own cache lies",
    "CACHE_LOCATOR_CLASSES": "how Numba's own cache finds its files",
    "COLOR_SCHEME": "colours of error messages",
    "DEBUG_CACHE": "prints what Numba's own cache does",
    "DEVELOPER_MODE": "more words in error messages",
    "DISABLE_ERROR_MESSAGE_HIGHLIGHTING": "colours of error messages",
    "EXPERIMENTAL_REDVAR": "not read by any release in range",
    "FUNCTION_CACHE_SIZE": "how many unpickled functions are kept alive",
    "HIGHLIGHT_DUMPS": "colours of dumps",
    "LLVM_PASS_TIMINGS": "measures", "NUM_THREADS": "read when the threads are launched",
    "NUMBA_NUM_THREADS": "read when the threads are launched",
    "NUMBA_DEFAULT_NUM_THREADS": "read when the threads are launched",
    "PROFILE_RATE": "measures", "SHOW_HELP": "more words in error messages",
    "THREADING_LAYER": "chosen when the threads are launched",
    "THREADING_LAYER_PRIORITY": "chosen when the threads are launched",
    "USE_RVSDG": "not read by any release in range", "WARNINGS": "warnings only",
    "IS_32BITS": "constant of the platform", "OPT_NPY_DATETIME": "constant",
}  # fmt: skip
# Whole families: settings of targets that nbcache leaves alone, some of them paths of the host.
IRRELEVANT_PREFIXES = ("CUDA_",)

_READ_ONCE = frozenset(
    f"config/NUMBA_{name}" for name in ("CPU_FEATURES", "CPU_NAME", "ENABLE_AVX", "OPT", "USE_LLVMLITE_MEMORY_MANAGER")
)
"""What Numba's code generator is made with, whatever is set later."""

_Component = tuple[str, str]
_TOOLCHAIN = tuple(sys.modules[name] for name in COMPILER)

META_VERSION = 27
"""Raised when the sections of an entry come to mean something else.

It is in every key: an entry that can't be read would otherwise keep its place, and be compiled anew by everybody.
"""


def toolchain_components(distributions: Distributions) -> list[_Component]:
    """Everything that turns Python into machine code: versions, files, and what codegen asks them for."""
    return [
        *python_components(),
        # Numba compiles the hash function that this Python was built with.
        ("toolchain/hash", f"{sys.hash_info.algorithm} {sys.hash_info.hash_bits} {sys.hash_info.cutoff}"),
        *numba_components(),
        # What a distributor has patched, or somebody has edited on the spot, has the same version.
        *files_of(_TOOLCHAIN, distributions),
        ("toolchain/svml", str(bool(getattr(config, "USING_SVML", False)))),
        ("toolchain/scipy", str(_has_linear_algebra())),
        ("toolchain/sections", str(META_VERSION)),
    ]


def python_components() -> list[_Component]:
    """This interpreter."""
    return [
        ("toolchain/python", f"{sys.implementation.name} {platform.python_version()} {sys.implementation.cache_tag}"),
        ("toolchain/abi", f"{getattr(sys, 'abiflags', '')} {sys.maxsize.bit_length()} {sys.byteorder}"),
        # Without assertions there are none in what Numba has in Python and compiles, nor in what of it runs meanwhile.
        ("toolchain/optimize", str(sys.flags.optimize)),
    ]


def numba_components() -> list[_Component]:
    """Versions of Numba and what it is built upon."""
    return [
        ("toolchain/numba", numba.__version__),
        ("toolchain/llvmlite", llvmlite.__version__),
        ("toolchain/llvm", ".".join(map(str, llvm.llvm_version_info))),
        ("toolchain/numpy", np.__version__),
    ]


def files_of(packages: Sequence[ModuleType], distributions: Distributions) -> list[_Component]:
    """What they consist of: what was there when that was asked first, in a parent of this process perhaps."""
    for each in packages:
        if each.__name__ not in _files:
            _files[each.__name__] = distributions.identity(each)
    return [(f"toolchain/files of {each.__name__}", _files[each.__name__]) for each in packages]


_files: dict[str, str] = {}


def _has_linear_algebra() -> bool:
    """Whether SciPy brings the BLAS and LAPACK that Numba's linear algebra calls.

    Numba asks by importing them, which would cost a hit 100 ms; a look at the files must do.
    """
    spec = None
    with suppressed(ImportError, ValueError):  # somebody's finder keeps it away, or his module says nothing
        spec = importlib.util.find_spec("scipy")
    for root in (spec.submodule_search_locations or ()) if spec is not None else ():
        with suppressed(OSError):
            names = os.listdir(os.path.join(root, "linalg"))
            return any(name.startswith("cython_lapack.") for name in names)
    return False


def target_components() -> list[_Component]:
    """What Numba's code generator compiles for."""
    triple, cpu, features = cpu_target.target_context.codegen().magic_tuple()
    return [
        ("target/triple", triple), ("target/cpu", cpu), ("target/features", features), ("target/libm", hosts.libm()),
        # LLVM computes what is constant in the thread that compiles, which a library may have told to flush subnormals.
        ("target/floating point", hosts.floating_point() or "as usual"),
    ]  # fmt: skip


def host_components() -> list[_Component]:
    """What two hosts have in common if each may build for the other: toolchain, and what their processors can do."""
    from nbcache.glue.keys import targets  # a process that only hits compares no processors

    features = ",".join(sorted(targets.host_features()))
    components = toolchain_components(Distributions())
    return [*components, ("host/cpu", targets.host_name()), ("host/features", features)]


def config_components() -> list[_Component]:
    """Every setting that could matter, as it is now."""
    found = [(f"config/NUMBA_{name}", repr(getattr(config, name))) for name in _relevant_settings()]
    return [*found, *namespace_components()]


def namespace_components() -> list[_Component]:
    """The namespace that keys of this process are in, if it is in one."""
    name = namespace()
    return [("config/NBCACHE_NAMESPACE", name)] if name else []


def _relevant_settings() -> list[str]:
    return sorted(
        name
        for name, value in vars(config).items()
        if name.isupper()
        and not name.startswith(("_", *IRRELEVANT_PREFIXES))
        and not callable(value)
        and name not in IRRELEVANT_SETTINGS
    )


def shown_by(settings: Mapping[str, Any]) -> str:
    """Which of a compiler's settings asks to see what it does, in words; "" if none does.

    Neither an entry nor who made it has shown this user anything, so then nothing is looked up.
    """
    found = [name for name, usual in SHOWING_SETTINGS.items() if settings.get(name, usual) != usual]
    return f"NUMBA_{found[0]}, which shows how it is compiled" if found else ""


def loops_in_turn() -> bool:
    """Whether loops that are compiled now run one iteration after the other, though they could run in parallel.

    So it is while Numba compiles the body of a parallel loop, and with it whatever that is the first to call.
    """
    return bool(parfor.sequential_parfor_lowering)


class SettingsOfThen:
    """Numba's settings are what they were when this was made, for as long as it is entered.

    What Numba has in Python and compiles is decorated when its modules are imported: with DISABLE_JIT, for good.
    """

    def __init__(self) -> None:
        self._then = _settings_now()
        self._now: dict[str, Any] = {}

    def __enter__(self) -> None:
        now = _settings_now()
        self._now = {name: now[name] for name in self._then.keys() & now.keys() if now[name] is not self._then[name]}
        vars(config).update({name: self._then[name] for name in self._now})

    def __exit__(self, *_raised: object) -> None:
        vars(config).update(self._now)


def _settings_now() -> dict[str, Any]:
    return {name: value for name, value in vars(config).items() if name.isupper()}


class Conditions:
    """Digest of all of the above, recomputed only when a setting is a different object than before."""

    def __init__(
        self, patched: Callable[[], tuple[_Component, ...]] = tuple, distributions: Distributions | None = None
    ) -> None:
        self._look_for_patches = patched
        self._distributions = distributions or Distributions()
        self.patched: tuple[_Component, ...] = ()
        """What others had put into Numba when `digest` was asked for last."""
        self.of_late: tuple[_Component, ...] = ()
        """The same; and how floats are computed and Numba's settings, where they aren't what they were at first."""
        self._at_first: frozenset[_Component] | None = None
        self._settings: Callable[[Mapping[str, Any]], tuple[Any, ...]] | None = None
        self._values: tuple[Any, ...] = ()
        self._floats = ""
        self._components: list[_Component] = []
        self._digest = b""
        self.shown = ""
        """What `shown_by` said when the digest was computed."""
        self._under: dict[tuple[bytes, str], bytes] = {}
        self._summary = ""
        self._environ: dict[Any, Any] | None = None
        self._has_file = False

    def look_at_files(self) -> None:
        """See what the toolchain consists of now; what is installed from now on doesn't count in this process."""
        files_of(_TOOLCHAIN, self._distributions)

    def digest(self) -> bytes:
        """32 bytes; Numba re-reads its environment before each compilation, so this does.  Raises Unidentifiable."""
        if unregistered.told:
            raise Unidentifiable(f"{unregistered.told[0]}, which somebody told the compiler past all registries")
        self.reread()
        patched = self._look_for_patches()
        if patched != self.patched or not self._unchanged():
            self._recompute(patched)
        return self._digest

    def _unchanged(self) -> bool:
        if self._settings is None or self._floats != hosts.floating_point():
            return False
        try:
            return all(map(is_, self._settings(vars(config)), self._values))
        except KeyError:
            return False

    def reread(self) -> None:
        """Do what Numba does, unless that would find everything as it was: it decodes each variable again.

        Raises Unidentifiable where Numba refuses a setting, as it will again when it compiles.
        """
        # What a file of settings said counts until Numba misses it.
        if os.path.exists(config._config_fname) or not self.has_read_all():
            try:
                config.reload_config()
            except Exception as raised:
                let_pass(raised)
                msg = f"settings of Numba's that it refuses: reading them raises {type(raised).__name__}"
                raise Unidentifiable(msg) from raised
            self.have_read()

    def reading(self) -> None:
        """Numba is about to read its settings, whoever asked it to; it may raise on the way."""
        self._environ = None

    def have_read(self) -> None:
        """It has."""
        environ = getattr(os.environ, "_data", None)
        self._environ = None if environ is None else dict(environ)
        self._has_file = os.path.exists(config._config_fname)

    def has_read_all(self) -> bool:
        """Whether the environment is what Numba read last, and no file of settings was there."""
        environ = getattr(os.environ, "_data", None)
        return environ is not None and environ == self._environ and not self._has_file

    def components(self) -> list[_Component]:
        """The labelled parts behind `digest`."""
        return self._components

    def under(self, cpu: str) -> bytes:
        """The digest of a process that differs from this one in nothing but that it compiles for *cpu*."""
        known = self.digest(), cpu
        if known not in self._under:
            from nbcache.glue.keys import targets

            other = targets.components(cpu)
            self._under[known] = digest_of([(label, other.get(label, words)) for label, words in self._components])
        return self._under[known]

    def summary(self) -> str:
        """One line for people: versions, and the processor that is compiled for."""
        if not self._summary:
            from nbcache.glue.keys import targets

            self._summary = f"numba {numba.__version__} python {platform.python_version()} {targets.name()}"
        return self._summary

    def _recompute(self, patched: tuple[_Component, ...]) -> None:
        self.patched = patched
        showing = [name for name in SHOWING_SETTINGS if name in vars(config)]
        read = self._settings = itemgetter(*_relevant_settings(), *showing)
        self._values = read(vars(config))
        self.shown = shown_by(vars(config))
        self._floats = hosts.floating_point()
        target, settings = target_components(), config_components()
        if self._at_first is None:
            self._at_first = frozenset([*target, *settings])
        self.of_late = patched + tuple(each for each in (*target, *settings) if each not in self._at_first)
        begun = self._at_first.difference(settings)
        target += sorted((f"target/begun with {label}", words) for label, words in begun if label in _READ_ONCE)
        self._components = [*toolchain_components(self._distributions), *target, *settings, *patched]
        self._digest = digest_of(self._components)


def digest_of(components: list[_Component], person: bytes = b"nbcache conds") -> bytes:
    """32 bytes, of labels and words."""
    hasher = hashlib.blake2b(digest_size=32, person=person)
    for label, words in components:
        for text in (label, words):
            content = text.encode()
            hasher.update(len(content).to_bytes(8, "little"))
            hasher.update(content)
    return hasher.digest()
