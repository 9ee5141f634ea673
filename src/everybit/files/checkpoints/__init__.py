"""What belongs together: the files of one checkpoint, its parts, and its siblings in a folder."""
