"""Import of Hugging Face folders: decoders as `config.json` and safetensors."""
