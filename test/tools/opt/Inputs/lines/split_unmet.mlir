// expected-error-re@+1 {{a{{(}}b}}
func.func @one() { return }
// ---
// expected-error@+1 {{never}}
func.func @two() { return }
// -----
// expected-error@+1 {{custom op}}
func.func @three() { oops }
// -----
func.func @four() { oops }
// expected-error@below {{custom op}}
// -----
func.func @five() { oops }
