"""What the numbers stand on: interpreter, libraries, CPU, GPUs, flags, packages, code. No torch.

Torch's own state is read where torch is loaded already, or where the caller asks to load it.
"""

from everybit.host.environment import SCHEMA, capture_environment

__all__ = ["SCHEMA", "capture_environment"]
