"""Devices are found, chosen, and left for the CPU where they fail."""

import pytest
from typer.testing import CliRunner

from api.cli.main import app
from engines import devices
from engines.device_kernels import DeviceKernels
from engines.devices import (
    DeviceError,
    DeviceRequest,
    choose,
    list_devices,
    opencl_devices,
    opencl_handle,
)

NONE = ((), "no driver")
needs_opencl = pytest.mark.skipif(not opencl_devices()[0], reason=opencl_devices()[1])


@pytest.fixture
def nothing(monkeypatch):
    monkeypatch.setattr(devices, "opencl_devices", lambda: NONE)


def test_the_processor_is_always_there():
    assert list_devices()[0].kind == "cpu"


@needs_opencl
def test_the_bundled_opencl_platform_is_found():
    assert choose("opencl") == "opencl"
    request = DeviceRequest("opencl")
    assert opencl_handle(request) is not None
    assert not request.fallbacks.sentences


@pytest.mark.usefixtures("nothing")
def test_a_device_asked_for_by_name_must_be_there():
    with pytest.raises(DeviceError, match="no driver"):
        choose("opencl")
    request = DeviceRequest("opencl", insist=True)
    with pytest.raises(DeviceError, match="no driver"):
        opencl_handle(request)
    assert not request.fallbacks.sentences


@pytest.mark.usefixtures("nothing")
def test_by_itself_the_cpu_takes_over():
    assert choose("auto") == "cpu"
    request = DeviceRequest("opencl")
    for _ in range(2):
        assert opencl_handle(request) is None
    assert list(request.fallbacks) == ["no driver: computing on the CPU instead"]


def test_opencl_is_asked_for_a_gpu_only_where_there_may_be_one(monkeypatch):
    gpu = devices.DeviceInfo("opencl", "a card", "", is_gpu=True)
    monkeypatch.setattr(devices, "opencl_devices", lambda: ((gpu,), ""))
    monkeypatch.setattr(devices, "_GPU_FILES", ("null",))
    assert choose("auto") == "opencl"
    monkeypatch.setattr(devices, "_GPU_FILES", ("no such card*",))
    monkeypatch.setattr("sys.platform", "linux")
    assert choose("auto") == "cpu"
    monkeypatch.setattr("sys.platform", "darwin")
    assert choose("auto") == "opencl"


@pytest.mark.usefixtures("nothing")
def test_the_cpu_needs_no_opencl():
    request = DeviceRequest("cpu", insist=True)
    assert DeviceKernels(request).number_texts is not None
    assert not request.fallbacks.sentences


def test_devices_are_listed():
    result = CliRunner().invoke(app, ["devices"])
    assert result.exit_code == 0
    assert result.stdout.startswith("cpu ")
    assert "opencl" in result.stdout


def test_a_platform_that_would_end_the_process_is_left_alone(monkeypatch):
    monkeypatch.setattr(devices.shutil, "which", lambda name: None)
    found, why = opencl_devices.__wrapped__()
    assert not any("Portable Computing Language" in info.detail for info in found)
    assert found or "ld" in why
