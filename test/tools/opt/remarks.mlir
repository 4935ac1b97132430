// RUN: stepwell-opt %s --stepwell-canonicalize --remarks-filter=canonicalize -o /dev/null 2>&1 | FileCheck %s --check-prefixes=PASSED,MISSED
// RUN: stepwell-opt %s --stepwell-canonicalize --remarks-filter-missed=.* -o /dev/null 2>&1 | FileCheck %s --check-prefix=MISSED --implicit-check-not=Passed
// RUN: stepwell-opt %s --stepwell-canonicalize --remarks-filter=cse -o /dev/null 2>&1 | count 0
// RUN: stepwell-opt %s --compile-to=graph --remarks-filter=canonicalize --remark-format=yaml --remarks-output-file=%t.yaml -o /dev/null
// RUN: FileCheck %s --check-prefix=YAML < %t.yaml
// RUN: not stepwell-opt %s --stepwell-canonicalize --remarks-filter=( -o /dev/null 2>&1 | FileCheck %s --check-prefix=REGEX
// RUN: not stepwell-opt %s --remark-policy=final 2>&1 | FileCheck %s --check-prefix=POLICY

// PASSED: loc("twice"): remark: [Passed] TransposeOfTranspose | Category:stepwell-canonicalize | Remark="rewritten into once", how=rewritten, into=once
// MISSED: loc("share"): remark: [Missed] DivToMul | Category:stepwell-canonicalize | Remark="the reciprocal of the divisor is not exact"
// YAML: --- !Missed
// YAML-NEXT: Pass:            "stepwell-canonicalize"
// YAML-NEXT: Name:            "DivToMul"
// YAML-NEXT: Function:        "share"
// YAML-NEXT: Args:
// YAML-NEXT: - String:          "the reciprocal of the divisor is not exact"
// YAML-NEXT: ...
// REGEX: --remarks-filter and --remarks-filter-passed take regular expressions
// POLICY: the --remark-policy option needs parts of MLIR that its Python bindings lack

func.func @main(%x: tensor<4x6xf32> {stepwell.name = "x"}) -> (tensor<4x6xf32> {stepwell.name = "y"}) {
  %0 = "stepwell.transpose"(%x) {permutation = array<i64: 1, 0>} : (tensor<4x6xf32>) -> tensor<6x4xf32> loc("once")
  %1 = "stepwell.transpose"(%0) {permutation = array<i64: 1, 0>} : (tensor<6x4xf32>) -> tensor<4x6xf32> loc("twice")
  %2 = "stepwell.constant"() {value = dense<3.0> : tensor<f32>} : () -> tensor<f32>
  %3 = "stepwell.div"(%1, %2) : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32> loc("share")
  return %3 : tensor<4x6xf32>
}
