"""Pickles read as data: the machine, its nodes, and what torch writes; nothing is called."""
