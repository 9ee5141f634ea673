"""Snippets are read, never imported: they are what `lint` looks at."""

collect_ignore = ["snippets"]
