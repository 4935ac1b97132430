"""Lowering of kernels and main from vector code on tensors to memrefs and the LLVM dialect."""
