"""GPUs as the NVIDIA driver tells them (nvidia-ml-py). Creates no CUDA context."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

#: The driver says that this GPU or this driver version has no such thing.
UNSUPPORTED: Final = "unsupported"
NO_DRIVER: Final = "no NVIDIA driver library"


def read_gpu() -> dict[str, Any]:
    """Return driver and devices.

    A value that the device does not have is `"unsupported"`; one that the driver failed to give is
    `"driver error: ..."`, which is a fact about the driver.
    """
    try:
        pynvml: Any = importlib.import_module("pynvml")
    except ImportError:
        if not _has_driver_library():
            return {"absent": NO_DRIVER}
        return {"unknown": "nvidia-ml-py is not installed (pip install 'everybit[gpu]')"}
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        if error.value == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND:
            return {"absent": NO_DRIVER}
        if error.value == pynvml.NVML_ERROR_DRIVER_NOT_LOADED:
            return {"absent": "the NVIDIA driver is not loaded"}
        return {"unknown": f"driver error: {error}"}
    try:
        return _read_devices(pynvml)
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _has_driver_library() -> bool:
    # The test that nvidia-ml-py itself makes.
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True


def _read_devices(pynvml: Any) -> dict[str, Any]:
    def ask(question: Callable[..., Any], *args: Any) -> Any:
        try:
            answer = question(*args)
        except pynvml.NVMLError_NotSupported:
            return UNSUPPORTED
        except pynvml.NVMLError_FunctionNotFound:
            return UNSUPPORTED
        except pynvml.NVMLError as error:
            return f"driver error: {error}"
        return answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer

    cuda = ask(pynvml.nvmlSystemGetCudaDriverVersion)
    if isinstance(cuda, int):
        cuda = f"{cuda // 1000}.{cuda % 1000 // 10}"
    count = ask(pynvml.nvmlDeviceGetCount)
    found: dict[str, Any] = {
        "driver": ask(pynvml.nvmlSystemGetDriverVersion),
        "driver_cuda": cuda,
        "num_devices": count,
        "devices": {},
        "now": {},
    }
    for index in range(count if isinstance(count, int) else 0):
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        except pynvml.NVMLError as error:
            found["devices"][str(index)] = f"driver error: {error}"
            continue
        found["devices"][str(index)] = {
            "name": ask(pynvml.nvmlDeviceGetName, handle),
            "uuid": ask(pynvml.nvmlDeviceGetUUID, handle),
            "vbios": ask(pynvml.nvmlDeviceGetVbiosVersion, handle),
            "capability": _joined(ask(pynvml.nvmlDeviceGetCudaComputeCapability, handle), "."),
            "memory_bytes": _total(ask(pynvml.nvmlDeviceGetMemoryInfo, handle)),
            "ecc": _mode(ask(pynvml.nvmlDeviceGetEccMode, handle)),
            "mig": _mode(ask(pynvml.nvmlDeviceGetMigMode, handle)),
            "inforom": ask(pynvml.nvmlDeviceGetInforomImageVersion, handle),
            "gsp_firmware": ask(pynvml.nvmlDeviceGetGspFirmwareVersion, handle),
            "persistence": _on(ask(pynvml.nvmlDeviceGetPersistenceMode, handle)),
            "compute_mode": ask(pynvml.nvmlDeviceGetComputeMode, handle),
            "power_limit_w": _watts(ask(pynvml.nvmlDeviceGetPowerManagementLimit, handle)),
            "clocks": {
                name: {
                    "max_mhz": ask(pynvml.nvmlDeviceGetMaxClockInfo, handle, clock),
                    "chosen_mhz": ask(pynvml.nvmlDeviceGetApplicationsClock, handle, clock),
                }
                for name, clock in _clocks(pynvml).items()
            },
        }
        # Of this moment: recorded, and not compared.
        found["now"][str(index)] = {
            f"{name}_mhz": ask(pynvml.nvmlDeviceGetClockInfo, handle, clock)
            for name, clock in _clocks(pynvml).items()
        } | {"throttled_by": _hex(ask(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle))}
    return found


def _clocks(pynvml: Any) -> dict[str, int]:
    return {"sm": pynvml.NVML_CLOCK_SM, "memory": pynvml.NVML_CLOCK_MEM}


def _on(answer: Any) -> Any:
    return answer if isinstance(answer, str) else "on" if answer else "off"


def _watts(answer: Any) -> Any:
    return answer if isinstance(answer, str) else round(answer / 1000)


def _hex(answer: Any) -> Any:
    return answer if isinstance(answer, str) else f"{answer:#x}"


def _joined(answer: Any, separator: str) -> Any:
    return separator.join(map(str, answer)) if isinstance(answer, (tuple, list)) else answer


def _total(answer: Any) -> Any:
    return answer if isinstance(answer, str) else int(answer.total)


def _mode(answer: Any) -> Any:
    """Tell `[current, pending]` as on, off, or what it becomes at the next reset."""
    if not isinstance(answer, (tuple, list)):
        return answer
    current, pending = ("on" if mode else "off" for mode in answer)
    return current if current == pending else f"{current}, {pending} after reset"
