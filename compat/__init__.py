"""Other systems' interfaces on top of Stepwell."""
