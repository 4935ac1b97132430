"""Passes that choose the layouts of images, and move transposes until they cancel."""
