"""Parity over sealed files: what is lost of some is computed from the rest. `docs/repair.md`."""
