"""Random graphs: their bytes are the seed that they grow from."""


def mutant(number: int) -> bytes:
    """The graph of that number."""
    return str(number).encode()
