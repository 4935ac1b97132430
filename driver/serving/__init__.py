"""Provides code for calls: from the cache, by a compile, or in the background."""
