"""LLVM dialect to native objects."""
