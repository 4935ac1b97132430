"""Shrinks a model that fails while it keeps failing in the same way.

A first run determines the failure (`observe`), every trial is a child process (`child`), and the search accepts
candidates with the same failure (`search`) and stores each accepted step (`folder`). The candidates are generated for
ONNX (`onnx_steps`) and for MLIR (`mlir_steps`).
"""
