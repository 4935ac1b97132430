"""Kernels and main: from vector code on tensors to memrefs and the LLVM dialect."""
