spirv.module Logical GLSL450 {
  spirv.func @f(%a: f32) -> f32 "None" {
    %0 = spirv.FAdd %a, %a : f32
    spirv.ReturnValue %0 : f32
  }
}
