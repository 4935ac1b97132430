"""Native code in this process: loaders, thread pools, and a pattern for fresh memory."""
