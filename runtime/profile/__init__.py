"""Profiles: instrumented calls, recordings, traces, and the machine's peaks."""
