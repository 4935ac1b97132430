"""Contractions: tiles in shared memory, multiplied by FMAs or tensor cores."""
