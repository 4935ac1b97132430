// RUN: stepwell-opt %s --stepwell-pack-weights="machine=sapphirerapids+brain_rate=2" | FileCheck %s
// RUN: stepwell-opt %s --stepwell-pack-weights="machine=x86-64-v4" | FileCheck %s --check-prefix=SINGLE

// Machines that multiply pairs of bfloat16 get weights with each pair adjacent; an odd depth is padded.
// CHECK-LABEL: func.func @main
// CHECK:         "stepwell.pad"(%{{.+}}) {high = array<i64: 0, 0, 1>
// CHECK:         "stepwell.packed_matmul"{{.*}} {columns = 48 : i64, grain = 2 : i64, panel = 48 : i64} : (tensor<8x16xbf16>, tensor<768xbf16>)
// SINGLE-LABEL: func.func @main
// SINGLE-NOT:     "stepwell.pad"
// SINGLE:         "stepwell.packed_matmul"{{.*}} {columns = 48 : i64, panel = 48 : i64} : (tensor<8x15xbf16>, tensor<720xbf16>)
func.func @main(%x: tensor<8x15xbf16>) -> tensor<8x48xbf16> {
  %w = "stepwell.parameter"() {name = "w", shape = array<i64: 15, 48>, dtype = bf16} : () -> tensor<15x48xbf16>
  %0 = "stepwell.matmul"(%x, %w) : (tensor<8x15xbf16>, tensor<15x48xbf16>) -> tensor<8x48xbf16>
  return %0 : tensor<8x48xbf16>
}

// CHECK-LABEL: func.func @negative_halves
// CHECK:         "stepwell.packed_matmul"{{.*}} {columns = 48 : i64, panel = 48 : i64} : (tensor<8x16xf16>
func.func @negative_halves(%x: tensor<8x16xf16>) -> tensor<8x48xf16> {
  %w = "stepwell.parameter"() {name = "v", shape = array<i64: 16, 48>, dtype = f16} : () -> tensor<16x48xf16>
  %0 = "stepwell.matmul"(%x, %w) : (tensor<8x16xf16>, tensor<16x48xf16>) -> tensor<8x48xf16>
  return %0 : tensor<8x48xf16>
}
