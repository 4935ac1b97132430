"""Polynomial approximations of elementary functions: straight-line code for scalars and vectors alike."""
