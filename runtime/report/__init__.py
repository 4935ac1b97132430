"""Why a model is as fast as it is: its nodes, its kernels, and what bounds them."""
