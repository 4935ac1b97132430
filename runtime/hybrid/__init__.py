"""Models that run in steps: hybrid execution plans, control flow, and what is known before a run."""
