"""Scalars into an MLflow run: the one that `MLFLOW_RUN_ID` names, or one of its own."""

from __future__ import annotations

import importlib
import os
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from everybit.sinks.worker import Job, Recorder

#: The most that MLflow takes at once.
_MAX_BATCH: Final = 1000
_ENDED: Final = {"clean": "FINISHED", "inconclusive": "FINISHED", "findings": "FINISHED"}


def open_recorder(job: Job) -> Recorder:
    """Begin or join a run at `job.place`, or where MLflow's own settings say."""
    return _MlflowRun(job)


class _MlflowRun:
    def __init__(self, job: Job) -> None:
        mlflow: Any = importlib.import_module("mlflow")
        self._metric: Any = importlib.import_module("mlflow.entities").Metric
        self._client = mlflow.MlflowClient(tracking_uri=job.place or None)
        self._held: list[Any] = []
        self._run_id = os.environ.get("MLFLOW_RUN_ID", "")
        self._is_ours = not self._run_id
        if self._is_ours:
            tags = {"mlflow.runName": job.name, "everybit.run": job.run}
            run = self._client.create_run(self._experiment(), tags=tags)
            self._run_id = run.info.run_id

    def _experiment(self) -> str:
        """Return the experiment that MLflow's variables name, or `everybit`."""
        number = os.environ.get("MLFLOW_EXPERIMENT_ID")
        if number:
            return number
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or "everybit"
        found = self._client.get_experiment_by_name(name)
        return str(found.experiment_id if found else self._client.create_experiment(name))

    def scalars(self, step: int, time_s: float, values: dict[str, float]) -> None:
        at = int(time_s * 1000)
        self._held += [self._metric(name, value, at, step) for name, value in values.items()]
        if len(self._held) >= _MAX_BATCH:
            self.tick()

    def finding(self, step: int, rule: str, severity: str, message: str) -> None:
        self._client.set_tag(self._run_id, f"everybit.{rule}", f"{message} (step {step})"[:500])

    def tick(self) -> None:
        held, self._held = self._held, []
        for start in range(0, len(held), _MAX_BATCH):
            self._client.log_batch(self._run_id, metrics=held[start : start + _MAX_BATCH])

    def close(self, status: str) -> None:
        self.tick()
        self._client.set_tag(self._run_id, "everybit.status", status)
        if self._is_ours:
            ended = _ENDED.get(status, "KILLED")
            self._client.set_terminated(self._run_id, ended, int(time.time() * 1000))
