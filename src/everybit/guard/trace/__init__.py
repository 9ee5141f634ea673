"""Tracing: what each module, or each operation, gave and got back, as digests in causal order."""

from everybit.guard.trace.check import TraceCheck

__all__ = ["TraceCheck"]
