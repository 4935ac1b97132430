"""A backend of `transformers.exporters`: models exported by transformers run compiled, `generate` included."""
