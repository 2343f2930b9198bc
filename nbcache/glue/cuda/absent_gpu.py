"""A device that isn't there: numba-cuda compiles and links for its compute capability, and runs nothing.

NVIDIA's compilers and linker need no driver, but numba-cuda asks the device what to compile for, and binds what it has
compiled to it. All of these questions end at one object, numba-cuda's runtime, so that is what is replaced. What is
answered is what follows from the compute capability. All else (how many multiprocessors it has, memory on it) raises
the exception that numba-cuda raises where there is no device: code that needs to know can't be built from here.

A process has one stand-in, for one compute capability, from before it compiles anything: device functions that were
compiled for one are linked into kernels for the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.cuda.cudadrv import devices, driver
from numba.cuda.cudadrv.error import CudaSupportError

from nbcache.capabilities import Capability, spelt

_BFLOAT16_FROM = (8, 0)
_FP8_FROM = (8, 9)


class _Part:
    """What a stand-in consists of: it has what is in it, and says of all else why it hasn't."""

    def __init__(self, cc: Capability) -> None:
        self._cc = cc

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        msg = f"{name} was asked of a device, and there is none here that has compute capability {spelt(self._cc)}"
        raise CudaSupportError(msg)


class _Device(_Part):
    id = 0

    def __init__(self, cc: Capability) -> None:
        super().__init__(cc)
        self.compute_capability = cc[:2]
        # As in `driver.Device`.
        self.supports_bfloat16 = cc[:2] >= _BFLOAT16_FROM
        self.supports_fp8 = cc[:2] >= _FP8_FROM


class _Function(_Part):
    def __init__(self, cc: Capability, module: _Module, name: str) -> None:
        super().__init__(cc)
        self.module = module
        self.name = name

    def set_shared_memory_carveout(self, carveout: int) -> None:
        """Nothing will be launched."""


class _Module(_Part):
    initialized = True
    """What a program wants done once its code is loaded can't be done: none is."""

    def get_function(self, name: str) -> _Function:
        return _Function(self._cc, self, name)


class _Context(_Part):
    id = 0

    def __init__(self, cc: Capability) -> None:
        super().__init__(cc)
        self.device = _Device(cc)

    def create_module_image(self, _cubin: Any, _setup: Any = None, _teardown: Any = None) -> _Module:
        return _Module(self._cc)


class _Runtime(_Part):
    """In the place of `devices._Runtime`."""

    def __init__(self, cc: Capability) -> None:
        super().__init__(cc)
        self._context = _Context(cc)

    def get_or_create_context(self, _devnum: Any) -> _Context:
        return self._context

    @contextmanager
    def ensure_context(self) -> Iterator[None]:
        yield


def install(cc: Capability) -> None:
    """Answer for a device of this compute capability from now on, whatever devices this host has."""
    runtime = _Runtime(cc)
    devices._runtime = runtime
    # `cuda.gpus`, which others hold; and `cuda.is_available`, which modules ask before they define kernels.
    devices._DeviceList.lst = property(lambda _self: [runtime.get_or_create_context(0).device])
    devices._DeviceList.current = property(lambda _self: runtime.get_or_create_context(0).device)
    driver.Driver.is_available = property(lambda _self: True)
