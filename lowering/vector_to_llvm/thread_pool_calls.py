"""Begin and end of a model's call in its thread pool, as text like that of `thread_pool_code.py`."""

CODE = """
// Begins a call: sleeping workers should be awake when there is work. Waking them for a short call pays off only if
// more calls will find them awake, which is likely if the last call has just ended.
llvm.func internal @stepwell_begin(%pool: !llvm.ptr, %length: i64) {{
  %c0 = llvm.mlir.constant(0 : i64) : i64
  %long = llvm.mlir.constant({long} : i64) : i64
  %recent = llvm.mlir.constant({recent} : i64) : i64
  %none = llvm.mlir.constant(0 : i32) : i32
  %null = llvm.mlir.zero : !llvm.ptr
  %is_alone = llvm.icmp "eq" %pool, %null : !llvm.ptr
  llvm.cond_br %is_alone, ^return, ^begin
^begin:
  %active_at = {active}
  %ended_at = {ended}
  %sleepers_at = {sleepers}
  llvm.store %length, %active_at atomic monotonic {{alignment = 8 : i64}} : i64, !llvm.ptr
  %sleepers = llvm.load %sleepers_at atomic monotonic {{alignment = 4 : i64}} : !llvm.ptr -> i32
  %is_any = llvm.icmp "ne" %sleepers, %none : i32
  llvm.cond_br %is_any, ^check_length, ^return
^check_length:
  %is_long = llvm.icmp "eq" %length, %long : i64
  llvm.cond_br %is_long, ^wake, ^check_recent
^check_recent:
  %now = llvm.call @stepwell.now() : () -> i64
  %ended = llvm.load %ended_at : !llvm.ptr -> i64
  %since = llvm.sub %now, %ended : i64
  %is_recent = llvm.icmp "ult" %since, %recent : i64
  llvm.cond_br %is_recent, ^wake, ^return
^wake:
  %0 = llvm.call @stepwell.announce(%pool, %null, %null, %c0, %c0)
    : (!llvm.ptr, !llvm.ptr, !llvm.ptr, i64, i64) -> i64
  llvm.call @stepwell.wake_sleepers(%pool) : (!llvm.ptr) -> ()
  llvm.br ^return
^return:
  llvm.return
}}

// Ends a call.
llvm.func internal @stepwell_end(%pool: !llvm.ptr) {{
  %c0 = llvm.mlir.constant(0 : i64) : i64
  %null = llvm.mlir.zero : !llvm.ptr
  %is_alone = llvm.icmp "eq" %pool, %null : !llvm.ptr
  llvm.cond_br %is_alone, ^return, ^end
^end:
  %active_at = {active}
  %ended_at = {ended}
  %now = llvm.call @stepwell.now() : () -> i64
  llvm.store %now, %ended_at : i64, !llvm.ptr
  llvm.store %c0, %active_at atomic monotonic {{alignment = 8 : i64}} : i64, !llvm.ptr
  llvm.br ^return
^return:
  llvm.return
}}
"""
