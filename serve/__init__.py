"""An HTTP server for language models, with the interface of OpenAI's API: `stepwell-serve`."""
