"""What is left of damaged files: each tensor's state, and a new file of those that are whole."""
