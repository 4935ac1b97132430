"""Winograd convolutions: cut into strips of tiles, and their transforms as vector code."""
