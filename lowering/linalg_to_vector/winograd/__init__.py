"""Winograd convolutions: cuts them into strips of tiles, and emits their transforms as vector code."""
