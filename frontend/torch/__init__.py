"""Imports PyTorch programs: graphs of ATen ops that `torch.export` captures."""
