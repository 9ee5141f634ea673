"""Scalars into TensorBoard's event files, by its own writer; needs neither TensorFlow nor torch."""

from __future__ import annotations

import importlib
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everybit.sinks.worker import Job, Recorder


def open_recorder(job: Job) -> Recorder:
    """Begin an event file in the folder `job.place`."""
    return _EventFiles(job.place)


class _EventFiles:
    def __init__(self, folder: str) -> None:
        events: Any = importlib.import_module("tensorboard.summary.writer.event_file_writer")
        self._event: Any = importlib.import_module("tensorboard.compat.proto.event_pb2").Event
        self._summaries: Any = importlib.import_module("tensorboard.compat.proto.summary_pb2")
        self._tensors: Any = importlib.import_module("tensorboard.compat.proto.tensor_pb2")
        self._types: Any = importlib.import_module("tensorboard.compat.proto.types_pb2")
        self._writer = events.EventFileWriter(folder)

    def scalars(self, step: int, time_s: float, values: dict[str, float]) -> None:
        value = self._summaries.Summary.Value
        self._add(step, time_s, [value(tag=tag, simple_value=v) for tag, v in values.items()])

    def finding(self, step: int, rule: str, severity: str, message: str) -> None:
        # As the text plugin keeps it: a string tensor, marked as the plugin's.
        metadata = self._summaries.SummaryMetadata()
        metadata.plugin_data.plugin_name = "text"
        text = self._tensors.TensorProto(
            dtype=self._types.DT_STRING, string_val=[f"{rule} ({severity}): {message}".encode()]
        )
        value = self._summaries.Summary.Value(
            tag="everybit/finding", metadata=metadata, tensor=text
        )
        self._add(step, time.time(), [value])
        self._writer.flush()

    def _add(self, step: int, time_s: float, values: list[Any]) -> None:
        summary = self._summaries.Summary(value=values)
        self._writer.add_event(self._event(wall_time=time_s, step=step, summary=summary))

    def tick(self) -> None:
        self._writer.flush()

    def close(self, status: str) -> None:
        self._writer.close()
