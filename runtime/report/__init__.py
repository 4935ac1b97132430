"""Reports on a model's performance: its nodes, its kernels, and their bounds."""
