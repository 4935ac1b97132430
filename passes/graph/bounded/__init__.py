"""One program for a range of sizes: tensors as large as their upper bounds, of which a prefix holds the data."""
