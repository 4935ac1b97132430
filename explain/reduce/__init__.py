"""Shrinks a model that fails while it keeps failing in the same way.

What fails is learnt from a first run (`observe`), every trial is a process of its own (`child`), the search accepts
what fails alike (`search`) and writes each accepted step down (`folder`). What can be made smaller is known for ONNX
(`onnx_steps`) and for MLIR (`mlir_steps`).
"""
