"""..."""


def main() -> None:
    """..."""
