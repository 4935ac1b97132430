"""PyTorch's interfaces on top of Stepwell: the backend of `torch.compile`, and the report of its graphs."""
