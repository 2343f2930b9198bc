"""Units for CUDA: a kernel, a device function that is compiled on its own, a function for ``cuda.compile``.

A key consists of the same kinds of parts as the CPU's, and can't be one of these: it begins with other words. What is
left out: files' names and lines (but where debug information holds them), the processor of the host, ``extensions``,
which marshal arguments.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Iterator
from types import CodeType
from typing import Any

from nbcache.capabilities import Capability
from nbcache.glue.capture.compilations import FrameStack
from nbcache.glue.cuda.registrations import CudaRegistrations
from nbcache.glue.cuda.toolkit import KernelConditions
from nbcache.glue.identity.bytecode import nested_codes
from nbcache.glue.identity.describe_functions import function_name
from nbcache.glue.identity.differences import node_components
from nbcache.glue.keys.key_maker import KeyMaker
from nbcache.glue.keys.key_parts import CONDITIONS, Part
from nbcache.glue.keys.units import Unit

CUDA_KEY_VERSION = 5


class _NoFlags:
    """Stands for flags of the CPU's compiler, which a kernel has none of: its options are its dispatcher's."""

    debuginfo = dbg_directives_only = fastmath = False


class CudaUnit(Unit):
    """One function, one signature, one compute capability.

    ``kind``: "cuda kernel", "cuda device function" or "cuda code"; ``options``: what a caller of ``cuda.compile``
    gave, in words; a dispatcher's are in its identity. ``places``: whether the code tells lines.
    """

    def __init__(
        self,
        maker: KeyMaker,
        frames: FrameStack,
        kind: str,
        owner: Any,
        args: tuple[Any, ...],
        return_type: Any,
        *,
        cc: Capability,
        conditions: KernelConditions,
        registrations: CudaRegistrations,
        options: tuple[tuple[str, str], ...] = (),
    ) -> None:
        function = getattr(owner, "py_func", owner)
        super().__init__(
            maker, frames, kind, owner, function, args, return_type, _NoFlags(), options, conditions.digest(cc)
        )
        self.cc = cc
        self._kernel_conditions = conditions
        self._registrations = registrations
        self._told = b""

    def key_under(self, cpu: str) -> str:  # noqa: ARG002  as of any unit
        """No processor of a host makes a difference."""
        return self.key

    @property
    def _shown(self) -> str:
        return self._kernel_conditions.shown

    def _key_parts(self) -> list[Part]:
        parts = [
            ("key version", b"cuda %d" % CUDA_KEY_VERSION),
            (CONDITIONS, self.conditions),
            ("kind", self.kind.encode()),
            ("name", function_name(self.function).encode("utf-8", "surrogatepass")),
            *self._parts_of_what_is_asked(),
        ]
        self._told = self._registrations.digest()
        parts.append(("registrations", self._told))
        if self._told:  # code that runs while compiling and may read all of a class
            parts.append(("what isn't read", self.maker.engine.digest(self.unread(stubs=True))))
        if self._tells_lines():
            parts.append(("lines of the source", self._debug_lines()))
        return parts

    def surroundings_changed(self) -> bool:
        """Whether settings or what is registered aren't what the key was made of.  Raises Unidentifiable."""
        return self._kernel_conditions.digest(self.cc) != self.conditions or self._registrations.digest() != self._told

    def _content(self) -> bytes:
        """What identifies what is compiled.  Raises Unidentifiable."""
        content = super()._content()
        absent = [name for name in _IMPORTED_LATE if f"numba.cuda.{name}" not in sys.modules]
        if absent:
            codes = [getattr(node.obj, "__code__", None) for node in self._own_nodes()]
            named = {name for code in codes for each in nested_codes_of(code) for name in each.co_names}
            if not named.isdisjoint(absent):
                for name in named.intersection(absent):
                    importlib.import_module(f"numba.cuda.{name}")
                self.forget()
                content = super()._content()
        return content

    def _tells_lines(self) -> bool:
        """Whether anything that is reached asks for debug information, which holds places of all that is inlined."""
        options = dict(self.extra)
        if any(options.get(name, "False") not in {"False", "None"} for name in _WITH_LINES):
            return True
        known = _tell_lines.get(self.content)
        if known is None:
            reached = (getattr(node.obj, "targetoptions", None) for node in self._own_nodes())
            known = any(each.get(name) for each in reached if isinstance(each, dict) for name in _WITH_LINES)
            _tell_lines[self.content] = known
        return known

    def _in_words(self) -> list[tuple[str, str]]:
        found = [("cuda key version", str(CUDA_KEY_VERSION)), *self._kernel_conditions.components(self.cc)]
        found += [("kind", self.kind), *self.extra, ("signature", self.signature_text)]
        for i, typ in enumerate(self.args):
            if not self.maker.is_fixed(typ):
                found += node_components(self._type_nodes(typ), f"argument {i} ")
        found += node_components(self._own_nodes(), "")
        return [*found, *(("registered", label) for label in self._registrations.labels())]

    def registering_modules(self) -> list[str]:
        """The modules that registered something for CUDA, in that order, as far as others can import them."""
        return self._registrations.modules()

    def summary(self) -> str:
        """The toolchain in one line."""
        return self._kernel_conditions.summary(self.cc)

    def compile_again(self, _build: str) -> Any:
        raise RuntimeError(f"nothing links against {self.name}, which is for a GPU")


def nested_codes_of(code: Any) -> Iterator[CodeType]:
    """The code objects in one, itself first; none of what is no code."""
    return iter(nested_codes(code)) if isinstance(code, CodeType) else iter(())


_IMPORTED_LATE = ("fp16", "bf16", "fp8")
"""Modules that ``numba.cuda`` has as attributes only once numba-cuda has loaded its registries, which a hit doesn't."""
_WITH_LINES = ("debug", "lineinfo")
_tell_lines: dict[bytes, bool] = {}
"""By content: what identifies a function says what it and all that it reaches was asked for."""


def content_of(maker: KeyMaker, dispatcher: Any) -> bytes:
    """What identifies a device function.  Raises Unidentifiable."""
    content = maker.engine.digest(dispatcher)
    return hashlib.blake2b(content, digest_size=16).digest()
