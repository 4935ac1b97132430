"""Random graphs: the bytes of a mutant are the seed of its graph."""


def mutant(number: int) -> bytes:
    """Returns the mutant with this number."""
    return str(number).encode()
