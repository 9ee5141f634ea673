"""What a name may do when a pickle reaches it: known safe, unknown, or dangerous, from tables.

The tables are data with their sources and versions: `safe_*` list names one by one, `dangers` lists
names and whole modules with what they would do. A name in neither is unknown.
"""
