"""A clock in native code, which thread pools read."""


def clock_text(monotonic: int) -> str:
    """Returns the function `stepwell.now`, in the LLVM dialect.

    Args:
        monotonic: ID of the monotonic clock on the target's system.
    """
    return f"""
llvm.func @clock_gettime(i32, !llvm.ptr) -> i32

// Nanoseconds since some moment.
llvm.func internal @stepwell.now() -> i64 {{
  %c1 = llvm.mlir.constant(1 : i64) : i64
  %monotonic = llvm.mlir.constant({monotonic} : i32) : i32
  %second = llvm.mlir.constant(1000000000 : i64) : i64
  %time = llvm.alloca %c1 x !llvm.array<2 x i64> : (i64) -> !llvm.ptr
  %0 = llvm.call @clock_gettime(%monotonic, %time) : (i32, !llvm.ptr) -> i32
  %seconds = llvm.load %time : !llvm.ptr -> i64
  %rest_at = llvm.getelementptr %time[8] : (!llvm.ptr) -> !llvm.ptr, i8
  %rest = llvm.load %rest_at : !llvm.ptr -> i64
  %whole = llvm.mul %seconds, %second : i64
  %sum = llvm.add %whole, %rest : i64
  llvm.return %sum : i64
}}
"""
