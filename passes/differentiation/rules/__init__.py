"""Derivatives of the ops, one file for each family of ops."""
