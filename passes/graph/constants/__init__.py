"""Passes that compute at compile time: constants, values of parameters in @init, values that no iteration changes."""
