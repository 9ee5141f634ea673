"""Stored values judged on their own: holes of zeros, non-finite and implausible elements."""
