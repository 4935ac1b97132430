"""Import of GGUF files, the format of llama.cpp: decoders whose weights have few bits."""
