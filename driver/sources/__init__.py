"""Models before they are imported: a class for each format, in a file of its own."""
