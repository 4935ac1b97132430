// -----
func.func @one() { return }
  // -----   with text
func.func @two() { return }
// ------
func.func @three() { return }
// ----
func.func @four() { return }
// -----
