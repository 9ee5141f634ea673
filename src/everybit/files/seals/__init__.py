"""What files held: the manifest, sealing, and where a file departs from its seal."""
