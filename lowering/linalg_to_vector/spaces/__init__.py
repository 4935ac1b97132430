"""Search spaces: the schedules that a kernel may have, as data for a tuner."""
