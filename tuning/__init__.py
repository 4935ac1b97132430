"""Search for schedules that are faster than the built-in ones: spaces, measurements, searchers, and what was found."""
