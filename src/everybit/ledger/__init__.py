"""The run's record: a folder a run, and an append-only log of chained frames a rank and attempt.

Law: what a `RunWriter` took before the process died, however it died, `open_run` reads back equal,
but for at most the step under way; and any bit that changed since is told, with the steps on both
sides of it.
"""

from everybit.ledger.damage import Damage
from everybit.ledger.end import End, EndReason, end_after, exit_code
from everybit.ledger.incident import Incident, IncidentEntry, load_incident
from everybit.ledger.incident_writer import IncidentStore
from everybit.ledger.pause import Answer, Pause
from everybit.ledger.process import Liveness
from everybit.ledger.reader import LogReader
from everybit.ledger.run import RunReader, open_run
from everybit.ledger.scene import RngStates, SavedTensor, Scene
from everybit.ledger.writer import RecordingStopped, RunWriter

__all__ = [
    "Answer",
    "Damage",
    "End",
    "EndReason",
    "Incident",
    "IncidentEntry",
    "IncidentStore",
    "Liveness",
    "LogReader",
    "Pause",
    "RecordingStopped",
    "RngStates",
    "RunReader",
    "RunWriter",
    "SavedTensor",
    "Scene",
    "end_after",
    "exit_code",
    "load_incident",
    "open_run",
]
