"""Lowering of ops that read or write elements at computed positions."""
