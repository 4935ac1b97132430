"""The progress of compiles: events, the logger, and the progress bar."""
