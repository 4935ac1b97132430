oops
// -----
func.func @two() { return }
