"""The values that every part of everybit speaks; no torch, and no import of another part."""
