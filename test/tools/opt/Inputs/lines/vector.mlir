func.func @f(%a: vector<4x4xf32>, %b: vector<4xf32>) -> vector<4xf32> {
  %0 = vector.contract {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"], kind = #vector.kind<add>} %a, %b, %b : vector<4x4xf32>, vector<4xf32> into vector<4xf32>
  return %0 : vector<4xf32>
}
