"""From one level to the next, and the named phases a module walks down."""
