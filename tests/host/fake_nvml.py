"""A driver library made of Python, to stand behind nvidia-ml-py's own ctypes boundary."""

from __future__ import annotations

from typing import Any

import pynvml


class FakeDriver:
    """Answers the C functions that pynvml looks up; `errors` maps a function to its error code."""

    def __init__(self, num_devices: int = 1, **errors: int) -> None:
        self.num_devices = num_devices
        self.errors = errors
        self.shutdowns = 0

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml"):
            raise AttributeError(name)
        plain = name.removesuffix("_v2").removesuffix("_v3")

        def call(*args: Any) -> int:
            if plain in self.errors:
                return self.errors[plain]
            return int(getattr(self, f"answer_{plain}")(*args) or 0)

        return call

    @staticmethod
    def _text(buffer: Any, text: bytes) -> None:
        buffer.value = text

    @staticmethod
    def _number(pointer: Any, value: int) -> None:
        pointer._obj.value = value

    def answer_nvmlInitWithFlags(self, flags: Any) -> None: ...

    def answer_nvmlShutdown(self) -> None:
        self.shutdowns += 1

    def answer_nvmlSystemGetDriverVersion(self, buffer: Any, size: Any) -> None:
        self._text(buffer, b"570.124.06")

    def answer_nvmlSystemGetCudaDriverVersion(self, pointer: Any) -> None:
        self._number(pointer, 12080)

    def answer_nvmlDeviceGetCount(self, pointer: Any) -> None:
        self._number(pointer, self.num_devices)

    def answer_nvmlDeviceGetHandleByIndex(self, index: Any, pointer: Any) -> None: ...

    def answer_nvmlDeviceGetName(self, handle: Any, buffer: Any, size: Any) -> None:
        self._text(buffer, b"NVIDIA H200")

    def answer_nvmlDeviceGetUUID(self, handle: Any, buffer: Any, size: Any) -> None:
        self._text(buffer, b"GPU-0123")

    def answer_nvmlDeviceGetVbiosVersion(self, handle: Any, buffer: Any, size: Any) -> None:
        self._text(buffer, b"96.00.D0")

    def answer_nvmlDeviceGetCudaComputeCapability(
        self, handle: Any, major: Any, minor: Any
    ) -> None:
        self._number(major, 9)
        self._number(minor, 0)

    def answer_nvmlDeviceGetMemoryInfo(self, handle: Any, pointer: Any) -> None:
        pointer._obj.total = 1 << 37

    def answer_nvmlDeviceGetEccMode(self, handle: Any, current: Any, pending: Any) -> None:
        self._number(current, 1)
        self._number(pending, 0)

    def answer_nvmlDeviceGetMigMode(self, handle: Any, current: Any, pending: Any) -> None:
        self._number(current, 0)
        self._number(pending, 0)

    def answer_nvmlDeviceGetInforomImageVersion(self, handle: Any, text: Any, size: Any) -> None:
        self._text(text, b"G520.0200.00.05")

    def answer_nvmlDeviceGetGspFirmwareVersion(self, handle: Any, text: Any) -> None:
        self._text(text, b"570.124.06")

    def answer_nvmlDeviceGetPersistenceMode(self, handle: Any, pointer: Any) -> None:
        self._number(pointer, 1)

    def answer_nvmlDeviceGetComputeMode(self, handle: Any, pointer: Any) -> None:
        self._number(pointer, 0)

    def answer_nvmlDeviceGetPowerManagementLimit(self, handle: Any, pointer: Any) -> None:
        self._number(pointer, 700_000)

    def answer_nvmlDeviceGetMaxClockInfo(self, handle: Any, clock: Any, pointer: Any) -> None:
        self._number(pointer, 1980)

    def answer_nvmlDeviceGetApplicationsClock(self, handle: Any, clock: Any, pointer: Any) -> None:
        self._number(pointer, 1830)

    def answer_nvmlDeviceGetClockInfo(self, handle: Any, clock: Any, pointer: Any) -> None:
        self._number(pointer, 1755)

    def answer_nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: Any, pointer: Any) -> None:
        self._number(pointer, 4)


def install(monkeypatch: Any, driver: Any) -> None:
    """Put `driver` in the place of the loaded library, and forget cached functions."""
    monkeypatch.setattr(pynvml, "nvmlLib", driver)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
