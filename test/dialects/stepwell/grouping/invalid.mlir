// RUN: stepwell-opt %s --verify-diagnostics

func.func @grouping(%x: tensor<7xf32>, %y: tensor<1x7x2xf32>, %o: tensor<6xi64>, %p: tensor<7xi64>) {
  // expected-error @+1 {{'stepwell.sort_rows' op operand 'input' must have rank 2, but is 7xf32}}
  %0 = "stepwell.sort_rows"(%x) : (tensor<7xf32>) -> tensor<7xi64>
  // expected-error @+1 {{'stepwell.number_groups' op operand 'input' must have rank 1 or 2, but is 1x7x2xf32}}
  %1 = "stepwell.number_groups"(%y, %p) {is_sorted = true} : (tensor<1x7x2xf32>, tensor<7xi64>) -> tensor<7xi64>
  // expected-error @+1 {{'stepwell.number_groups' op operand 'order' must have shape 7, but is 6xi64}}
  %2 = "stepwell.number_groups"(%x, %o) {is_sorted = true} : (tensor<7xf32>, tensor<6xi64>) -> tensor<7xi64>
  // expected-error @+1 {{'stepwell.summarize_groups' op operand 'groups' must have element type i64, but is 7xf32}}
  %3 = "stepwell.summarize_groups"(%x) {fact = "size"} : (tensor<7xf32>) -> tensor<7xi64>
  return
}
