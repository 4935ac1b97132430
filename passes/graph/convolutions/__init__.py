"""Passes on convolutions: normalisation and padding in them, sums of branches, Winograd's method."""
