"""GPUs through nvidia-ml-py, against a driver library made of Python."""

from __future__ import annotations

import ctypes
import sys

import pytest

pynvml = pytest.importorskip("pynvml")

from tests.host.fake_nvml import FakeDriver, install

from everybit.host.gpu import NO_DRIVER, UNSUPPORTED, read_gpu


def test_every_fact_of_two_devices(monkeypatch):
    driver = FakeDriver(num_devices=2)
    install(monkeypatch, driver)
    found = read_gpu()
    assert found["driver"] == "570.124.06"
    assert found["driver_cuda"] == "12.8"
    assert found["num_devices"] == 2
    assert list(found["devices"]) == ["0", "1"]
    assert found["devices"]["1"] == {
        "name": "NVIDIA H200",
        "uuid": "GPU-0123",
        "vbios": "96.00.D0",
        "capability": "9.0",
        "memory_bytes": 1 << 37,
        "ecc": "on, off after reset",
        "mig": "off",
        "inforom": "G520.0200.00.05",
        "gsp_firmware": "570.124.06",
        "persistence": "on",
        "compute_mode": 0,
        "power_limit_w": 700,
        "clocks": {
            "sm": {"max_mhz": 1980, "chosen_mhz": 1830},
            "memory": {"max_mhz": 1980, "chosen_mhz": 1830},
        },
    }
    assert found["now"]["1"] == {"sm_mhz": 1755, "memory_mhz": 1755, "throttled_by": "0x4"}
    assert driver.shutdowns == 1


def test_unsupported_and_driver_errors_are_told_apart(monkeypatch):
    install(
        monkeypatch,
        FakeDriver(
            nvmlDeviceGetEccMode=pynvml.NVML_ERROR_NOT_SUPPORTED,
            nvmlDeviceGetUUID=pynvml.NVML_ERROR_UNKNOWN,
            nvmlDeviceGetMemoryInfo=pynvml.NVML_ERROR_GPU_IS_LOST,
        ),
    )
    device = read_gpu()["devices"]["0"]
    assert device["ecc"] == UNSUPPORTED
    assert device["uuid"] == "driver error: Unknown Error"
    assert device["memory_bytes"].startswith("driver error: GPU is lost")
    assert device["name"] == "NVIDIA H200"


def test_a_device_that_does_not_answer_leaves_the_driver_on_record(monkeypatch):
    install(monkeypatch, FakeDriver(nvmlDeviceGetHandleByIndex=pynvml.NVML_ERROR_IRQ_ISSUE))
    found = read_gpu()
    assert found["driver"] == "570.124.06"
    assert found["devices"]["0"].startswith("driver error:")


@pytest.mark.parametrize(
    ("code", "key"),
    [
        (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, "absent"),
        (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "absent"),
        (pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, "unknown"),
        (pynvml.NVML_ERROR_NO_PERMISSION, "unknown"),
    ],
)
def test_no_driver_is_absent_and_a_failing_one_is_unknown(monkeypatch, code, key):
    install(monkeypatch, FakeDriver(nvmlInitWithFlags=code))
    assert list(read_gpu()) == [key]


def test_without_the_package_nothing_is_claimed(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert "not installed" in read_gpu()["unknown"]


def test_without_package_and_driver_there_is_no_gpu(monkeypatch):
    def fail(name):
        raise OSError(name)

    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(ctypes, "CDLL", fail)
    assert read_gpu() == {"absent": NO_DRIVER}
