"""Importers: each format's importer makes a module of stepwell ops from a model."""

from .. import dialects  # noqa: F401  (before anything else imports MLIR)
