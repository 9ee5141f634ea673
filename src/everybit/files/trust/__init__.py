"""Where files come from, and whether that is enough: recorded origins and trust policies."""
