"""Kernels by their names in the registry: on an OpenCL device, or compiled for the processor."""

from __future__ import annotations

from functools import partial
from typing import Any

from engines.devices import DeviceRequest, give_up, opencl_handle
from kernels.registry import KERNELS, Kernel, kernel


class DeviceKernels:
    """The kernels of one run: each an attribute, called alike wherever it computes.

    Where the device is missing or fails, that is an error if it was asked for by name; else a
    named fallback, and the processor does this call and all that follow.
    """

    def __init__(self, request: DeviceRequest) -> None:
        self._request = request
        self._device = opencl_handle(request) if request.device == "opencl" else None

    @property
    def on_device(self) -> bool:
        """Are calls made on a device, as long as it does not fail?"""
        return self._device is not None

    def __getattr__(self, name: str) -> Kernel:
        if name not in KERNELS:
            raise AttributeError(f"no kernel is called '{name}'")
        return partial(self._run, name)

    def _run(self, name: str, *given: Any) -> Any:
        if self._device is not None:
            try:
                return kernel(name, "opencl", self._device)(*given)
            except Exception as error:  # drivers fail in many ways: out of memory, …
                give_up(self._request, f"the OpenCL device failed: {error}")
                self._device = None
        return KERNELS[name]["numba"](*given)


CPU = DeviceKernels(DeviceRequest())
