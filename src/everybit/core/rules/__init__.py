"""One rule a file: its docstring is its docs page and what `everybit rule ID` prints."""
