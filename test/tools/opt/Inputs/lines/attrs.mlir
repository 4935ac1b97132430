#alias = dense<1> : tensor<2xi32>
!type = tuple<i32, f32>
module attributes {a.x = 1 : i32, a.list = [1, "two", @three, #alias], a.type = !type, a.unit} {
  func.func private @f(!type) attributes {b.dict = {x = 1.0 : f64, y = #alias}}
}
