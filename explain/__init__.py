"""What the compiler can be asked of itself: why it failed, where values go wrong, why it is not faster, what it did."""
