// RUN: split-file %s %t
// RUN: %PYTHON %S/Inputs/apply_tuning.py %t/kernels.mlir %t/tuned.json | FileCheck %s
// RUN: %PYTHON %S/Inputs/apply_tuning.py %t/kernels.mlir %t/older.json | FileCheck %s --check-prefix=DEFAULT
// RUN: stepwell-opt %t/kernels.mlir --stepwell-apply-tuning | FileCheck %s --check-prefix=DEFAULT

// Another version of the compiler may give these parameters another meaning, so its table is not used. Without one,
// all kernels wait for their default schedules.
// DEFAULT-LABEL: func.func private @tuned(
// DEFAULT-NOT: "tuned"

//--- tuned.json
{"schema": 1, "compiler": "this", "machine": "zen3", "kernels": [
  {"kernel": "tuned", "schedule": {"tiles": [[6], [2, 8]], "order": "rows", "unroll": 4}, "gain": 1.5, "low": 1.4, "high": 1.6, "threads": 1},
  {"kernel": "negative_scheduled", "schedule": {"unroll": 4}, "gain": 1.5, "low": 1.4, "high": 1.6, "threads": 1},
  {"kernel": "negative_helper", "schedule": {"unroll": 4}, "gain": 1.5, "low": 1.4, "high": 1.6, "threads": 1},
  {"kernel": "elsewhere", "schedule": {"unroll": 8}, "gain": 1.5, "low": 1.4, "high": 1.6, "threads": 1}]}

//--- older.json
{"schema": 1, "compiler": "0.0.1", "machine": "zen3", "kernels": [
  {"kernel": "tuned", "schedule": {"unroll": 4}, "gain": 1.5, "low": 1.4, "high": 1.6, "threads": 1}]}

//--- kernels.mlir
// CHECK-LABEL: func.func private @tuned(
// CHECK-SAME: stepwell.schedule = {name = "tuned", order = "rows", tiles = [array<i64: 6>, array<i64: 2, 8>], unroll = 4 : i64}
func.func private @tuned(%x: tensor<4xf32>) -> tensor<4xf32> attributes {stepwell.kernel = {class = "elementwise"}} {
  return %x : tensor<4xf32>
} loc("Relu_7")

// A schedule that the module itself gives was chosen for this compile.
// CHECK-LABEL: func.func private @negative_scheduled(
// CHECK-SAME: stepwell.schedule = {name = "rows", unroll = 2 : i64}
func.func private @negative_scheduled(%x: tensor<4xf32>) -> tensor<4xf32> attributes {stepwell.kernel = {class = "elementwise"}, stepwell.schedule = {name = "rows", unroll = 2 : i64}} {
  return %x : tensor<4xf32>
}

// CHECK-LABEL: func.func private @negative_not_in_the_table(
// CHECK-NOT: stepwell.schedule
func.func private @negative_not_in_the_table(%x: tensor<4xf32>) -> tensor<4xf32> attributes {stepwell.kernel = {class = "elementwise"}} {
  return %x : tensor<4xf32>
}

// Only kernels have schedules.
// CHECK-LABEL: func.func private @negative_helper(
// CHECK-NOT: stepwell.schedule
// CHECK: return
func.func private @negative_helper(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// The remark says how much faster the kernel was.
// CHECK: Relu_7
// CHECK-SAME: the schedule is a tuned one
// CHECK-SAME: 1.5
// CHECK-NOT: the schedule is a tuned one
