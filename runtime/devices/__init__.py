"""Devices: how the programs of each family are checked, loaded, run and estimated."""
