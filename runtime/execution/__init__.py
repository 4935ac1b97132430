"""Compiled models as callables: executables, selection of a program for a call, the state of a call."""
