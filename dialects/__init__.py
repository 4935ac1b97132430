"""What the IR can say: the declarative op layer, the stepwell dialect and its reference semantics."""
