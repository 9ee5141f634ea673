"""The Guard: watch a training loop, test what it carries, act on what is found."""

from everybit.guard.guard import Guard
from everybit.host.read_files import read_files
from everybit.ledger.default_folder import default_folder

__all__ = ["Guard", "default_folder"]

# A script reads its configuration before it makes a Guard: from here on it is on record.
read_files.listen()
