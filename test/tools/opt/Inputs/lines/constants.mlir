#map = affine_map<(d0) -> (d0 * 2 + 1)>
func.func @c() -> (tensor<4xi32>, tensor<2x8xf32>, tensor<3xi1>, tensor<2xf16>) {
  %0 = arith.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
  %1 = arith.constant dense<"0x0000803F000000400000404000008040000080400000803F000000400000404000008040000080400000803F000000400000404000008040000080400000A040"> : tensor<2x8xf32>
  %2 = arith.constant dense<[true, false, true]> : tensor<3xi1>
  %3 = arith.constant dense<1.5> : tensor<2xf16>
  "test.map"() {map = #map, other = #map} : () -> ()
  return %0, %1, %2, %3 : tensor<4xi32>, tensor<2x8xf32>, tensor<3xi1>, tensor<2xf16>
}
