"""Artefacts, the files of compiled models: reader, writer, and the records that they share with the cache."""
