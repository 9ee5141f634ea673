"""`verify`: which files are meant, and what their formats, values and neighbours say of them."""
