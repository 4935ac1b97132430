"""Tools for reading and rewriting IR: functions, names, locations, patterns, the bindings of MLIR."""
