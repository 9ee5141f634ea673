"""May this be loaded: what a file, an archive or a folder would make its loader do."""
