"""PyTorch's interfaces on top of Stepwell: the backend of `torch.compile`, and its account of what ran where."""
