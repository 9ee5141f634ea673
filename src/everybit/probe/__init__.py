"""Probes measure: the memory of tensors, their digests, random number streams."""
