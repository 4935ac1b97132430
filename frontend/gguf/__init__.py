"""GGUF files, as llama.cpp and its tools write them: decoders with weights of few bits."""
