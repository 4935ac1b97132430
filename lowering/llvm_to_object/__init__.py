"""Code generation from the LLVM dialect to native objects."""
