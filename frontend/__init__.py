"""Models in: each format's importer makes a module of stepwell ops."""
