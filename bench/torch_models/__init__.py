"""Models in torch, with the weights of the ONNX file that the other systems run: `load(path)` of each module."""
