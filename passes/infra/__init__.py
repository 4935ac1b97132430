"""Infrastructure of passes: their registry, pipelines of them and the runner, diagnostics, failures."""
