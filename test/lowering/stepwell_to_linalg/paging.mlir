// RUN: stepwell-opt %s --split-input-file --stepwell-convert-to-linalg | FileCheck %s

// The pool is copied unless the table says that the result is in its memory; then each row with data goes to its slot,
// which is clipped.
// CHECK-LABEL: func.func private @store(
// CHECK-SAME:    %[[POOL:[a-z0-9]+]]: tensor<2x16x8xf32>, %[[ROWS:[a-z0-9]+]]: tensor<3x2x1x8xf32>, %[[SLOTS:[a-z0-9]+]]: tensor<3x1xi64>, %[[TABLE:[a-z0-9]+]]: tensor<256xi64>
// CHECK-DAG:     %[[LAST:.+]] = arith.constant 15 : index
// CHECK-DAG:     %[[ALL:.+]] = arith.constant 128 : index
// CHECK:         %[[COPIED:.+]] = arith.select %{{.+}}, %[[ALL]], %{{.+}} : index
// CHECK:         scf.forall
// CHECK:           scf.for
// CHECK:           %[[SLOT:.+]] = tensor.extract %[[SLOTS]]
// CHECK:           %[[INDEX:.+]] = arith.index_cast %[[SLOT]]
// CHECK:           arith.minsi %{{.+}}, %[[LAST]]
// CHECK:           %[[ROW:.+]] = vector.transfer_read %{{.+}} : tensor<48xf32>, vector<8xf32>
// CHECK:           vector.transfer_write %[[ROW]]
module attributes {stepwell.table = ["\"batch\"", "\"%copied.0\""], stepwell.ranges = {batch = [1, 3, 1]}} {
  func.func private @store(%pool: tensor<2x16x8xf32>, %rows: tensor<3x2x1x8xf32>, %slots: tensor<3x1xi64>, %table: tensor<256xi64>) -> tensor<2x16x8xf32> attributes {stepwell.kernel = {bytes = 8 : i64, class = "movement", flops = 0 : i64}, stepwell.extents = array<i64: -1, -1, -1>, stepwell.table_argument = 3 : i64} {
    %0 = "stepwell.store_rows"(%pool, %rows, %slots, %table) {ends = array<i64: 0, -1>, layout = array<i64: 1>} : (tensor<2x16x8xf32>, tensor<3x2x1x8xf32>, tensor<3x1xi64>, tensor<256xi64>) -> tensor<2x16x8xf32>
    return %0 : tensor<2x16x8xf32>
  }
}

// -----

// Keys are read page by page, from the start of each text on; rows of a later page are prefetched.
// CHECK-LABEL: func.func private @attend(
// CHECK-SAME:    %{{[a-z0-9]+}}: tensor<2x4x1x8xf32>, %{{[a-z0-9]+}}: tensor<2x16x8xf32>, %{{[a-z0-9]+}}: tensor<2x16x8xf32>, %[[PAGES:[a-z0-9]+]]: tensor<2x3xi64>, %[[STARTS:[a-z0-9]+]]: tensor<2xi64>
// CHECK:         scf.forall
// CHECK:           tensor.extract %[[STARTS]]
// CHECK:           scf.for
// CHECK:             tensor.extract %[[PAGES]]
// CHECK:             scf.for
// CHECK:               memref.prefetch
// CHECK:               vector.transfer_read %{{.+}} : tensor<2x16x8xf32>, vector<8xf32>
func.func private @attend(%q: tensor<2x4x1x8xf32>, %k: tensor<2x16x8xf32>, %v: tensor<2x16x8xf32>, %pages: tensor<2x3xi64>, %starts: tensor<2xi64>, %mask: tensor<2x1x1x10xi1>) -> tensor<2x4x1x8xf32> attributes {stepwell.kernel = {bytes = 8 : i64, class = "attention", flops = 0 : i64}} {
  %0 = "stepwell.paged_attention"(%q, %k, %v, %pages, %starts, %mask) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 0>, page_size = 4 : i64, scale = 1.0 : f64} : (tensor<2x4x1x8xf32>, tensor<2x16x8xf32>, tensor<2x16x8xf32>, tensor<2x3xi64>, tensor<2xi64>, tensor<2x1x1x10xi1>) -> tensor<2x4x1x8xf32>
  return %0 : tensor<2x4x1x8xf32>
}

// -----

// Starts that are all the same may be a constant of the kernel.
// CHECK-LABEL: func.func private @attend_from_zero(
// CHECK-NOT:     stepwell.constant
// CHECK:         memref.prefetch
func.func private @attend_from_zero(%q: tensor<2x4x1x8xf32>, %k: tensor<2x16x8xf32>, %v: tensor<2x16x8xf32>, %pages: tensor<2x3xi64>, %mask: tensor<2x1x1x10xi1>) -> tensor<2x4x1x8xf32> attributes {stepwell.kernel = {bytes = 8 : i64, class = "attention", flops = 0 : i64}} {
  %starts = "stepwell.constant"() {value = dense<0> : tensor<2xi64>} : () -> tensor<2xi64>
  %0 = "stepwell.paged_attention"(%q, %k, %v, %pages, %starts, %mask) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 0>, page_size = 4 : i64, scale = 1.0 : f64} : (tensor<2x4x1x8xf32>, tensor<2x16x8xf32>, tensor<2x16x8xf32>, tensor<2x3xi64>, tensor<2xi64>, tensor<2x1x1x10xi1>) -> tensor<2x4x1x8xf32>
  return %0 : tensor<2x4x1x8xf32>
}

// -----

// Rows of bytes become floats in registers; the score of a key is multiplied by its scale, and so is a value's weight.
// CHECK-LABEL: func.func private @attend_bytes(
// CHECK-SAME:    %{{[a-z0-9]+}}: tensor<2x4x1x8xf32>, %[[K:[a-z0-9]+]]: tensor<2x16x8xi8>, %[[V:[a-z0-9]+]]: tensor<2x16x8xi8>
// CHECK-SAME:    %[[KS:[a-z0-9]+]]: tensor<2x16x1xf32>, %[[VS:[a-z0-9]+]]: tensor<2x16x1xf32>
// CHECK:         %[[KEY:.+]] = vector.transfer_read %[[K]]{{.*}} : tensor<2x16x8xi8>, vector<8xi8>
// CHECK:         arith.sitofp %[[KEY]] : vector<8xi8> to vector<8xf32>
// CHECK:         %[[BY:.+]] = tensor.extract %[[KS]]
// CHECK:         %[[SUM:.+]] = vector.reduction <add>
// CHECK:         %[[SCORE:.+]] = arith.mulf %[[SUM]], %[[BY]] : f32
// CHECK:         tensor.insert %[[SCORE]]
// CHECK:         %[[VALUE:.+]] = vector.transfer_read %[[V]]{{.*}} : tensor<2x16x8xi8>, vector<8xi8>
// CHECK:         arith.sitofp %[[VALUE]] : vector<8xi8> to vector<8xf32>
// CHECK:         %[[OTHER:.+]] = tensor.extract %[[VS]]
// CHECK:         arith.mulf %{{.+}}, %[[OTHER]] : f32
func.func private @attend_bytes(%q: tensor<2x4x1x8xf32>, %k: tensor<2x16x8xi8>, %v: tensor<2x16x8xi8>, %pages: tensor<2x3xi64>, %starts: tensor<2xi64>, %mask: tensor<2x1x1x10xi1>, %ks: tensor<2x16x1xf32>, %vs: tensor<2x16x1xf32>) -> tensor<2x4x1x8xf32> attributes {stepwell.kernel = {bytes = 8 : i64, class = "attention", flops = 0 : i64}} {
  %0 = "stepwell.paged_attention"(%q, %k, %v, %pages, %starts, %mask, %ks, %vs) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1>, page_size = 4 : i64, scale = 1.0 : f64} : (tensor<2x4x1x8xf32>, tensor<2x16x8xi8>, tensor<2x16x8xi8>, tensor<2x3xi64>, tensor<2xi64>, tensor<2x1x1x10xi1>, tensor<2x16x1xf32>, tensor<2x16x1xf32>) -> tensor<2x4x1x8xf32>
  return %0 : tensor<2x4x1x8xf32>
}

// -----

// With whole vectors of bytes, the scores of four heads that share a key and of four keys are summed up together.
// CHECK-LABEL: func.func private @attend_blocks(
// CHECK-SAME:    %[[K:[a-z0-9]+]]: tensor<2x16x32xi8>
// CHECK-SAME:    %[[KS:[a-z0-9]+]]: tensor<2x16x1xf32>
// CHECK-COUNT-8: vector.transfer_read %[[K]]{{.*}} : tensor<2x16x32xi8>, vector<16xi8>
// CHECK-NOT:     vector.reduction
// CHECK:         %[[SCALES:.+]] = vector.transfer_read %{{.+}} : tensor<2x16xf32>, vector<4xf32>
// CHECK:         %[[BY:.+]] = vector.shuffle %[[SCALES]], %[[SCALES]] [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3]
// CHECK:         %[[MADE:.+]] = arith.mulf %{{.+}}, %[[BY]] : vector<16xf32>
// CHECK-COUNT-4: vector.extract_strided_slice %[[MADE]]
func.func private @attend_blocks(%q: tensor<2x8x1x32xf32>, %k: tensor<2x16x32xi8>, %v: tensor<2x16x32xi8>, %pages: tensor<2x3xi64>, %starts: tensor<2xi64>, %mask: tensor<2x1x1x10xi1>, %ks: tensor<2x16x1xf32>, %vs: tensor<2x16x1xf32>) -> tensor<2x8x1x32xf32> attributes {stepwell.kernel = {bytes = 8 : i64, class = "attention", flops = 0 : i64}} {
  %0 = "stepwell.paged_attention"(%q, %k, %v, %pages, %starts, %mask, %ks, %vs) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1>, page_size = 4 : i64, scale = 1.0 : f64} : (tensor<2x8x1x32xf32>, tensor<2x16x32xi8>, tensor<2x16x32xi8>, tensor<2x3xi64>, tensor<2xi64>, tensor<2x1x1x10xi1>, tensor<2x16x1xf32>, tensor<2x16x1xf32>) -> tensor<2x8x1x32xf32>
  return %0 : tensor<2x8x1x32xf32>
}

// -----

// Queries that do not all fit into registers read each page in turn, and only the first of these loops prefetches.
// CHECK-LABEL: func.func private @attend_in_turn(
// CHECK:         scf.for
// CHECK:           tensor.extract
// CHECK:           scf.for
// CHECK:             memref.prefetch
// CHECK:             vector.reduction
// CHECK:           scf.yield
// CHECK:           scf.for
// CHECK-NOT:         memref.prefetch
// CHECK:             vector.reduction
// CHECK:           scf.yield
// CHECK:         scf.yield
func.func private @attend_in_turn(%q: tensor<2x4x1x256xf32>, %k: tensor<2x16x256xf32>, %v: tensor<2x16x256xf32>, %pages: tensor<2x3xi64>, %starts: tensor<2xi64>, %mask: tensor<2x1x1x10xi1>) -> tensor<2x4x1x256xf32> attributes {stepwell.kernel = {bytes = 8 : i64, class = "attention", flops = 0 : i64}} {
  %0 = "stepwell.paged_attention"(%q, %k, %v, %pages, %starts, %mask) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 0>, page_size = 4 : i64, scale = 1.0 : f64} : (tensor<2x4x1x256xf32>, tensor<2x16x256xf32>, tensor<2x16x256xf32>, tensor<2x3xi64>, tensor<2xi64>, tensor<2x1x1x10xi1>) -> tensor<2x4x1x256xf32>
  return %0 : tensor<2x4x1x256xf32>
}

// -----

// A vector of bytes holds the elements of both halves of a row.
// CHECK-LABEL: func.func private @attend_pairs(
// CHECK:         %[[FIRST:.+]] = arith.extui %{{.+}} : vector<8xi8> to vector<8xi32>
// CHECK:         %[[LOW:.+]] = arith.andi %[[FIRST]]
// CHECK:         %[[FLOATS:.+]] = arith.sitofp %[[LOW]]
// CHECK:         arith.subf %[[FLOATS]], %{{.+}} : vector<8xf32>
// CHECK:         %[[SECOND:.+]] = arith.extui %{{.+}} : vector<8xi8> to vector<8xi32>
// CHECK:         %[[HIGH:.+]] = arith.shrui %[[SECOND]]
// CHECK:         arith.sitofp %[[HIGH]]
func.func private @attend_pairs(%q: tensor<2x4x1x16xf32>, %k: tensor<2x16x8xui8>, %v: tensor<2x16x8xui8>, %pages: tensor<2x3xi64>, %starts: tensor<2xi64>, %mask: tensor<2x1x1x10xi1>, %ks: tensor<2x16x1xf32>, %vs: tensor<2x16x1xf32>) -> tensor<2x4x1x16xf32> attributes {stepwell.kernel = {bytes = 8 : i64, class = "attention", flops = 0 : i64}} {
  %0 = "stepwell.paged_attention"(%q, %k, %v, %pages, %starts, %mask, %ks, %vs) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1>, page_size = 4 : i64, scale = 1.0 : f64} : (tensor<2x4x1x16xf32>, tensor<2x16x8xui8>, tensor<2x16x8xui8>, tensor<2x3xi64>, tensor<2xi64>, tensor<2x1x1x10xi1>, tensor<2x16x1xf32>, tensor<2x16x1xf32>) -> tensor<2x4x1x16xf32>
  return %0 : tensor<2x4x1x16xf32>
}
