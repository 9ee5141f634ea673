"""Detectors judge: observations in, findings out; no torch, no state, the same live and offline."""
