"""Keys of programs, the cached programs of a model, locks between processes, and the plug-ins that take part."""
