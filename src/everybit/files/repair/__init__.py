"""Putting the right bytes back, from the best evidence there is. `docs/repair.md` describes it."""
