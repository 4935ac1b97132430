func.func @one() { return }
//#
func.func @two() { return }
#here
func.func @three() { return }
