"""Which op, kernel and pass make a model's numbers wrong: level by level, from the model down to native code."""
