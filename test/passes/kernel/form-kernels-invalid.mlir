// RUN: stepwell-opt %s --split-input-file --verify-diagnostics --stepwell-form-kernels

func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  // expected-error@+1 {{has a dynamic shape}}
  %0 = "stepwell.relu"(%x) : (tensor<?xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// -----

// expected-error@below {{there is no function @main}}
module {
  func.func @other() {
    return
  }
}
