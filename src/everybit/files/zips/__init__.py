"""ZIP archives, read strictly: directory, members, checksums, and what is left of a cut one."""
