"""A code library of numba-cuda whose cubin comes out of an entry; all else is read when somebody looks at it."""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any

from cuda.core import ObjectCode
from numba.cuda.codegen import CUDACodeLibrary

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbcache.glue.cuda.meta import KernelMeta

    Read = Callable[[str], bytes | None]


def packed_texts(texts: list[str]) -> bytes:
    """Several texts as a section."""
    return zlib.compress(json.dumps(texts).encode("utf-8", "surrogatepass"), 6)


def texts_in(section: bytes | None) -> list[str] | None:
    """What `packed_texts` packed; None where the section is gone."""
    if section is None:
        return None
    found: list[str] = json.loads(zlib.decompress(section))
    return found


class StoredCodeLibrary(CUDACodeLibrary):
    """One whose code was linked in another process.

    It pickles as numba-cuda's own class, with all that this keeps, so that who receives it needs no nbcache.
    """

    def __init__(self, meta: KernelMeta, cubin: bytes | None, read: Read, rebuild: Callable[[], Any]) -> None:
        super().__init__(
            None, meta.name, entry_name=meta.entry_name, max_registers=meta.max_registers,
            lto=meta.lto, nvvm_options=dict(meta.nvvm_options),
        )  # fmt: skip
        self._read = read
        self._rebuild_library = rebuild
        self._cc = meta.cc
        self.use_cooperative = meta.use_cooperative
        self.needs_cudadevrt = meta.needs_cudadevrt
        if cubin is not None:
            self._cubin_cache[meta.cc] = ObjectCode.from_cubin(cubin)
            self._linkerinfo_cache[meta.cc] = meta.linker_info
        self._finalized = True

    @property
    def llvm_strs(self) -> list[str]:
        """The NVVM IR."""
        texts: list[str] | None = self._llvm_strs  # type: ignore[has-type]
        if texts is None:
            texts = self._llvm_strs = texts_in(self._read("nvvm")) or self._rebuild_library().llvm_strs
        return texts

    @property
    def modules(self) -> list[Any]:
        """What llvmlite built, which an entry doesn't hold."""
        return list(self._rebuild_library().modules)

    def get_asm_strs(self, cc: Any = None) -> Any:
        """The PTX; for the compute capability of the entry that is what numba-cuda made then."""
        cc = self._ensure_cc(cc)
        if cc == self._cc and cc not in self._ptx_cache:
            found = texts_in(self._read("ptx"))
            if found is not None:
                self._ptx_cache[cc] = found
        return super().get_asm_strs(cc)

    def get_ltoir(self, cc: Any = None) -> Any:
        """The LTO-IR, likewise."""
        cc = self._ensure_cc(cc)
        if cc == self._cc and cc not in self._ltoir_cache:
            found = self._read("ltoir")
            if found is not None:
                self._ltoir_cache[cc] = found
        return super().get_ltoir(cc)

    def _link_all(self, linker: Any, cc: Any, ignore_nonlto: bool = False) -> None:
        """Linked anew, as PTX or for another compute capability: an entry doesn't hold what it is linked with."""
        self._rebuild_library()._link_all(linker, cc, ignore_nonlto)

    def get_function(self, name: str) -> Any:
        return self._rebuild_library().get_function(name)

    def _reduce_class(self) -> Any:
        return CUDACodeLibrary

    def _reduce_states(self) -> Any:
        self.get_asm_strs(self._cc)
        return super()._reduce_states()
