"""Importers of operators on images: pooling, resizing, sampling, patches and regions."""
