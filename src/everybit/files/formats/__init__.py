"""One module a format: a file's structure, from its own bytes."""
