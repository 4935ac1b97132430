"""Launches: kernels divided into them, their schedules, and the plan that the runtime executes."""
