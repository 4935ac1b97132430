// RUN: stepwell-opt %s --stepwell-page-state="page-size=4 pages=8 pages-of-text=3" | FileCheck %s
// RUN: stepwell-opt %s --stepwell-page-state="page-size=4 pages=8 pages-of-text=3 starts=none" | FileCheck %s --check-prefix=ZERO
// RUN: stepwell-opt %s --stepwell-page-state="page-size=4 pages=8 pages-of-text=3 cache=int8" | FileCheck %s --check-prefix=BYTES
// RUN: stepwell-opt %s --stepwell-page-state="page-size=4 pages=8 pages-of-text=3 cache=int4" | FileCheck %s --check-prefix=HALVES

// Keys and values become pools of 32 rows; their new rows are stored in slots that the table of pages gives.
// CHECK:      func.func @main(%[[Q:[a-z0-9]+]]: tensor<?x4x1x8xf32, ["batch", 4, 1, 8]>
// CHECK-SAME: %[[KEY:[a-z0-9]+]]: tensor<2x32x8xf32> {stepwell.dims = [2, 32, 8], stepwell.name = "past.key"}
// CHECK-SAME: %[[VALUE:[a-z0-9]+]]: tensor<2x32x8xf32> {stepwell.dims = [2, 32, 8], stepwell.name = "past.value"}
// CHECK-SAME: %[[STARTS:[a-z0-9]+]]: tensor<?xi64, ["batch"]>
// CHECK-SAME: %[[PAGES:[a-z0-9]+]]: tensor<?x3xi64, ["batch", 3]> {stepwell.dims = ["batch", 3], stepwell.name = "page_table"}
// CHECK-SAME: tensor<?x0xi8, ["past", 0]> {stepwell.dims = ["past", 0], stepwell.name = "past"}
// CHECK-SAME: -> (tensor<?x4x1x8xf32, ["batch", 4, 1, 8]> {{{.*}}}, tensor<2x32x8xf32> {stepwell.dims = [2, 32, 8]
// CHECK:      %[[PAST:.+]] = "stepwell.sizes"() {{{.*}}values = ["past"]
// CHECK:      %[[FLAT:.+]] = "stepwell.reshape"(%[[PAGES]]
// CHECK:      %[[PAGE:.+]] = "stepwell.gather"(%[[FLAT]], %{{.+}}) {axis = 0 : i64}
// CHECK:      %[[FIRST:.+]] = "stepwell.mul"(%[[PAGE]]
// CHECK:      %[[SLOTS:.+]] = "stepwell.add"(%[[FIRST]]
// CHECK:      %[[KEYS:.+]] = "stepwell.store_rows"(%[[KEY]], %{{.+}}, %[[SLOTS]])
// CHECK:      %[[VALUES:.+]] = "stepwell.store_rows"(%[[VALUE]], %{{.+}}, %[[SLOTS]])
// CHECK:      %[[MADE:.+]] = "stepwell.paged_attention"(%[[Q]], %[[KEYS]], %[[VALUES]], %[[PAGES]], %[[STARTS]], %{{.+}}) {{{.*}}page_size = 4 : i64, scale = 5.000000e-01 : f64
// CHECK:      return %[[MADE]], %[[KEYS]], %[[VALUES]]

// Without an input that has the starts, texts begin at 0.
// ZERO: %[[STARTS:.+]] = "stepwell.mul"({{.*}}) : ({{.*}}) -> tensor<?xi64, ["batch"]>
// ZERO: "stepwell.paged_attention"({{.*}}, %[[STARTS]], %{{.+}})

// Rows of bytes have scales in pools of their own, which are inputs and outputs too.
// BYTES:      func.func @main(
// BYTES-SAME: %[[KEY:[a-z0-9]+]]: tensor<2x32x8xi8> {stepwell.dims = [2, 32, 8], stepwell.name = "past.key"}
// BYTES-SAME: %[[BY:[a-z0-9]+]]: tensor<2x32x1xf32> {stepwell.dims = [2, 32, 1], stepwell.name = "past.key.scale"}
// BYTES-SAME: %{{[a-z0-9]+}}: tensor<2x32x1xf32> {stepwell.dims = [2, 32, 1], stepwell.name = "past.value.scale"}
// BYTES-SAME: -> (tensor<?x4x1x8xf32, ["batch", 4, 1, 8]> {{{.*}}}, tensor<2x32x8xi8> {{{.*}}}, tensor<2x32x8xi8> {{{.*}}}, tensor<2x32x1xf32> {{{.*}}}, tensor<2x32x1xf32>
// BYTES:      %[[GREATEST:.+]] = "stepwell.reduce_max"(%{{.+}}) {axes = array<i64: -1>
// BYTES:      %[[PART:.+]] = "stepwell.mul"(%[[GREATEST]]
// BYTES:      %[[SCALES:.+]] = "stepwell.maximum"(%[[PART]]
// BYTES:      %[[QUOTIENT:.+]] = "stepwell.div"(%{{.+}}, %[[SCALES]])
// BYTES:      %[[ROUND:.+]] = "stepwell.round"(%[[QUOTIENT]])
// BYTES:      %[[ROWS:.+]] = "stepwell.cast"(%[[ROUND]]) {dtype = i8}
// BYTES:      %[[KEYS:.+]] = "stepwell.store_rows"(%[[KEY]], %[[ROWS]], %[[SLOTS:[^,)]+]])
// BYTES:      %[[STORED:.+]] = "stepwell.store_rows"(%[[BY]], %[[SCALES]], %[[SLOTS]])
// BYTES:      "stepwell.paged_attention"(%{{.+}}, %[[KEYS]], %[[VALUES:[^,]+]], %{{.+}}, %{{.+}}, %{{.+}}, %[[STORED]], %[[OTHER:[^,)]+]])
// BYTES:      return %{{.+}}, %[[KEYS]], %[[VALUES]], %[[STORED]], %[[OTHER]]

// Rows of four bits are rotated, as queries are; the result is rotated back. Two elements are in a byte.
// HALVES:      func.func @main(%[[Q:[a-z0-9]+]]: {{.*}} %[[KEY:[a-z0-9]+]]: tensor<2x32x4xui8> {stepwell.dims = [2, 32, 4], stepwell.name = "past.key"}
// HALVES-SAME: tensor<2x32x1xf32> {stepwell.dims = [2, 32, 1], stepwell.name = "past.key.scale"}
// HALVES:      %[[ROWS:.+]] = "stepwell.matmul"(%{{.+}}, %{{.+}}) {{.*}} -> tensor<?x2x1x8xf32
// HALVES:      "stepwell.abs"(%[[ROWS]])
// HALVES:      %[[QUOTIENT:.+]] = "stepwell.div"(%[[ROWS]], %{{.+}})
// HALVES:      %[[MIDDLE:.+]] = "stepwell.add"(%[[QUOTIENT]]
// HALVES:      %[[NUMBERS:.+]] = "stepwell.floor"(%[[MIDDLE]])
// HALVES-DAG:  %[[LOW:.+]] = "stepwell.slice"(%[[NUMBERS]]) {{.*}}stops = ["batch", 2, 1, 4]
// HALVES-DAG:  %[[HIGH:.+]] = "stepwell.slice"(%[[NUMBERS]]) {{.*}}stops = ["batch", 2, 1, 8]
// HALVES:      %[[PAIRS:.+]] = "stepwell.cast"(%{{.+}}) {dtype = ui8}
// HALVES:      %[[KEYS:.+]] = "stepwell.store_rows"(%[[KEY]], %[[PAIRS]], %{{.+}})
// HALVES:      %[[QUERY:.+]] = "stepwell.matmul"(%[[Q]], %{{.+}})
// HALVES:      %[[MADE:.+]] = "stepwell.paged_attention"(%[[QUERY]], %[[KEYS]],
// HALVES:      %[[BACK:.+]] = "stepwell.matmul"(%[[MADE]], %{{.+}})
// HALVES:      return %[[BACK]], %[[KEYS]]
module attributes {stepwell.ranges = {batch = [2, 4, 1], past = [0, 7, 1]}} {
  func.func @main(
      %q: tensor<?x4x1x8xf32, ["batch", 4, 1, 8]> {stepwell.name = "q"},
      %k: tensor<?x2x1x8xf32, ["batch", 2, 1, 8]> {stepwell.name = "k"},
      %v: tensor<?x2x1x8xf32, ["batch", 2, 1, 8]> {stepwell.name = "v"},
      %key: tensor<?x2x?x8xf32, ["batch", 2, "past", 8]> {stepwell.name = "past.key"},
      %value: tensor<?x2x?x8xf32, ["batch", 2, "past", 8]> {stepwell.name = "past.value"},
      %mask: tensor<?x1x1x?xi1, ["batch", 1, 1, "past + 1"]> {stepwell.name = "mask"},
      %starts: tensor<?xi64, ["batch"]> {stepwell.name = "starts"})
      -> (tensor<?x4x1x8xf32, ["batch", 4, 1, 8]>, tensor<?x2x?x8xf32, ["batch", 2, "past + 1", 8]>, tensor<?x2x?x8xf32, ["batch", 2, "past + 1", 8]>) {
    %0 = "stepwell.concat"(%key, %k) {axis = 2 : i64} : (tensor<?x2x?x8xf32, ["batch", 2, "past", 8]>, tensor<?x2x1x8xf32, ["batch", 2, 1, 8]>) -> tensor<?x2x?x8xf32, ["batch", 2, "past + 1", 8]>
    %1 = "stepwell.concat"(%value, %v) {axis = 2 : i64} : (tensor<?x2x?x8xf32, ["batch", 2, "past", 8]>, tensor<?x2x1x8xf32, ["batch", 2, 1, 8]>) -> tensor<?x2x?x8xf32, ["batch", 2, "past + 1", 8]>
    %2 = "stepwell.attention"(%q, %0, %1, %mask) {scale = 0.5 : f64, zero_empty = true} : (tensor<?x4x1x8xf32, ["batch", 4, 1, 8]>, tensor<?x2x?x8xf32, ["batch", 2, "past + 1", 8]>, tensor<?x2x?x8xf32, ["batch", 2, "past + 1", 8]>, tensor<?x1x1x?xi1, ["batch", 1, 1, "past + 1"]>) -> tensor<?x4x1x8xf32, ["batch", 4, 1, 8]>
    return %2, %0, %1 : tensor<?x4x1x8xf32, ["batch", 4, 1, 8]>, tensor<?x2x?x8xf32, ["batch", 2, "past + 1", 8]>, tensor<?x2x?x8xf32, ["batch", 2, "past + 1", 8]>
  }
}
