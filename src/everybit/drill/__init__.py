"""Faults planted on purpose, and what catches them: the demo and the models it trains."""
