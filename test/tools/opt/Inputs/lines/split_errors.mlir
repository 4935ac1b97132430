func.func @one() { return }

// -----

func.func @two(%a: f32) {
  %0 = "arith.addi"(%a, %a) : (f32, f32) -> f32
  return
}

// -----

func.func @three() {
  oops
}

// -----

func.func @four() { return }
