llvm.func @printf(!llvm.ptr, ...) -> i32
llvm.func @f(%p: !llvm.ptr, %x: i64) -> i64 {
  %one = llvm.mlir.constant(1 : i64) : i64
  %0 = llvm.add %x, %one : i64
  %1 = llvm.add %x, %one : i64
  %2 = llvm.mul %0, %1 : i64
  llvm.store %2, %p : i64, !llvm.ptr
  llvm.return %2 : i64
}
