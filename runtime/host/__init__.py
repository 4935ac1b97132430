"""Nodes on the host: operators without native code, and the reasons."""
