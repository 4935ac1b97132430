"""Parts of models in Hugging Face folders other than plain decoders, such as the encoder of an encoder-decoder."""
