"""Tell a verdict to people and programs: terminal text, strict JSON, one HTML page."""
