"""PyTorch's interfaces on top of Stepwell: the backend of `torch.compile`, and its report of what ran where."""
