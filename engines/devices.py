"""What can compute here, and which of it is used."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from typing import Literal as OneOf

from engines.account import Fallbacks
from engines.pocl_processor import name_processor
from workloads.errors import SheafError

_MISSING = "install what is missing, or leave --device out"
_GPU_FILES = ("dri/*", "nvidia*", "kfd", "dxg", "mali*")  # in /dev; "dxg" is that of Windows' Linux
_POCL = "Portable Computing Language"


class DeviceError(SheafError):
    """A device that was asked for by name and is missing or fails."""


@dataclass(frozen=True)
class DeviceInfo:
    """A device as people see it; `handle` is what computes on it."""

    kind: OneOf["cpu", "opencl"]
    name: str
    detail: str
    is_gpu: bool = False
    handle: Any = None


def list_devices() -> list[DeviceInfo]:
    """The processor, and every OpenCL device that can do what the kernels need."""
    import platform

    import numba

    processor = platform.processor() or platform.machine()
    cores = f"{os.cpu_count()} cores, numba {numba.__version__}"
    return [DeviceInfo("cpu", processor, cores), *opencl_devices()[0]]


@cache
def opencl_devices() -> tuple[tuple[DeviceInfo, ...], str]:
    """OpenCL devices with double precision, GPUs first, and why there are none."""
    try:
        import pyopencl as cl

        platforms = cl.get_platforms()
    except Exception as error:  # a driver can fail in many ways, and each only means: no device
        return (), f"OpenCL does not start: {error}"
    found = []
    why = "no OpenCL device with double precision was found"
    for platform in platforms:
        if platform.name == _POCL and shutil.which("ld") is None:
            # It links every kernel with the system's linker, and ends the process if there is none.
            why = f"{_POCL} needs the linker 'ld' on PATH (Debian, Ubuntu: apt install binutils)"
            continue
        try:
            devices = platform.get_devices()
        except cl.Error:
            continue  # a platform without devices says so by failing
        for device in devices:
            if platform.name == _POCL:
                name_processor(device)
            if device.double_fp_config:
                memory = device.global_mem_size / 2**30
                detail = f"{device.max_compute_units} units, {memory:.1f} GB, {platform.name}"
                is_gpu = bool(device.type & cl.device_type.GPU)
                found.append(DeviceInfo("opencl", device.name.strip(), detail, is_gpu, device))
    found.sort(key=lambda info: not info.is_gpu)
    return tuple(found), "" if found else why


def choose(wanted: OneOf["auto", "cpu", "opencl"]) -> OneOf["cpu", "opencl"]:
    """The device to use: by itself a GPU if there is one, else the processor."""
    if wanted == "cpu" or (wanted == "auto" and not _may_have_gpu()):
        return "cpu"
    devices, why = opencl_devices()
    if wanted == "opencl":
        if not devices:
            raise DeviceError(f"{why}; {_MISSING}")
        return "opencl"
    return "opencl" if any(info.is_gpu for info in devices) else "cpu"


def _may_have_gpu() -> bool:
    """May there be a GPU? Asking OpenCL takes longer than a short run: Linux has files for them."""
    return sys.platform != "linux" or any(
        next(Path("/dev").glob(names), None) is not None for names in _GPU_FILES
    )


@dataclass(frozen=True)
class DeviceRequest:
    """A device that is asked for; with `insist` it is an error if it cannot be had."""

    device: OneOf["cpu", "opencl"] = "cpu"
    insist: bool = False
    fallbacks: Fallbacks = field(default_factory=Fallbacks)


def opencl_handle(request: DeviceRequest) -> Any:
    """The OpenCL device, or None where there is none: the processor computes."""
    devices, why = opencl_devices()
    if devices:
        return devices[_given(len(devices))].handle
    return give_up(request, why)


def _given(number: int) -> int:
    """The place in the list of the device that this process was given, among so many.

    `SHEAF_OPENCL_DEVICE` says so, which a Spark task sets to what Spark gave it.
    """
    text = os.environ.get("SHEAF_OPENCL_DEVICE", "0")
    if not text.isdecimal() or int(text) >= number:
        raise DeviceError(
            f"SHEAF_OPENCL_DEVICE is '{text}', and there are {number} OpenCL devices, counted "
            "from 0; 'sheaf devices' lists them"
        )
    return int(text)


def give_up(request: DeviceRequest, why: str) -> None:
    """A device that does not work: an error if it was asked for by name, else a fallback."""
    if request.insist:
        raise DeviceError(f"{why}; {_MISSING}")
    request.fallbacks.add(f"{why}: computing on the CPU instead")
