"""One check a file, named as its rule: `srcNNN_slug.py` with `RULE_ID`, `WORDS` and `check`."""
