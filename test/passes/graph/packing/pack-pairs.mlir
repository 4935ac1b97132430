// RUN: stepwell-opt %s --stepwell-pack-weights="machine=sapphirerapids+brain_rate=2 widen-rows=true" | FileCheck %s
// RUN: stepwell-opt %s --stepwell-pack-weights="machine=x86-64-v4 widen-rows=true" | FileCheck %s --check-prefix=SINGLE
// RUN: stepwell-opt %s --stepwell-pack-weights="machine=x86-64-v4" | FileCheck %s --check-prefix=SHORT

// Machines that multiply pairs of bfloat16 get weights with each pair adjacent; an odd depth is padded. Others multiply
// float32, to which the rows are converted once.
// CHECK-LABEL: func.func @main
// CHECK:         "stepwell.pad"(%{{.+}}) {high = array<i64: 0, 0, 1>
// CHECK:         "stepwell.packed_matmul"{{.*}} {columns = 48 : i64, grain = 2 : i64, panel = 48 : i64} : (tensor<8x16xbf16>, tensor<768xbf16>)
// SHORT-NOT:      "stepwell.cast"
// SINGLE-LABEL: func.func @main
// SINGLE-NOT:     "stepwell.pad"
// SINGLE:         %[[WIDE:.*]] = "stepwell.cast"(%arg0) {{.*}} -> tensor<8x15xf32>
// SINGLE:         "stepwell.packed_matmul"(%[[WIDE]]{{.*}} {columns = 48 : i64, panel = 48 : i64} : (tensor<8x15xf32>, tensor<720xbf16>) -> tensor<8x48xbf16>
func.func @main(%x: tensor<8x15xbf16>) -> tensor<8x48xbf16> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 15, 48>, dtype = bf16} : () -> tensor<15x48xbf16>
  %0 = "stepwell.matmul"(%x, %w) : (tensor<8x15xbf16>, tensor<15x48xbf16>) -> tensor<8x48xbf16>
  return %0 : tensor<8x48xbf16>
}

// CHECK-LABEL: func.func @negative_halves
// CHECK:         %[[WIDE:.*]] = "stepwell.cast"(%arg0) {{.*}} -> tensor<8x16xf32>
// CHECK:         "stepwell.packed_matmul"(%[[WIDE]]{{.*}} {columns = 48 : i64, panel = 48 : i64} : (tensor<8x16xf32>, tensor<768xf16>) -> tensor<8x48xf16>
func.func @negative_halves(%x: tensor<8x16xf16>) -> tensor<8x48xf16> {
  %w = "stepwell.parameter"() {name = "v", shape = array<i64: 16, 48>, dtype = f16} : () -> tensor<16x48xf16>
  %0 = "stepwell.matmul"(%x, %w) : (tensor<8x16xf16>, tensor<16x48xf16>) -> tensor<8x48xf16>
  return %0 : tensor<8x48xf16>
}

// A few rows are converted where they are multiplied.
// CHECK-LABEL: func.func @negative_few_rows
// CHECK-NOT:     "stepwell.cast"
// CHECK:         "stepwell.packed_matmul"{{.*}} : (tensor<2x16xf16>, tensor<768xf16>)
func.func @negative_few_rows(%x: tensor<2x16xf16>) -> tensor<2x48xf16> {
  %w = "stepwell.parameter"() {name = "u", shape = array<i64: 16, 48>, dtype = f16} : () -> tensor<16x48xf16>
  %0 = "stepwell.matmul"(%x, %w) : (tensor<2x16xf16>, tensor<16x48xf16>) -> tensor<2x48xf16>
  return %0 : tensor<2x48xf16>
}
