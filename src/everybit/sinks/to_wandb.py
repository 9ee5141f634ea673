"""Scalars into a Weights & Biases run; offline unless the user's own settings say otherwise."""

from __future__ import annotations

import configparser
import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everybit.sinks.worker import Job, Recorder


def open_recorder(job: Job) -> Recorder:
    """Begin a run in the project `job.place`; its files go into the run folder."""
    return _WandbRun(job)


def chosen_mode() -> str:
    """Return the mode of the user's own settings: the variable, then the files; else offline."""
    mode = os.environ.get("WANDB_MODE", "")
    if mode:
        return mode
    home = Path(os.environ.get("WANDB_CONFIG_DIR") or Path.home() / ".config" / "wandb")
    for path in (Path("wandb") / "settings", home / "settings"):
        parser = configparser.ConfigParser()
        try:
            parser.read(path, encoding="utf-8")
            mode = parser.get("default", "mode", fallback="")
        except (configparser.Error, UnicodeDecodeError, OSError):
            continue
        if mode:
            return mode
    return "offline"


class _WandbRun:
    def __init__(self, job: Job) -> None:
        wandb: Any = importlib.import_module("wandb")
        self._run = wandb.init(
            project=job.place or os.environ.get("WANDB_PROJECT") or "everybit",
            name=job.name,
            dir=job.run,
            mode=chosen_mode(),
            config={"everybit_run": job.run},
            settings=wandb.Settings(console="off", silent=True, disable_git=True, save_code=False),
        )

    def scalars(self, step: int, time_s: float, values: dict[str, float]) -> None:
        self._run.log(values, step=step)

    def finding(self, step: int, rule: str, severity: str, message: str) -> None:
        self._run.summary[f"everybit/{rule}"] = f"{message} (step {step})"

    def tick(self) -> None:
        """Nothing to do: the library sends by itself."""

    def close(self, status: str) -> None:
        self._run.summary["everybit/status"] = status
        self._run.finish(exit_code=1 if status == "killed" else 0)
