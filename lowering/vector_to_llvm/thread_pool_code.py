"""Functions of `thread_pool.py` as text, with placeholders for the pool's fields, numbers and the pause instruction."""

CODE = """
llvm.func @sched_yield() -> i32
{rest}
// Does the remaining announced blocks, from the thread's own part on; returns how many it did.
llvm.func internal @stepwell.do_blocks(%pool: !llvm.ptr, %self: i64, %epoch: i64, %part: !llvm.ptr, %args: !llvm.ptr,
                                       %first: i64, %last: i64) -> i64 {{
  %c0 = llvm.mlir.constant(0 : i64) : i64
  %c1 = llvm.mlir.constant(1 : i64) : i64
  %c7 = llvm.mlir.constant(7 : i64) : i64
  %c20 = llvm.mlir.constant(20 : i64) : i64
  %mask = llvm.mlir.constant(1048575 : i64) : i64
  %threads_at = {threads}
  %threads = llvm.load %threads_at : !llvm.ptr -> i64
  %blocks = llvm.sub %last, %first : i64
  %parts = llvm.intr.umin(%threads, %blocks) : (i64, i64) -> i64
  %claims = {claims}
  %is_in = llvm.icmp "ult" %self, %parts : i64
  llvm.cond_br %is_in, ^part(%c0, %c0 : i64, i64), ^over(%c0 : i64)
^part(%offset: i64, %so_far: i64):
  %from_self = llvm.add %self, %offset : i64
  %around = llvm.sub %from_self, %parts : i64
  %is_past = llvm.icmp "uge" %from_self, %parts : i64
  %owner = llvm.select %is_past, %around, %from_self : i1, i64
  %next_owner = llvm.add %owner, %c1 : i64
  %before = llvm.mul %blocks, %owner : i64
  %up_to = llvm.mul %blocks, %next_owner : i64
  %low = llvm.udiv %before, %parts : i64
  %high = llvm.udiv %up_to, %parts : i64
  %start = llvm.add %first, %low : i64
  %end = llvm.add %first, %high : i64
  %distance = llvm.shl %owner, %c7 : i64
  %claim = llvm.getelementptr %claims[%distance] : (!llvm.ptr, i64) -> !llvm.ptr, i8
  llvm.br ^poll(%so_far : i64)
^poll(%sum: i64):
  %old = llvm.load %claim atomic acquire {{alignment = 8 : i64}} : !llvm.ptr -> i64
  %old_epoch = llvm.lshr %old, %c20 : i64
  %is_over = llvm.icmp "ugt" %old_epoch, %epoch : i64
  llvm.cond_br %is_over, ^over(%sum : i64), ^choose
^choose:
  %is_begun = llvm.icmp "eq" %old_epoch, %epoch : i64
  %unclaimed = llvm.and %old, %mask : i64
  %from = llvm.select %is_begun, %unclaimed, %start : i1, i64
  %is_left = llvm.icmp "ult" %from, %end : i64
  llvm.cond_br %is_left, ^claim, ^next
^claim:
  // Half of the remaining blocks: few claims at first, small ones in the end.
  %left = llvm.sub %end, %from : i64
  %more = llvm.add %left, %c1 : i64
  %half = llvm.lshr %more, %c1 : i64
  %to = llvm.add %from, %half : i64
  %high_bits = llvm.shl %epoch, %c20 : i64
  %new = llvm.or %high_bits, %to : i64
  %exchange = llvm.cmpxchg %claim, %old, %new acq_rel monotonic {{alignment = 8 : i64}} : !llvm.ptr, i64
  %is_mine = llvm.extractvalue %exchange[1] : !llvm.struct<(i64, i1)>
  llvm.cond_br %is_mine, ^do, ^poll(%sum : i64)
^do:
  llvm.call %part(%args, %from, %to) : !llvm.ptr, (!llvm.ptr, i64, i64) -> ()
  %new_sum = llvm.add %sum, %half : i64
  llvm.br ^poll(%new_sum : i64)
^next:
  %next_offset = llvm.add %offset, %c1 : i64
  %is_more = llvm.icmp "ult" %next_offset, %parts : i64
  llvm.cond_br %is_more, ^part(%next_offset, %sum : i64, i64), ^over(%sum : i64)
^over(%total: i64):
  llvm.return %total : i64
}}

// Announces work to the pool; returns the epoch of the announcement.
llvm.func internal @stepwell.announce(%pool: !llvm.ptr, %part: !llvm.ptr, %args: !llvm.ptr, %first: i64, %last: i64)
    -> i64 {{
  %c0 = llvm.mlir.constant(0 : i64) : i64
  %c1 = llvm.mlir.constant(1 : i64) : i64
  %epoch_at = {epoch}
  %part_at = {part}
  %args_at = {args}
  %first_at = {first}
  %last_at = {last}
  %done_at = {done}
  llvm.store %c0, %done_at atomic monotonic {{alignment = 8 : i64}} : i64, !llvm.ptr
  %old = llvm.load %epoch_at atomic monotonic {{alignment = 8 : i64}} : !llvm.ptr -> i64
  %changing = llvm.add %old, %c1 : i64
  %epoch = llvm.add %changing, %c1 : i64
  llvm.store %changing, %epoch_at atomic monotonic {{alignment = 8 : i64}} : i64, !llvm.ptr
  llvm.fence release
  llvm.store %part, %part_at atomic monotonic {{alignment = 8 : i64}} : !llvm.ptr, !llvm.ptr
  llvm.store %args, %args_at atomic monotonic {{alignment = 8 : i64}} : !llvm.ptr, !llvm.ptr
  llvm.store %first, %first_at atomic monotonic {{alignment = 8 : i64}} : i64, !llvm.ptr
  llvm.store %last, %last_at atomic monotonic {{alignment = 8 : i64}} : i64, !llvm.ptr
  %0 = llvm.atomicrmw xchg %epoch_at, %epoch seq_cst {{alignment = 8 : i64}} : !llvm.ptr, i64
  llvm.return %epoch : i64
}}

// Wakes sleeping workers after an announcement.
llvm.func internal @stepwell.wake_sleepers(%pool: !llvm.ptr) {{
  %none = llvm.mlir.constant(0 : i32) : i32
  %epoch_at = {epoch}
  %sleepers_at = {sleepers}
  // Either this load sees a worker that is about to sleep, or the worker sees the new epoch.
  %sleepers = llvm.load %sleepers_at atomic seq_cst {{alignment = 4 : i64}} : !llvm.ptr -> i32
  %is_any = llvm.icmp "ne" %sleepers, %none : i32
  llvm.cond_br %is_any, ^wake, ^return
^wake:
  %0 = llvm.atomicrmw xchg %sleepers_at, %none seq_cst {{alignment = 4 : i64}} : !llvm.ptr, i32
  llvm.call @stepwell.wake(%epoch_at) : (!llvm.ptr) -> ()
  llvm.br ^return
^return:
  llvm.return
}}

// Waits a little; returns the number of waits so far.
llvm.func internal @stepwell.wait(%polls: i64) -> i64 {{
  %c1 = llvm.mlir.constant(1 : i64) : i64
  %pauses = llvm.mlir.constant({pauses} : i64) : i64
  %more = llvm.add %polls, %c1 : i64
  %is_short = llvm.icmp "ult" %polls, %pauses : i64
  llvm.cond_br %is_short, ^pause, ^yield
^pause:
  llvm.inline_asm has_side_effects "{pause}", "~{{memory}}" : () -> ()
  llvm.return %more : i64
^yield:
  %0 = llvm.call @sched_yield() : () -> i32
  llvm.return %more : i64
}}

// Does blocks `first` to `last` with the pool's workers, if there are any, and returns when all are done.
llvm.func internal @stepwell_share(%pool: !llvm.ptr, %part: !llvm.ptr, %args: !llvm.ptr, %first: i64, %last: i64) {{
  %c0 = llvm.mlir.constant(0 : i64) : i64
  %null = llvm.mlir.zero : !llvm.ptr
  %is_alone = llvm.icmp "eq" %pool, %null : !llvm.ptr
  llvm.cond_br %is_alone, ^alone, ^check_workers
^alone:
  llvm.call %part(%args, %first, %last) : !llvm.ptr, (!llvm.ptr, i64, i64) -> ()
  llvm.return
^check_workers:
  // A short call does not wake sleeping workers.
  %c1 = llvm.mlir.constant(1 : i64) : i64
  %long = llvm.mlir.constant({long} : i64) : i64
  %threads_at = {threads}
  %active_at = {active}
  %sleepers_at = {sleepers}
  %length = llvm.load %active_at atomic monotonic {{alignment = 8 : i64}} : !llvm.ptr -> i64
  %is_long = llvm.icmp "eq" %length, %long : i64
  %threads = llvm.load %threads_at : !llvm.ptr -> i64
  %workers = llvm.sub %threads, %c1 : i64
  %sleepers = llvm.load %sleepers_at atomic monotonic {{alignment = 4 : i64}} : !llvm.ptr -> i32
  %asleep = llvm.zext %sleepers : i32 to i64
  %is_any_awake = llvm.icmp "ult" %asleep, %workers : i64
  %is_shared = llvm.or %is_long, %is_any_awake : i1
  llvm.cond_br %is_shared, ^announce, ^alone
^announce:
  %done_at = {done}
  %epoch = llvm.call @stepwell.announce(%pool, %part, %args, %first, %last)
    : (!llvm.ptr, !llvm.ptr, !llvm.ptr, i64, i64) -> i64
  llvm.cond_br %is_long, ^wake, ^together
^wake:
  llvm.call @stepwell.wake_sleepers(%pool) : (!llvm.ptr) -> ()
  llvm.br ^together
^together:
  %mine = llvm.call @stepwell.do_blocks(%pool, %c0, %epoch, %part, %args, %first, %last)
    : (!llvm.ptr, i64, i64, !llvm.ptr, !llvm.ptr, i64, i64) -> i64
  %blocks = llvm.sub %last, %first : i64
  %theirs = llvm.sub %blocks, %mine : i64
  llvm.br ^poll(%c0 : i64)
^poll(%polls: i64):
  %done = llvm.load %done_at atomic acquire {{alignment = 8 : i64}} : !llvm.ptr -> i64
  %is_done = llvm.icmp "eq" %done, %theirs : i64
  llvm.cond_br %is_done, ^return, ^wait
^wait:
  %more_polls = llvm.call @stepwell.wait(%polls) : (i64) -> i64
  llvm.br ^poll(%more_polls : i64)
^return:
  llvm.return
}}

// Main loop of a worker: waits for announcements and does its part, as long as the process lives.
llvm.func @stepwell_work(%pool: !llvm.ptr, %self: i64) {{
  %c0 = llvm.mlir.constant(0 : i64) : i64
  %c1 = llvm.mlir.constant(1 : i64) : i64
  %one = llvm.mlir.constant(1 : i32) : i32
  %in_call = llvm.mlir.constant({in_call} : i64) : i64
  %between_calls = llvm.mlir.constant({between_calls} : i64) : i64
  %epoch_at = {epoch}
  %part_at = {part}
  %args_at = {args}
  %first_at = {first}
  %last_at = {last}
  %active_at = {active}
  %done_at = {done}
  %sleepers_at = {sleepers}
  llvm.br ^poll(%c0, %c0 : i64, i64)
^poll(%seen: i64, %polls: i64):
  %epoch = llvm.load %epoch_at atomic acquire {{alignment = 8 : i64}} : !llvm.ptr -> i64
  %is_new = llvm.icmp "ne" %epoch, %seen : i64
  llvm.cond_br %is_new, ^new, ^wait
^new:
  %low_bit = llvm.and %epoch, %c1 : i64
  %is_whole = llvm.icmp "eq" %low_bit, %c0 : i64
  llvm.cond_br %is_whole, ^read, ^wait
^wait:
  %more_polls = llvm.call @stepwell.wait(%polls) : (i64) -> i64
  %active = llvm.load %active_at atomic monotonic {{alignment = 8 : i64}} : !llvm.ptr -> i64
  %is_active = llvm.icmp "ne" %active, %c0 : i64
  %patience = llvm.select %is_active, %in_call, %between_calls : i1, i64
  %is_long = llvm.icmp "ugt" %more_polls, %patience : i64
  llvm.cond_br %is_long, ^sleep, ^poll(%seen, %more_polls : i64, i64)
^sleep:
  %0 = llvm.atomicrmw add %sleepers_at, %one seq_cst {{alignment = 4 : i64}} : !llvm.ptr, i32
  llvm.call @stepwell.sleep(%epoch_at, %epoch) : (!llvm.ptr, i64) -> ()
  llvm.br ^poll(%seen, %c0 : i64, i64)
^read:
  %part = llvm.load %part_at atomic monotonic {{alignment = 8 : i64}} : !llvm.ptr -> !llvm.ptr
  %args = llvm.load %args_at atomic monotonic {{alignment = 8 : i64}} : !llvm.ptr -> !llvm.ptr
  %first = llvm.load %first_at atomic monotonic {{alignment = 8 : i64}} : !llvm.ptr -> i64
  %last = llvm.load %last_at atomic monotonic {{alignment = 8 : i64}} : !llvm.ptr -> i64
  llvm.fence acquire
  %again = llvm.load %epoch_at atomic monotonic {{alignment = 8 : i64}} : !llvm.ptr -> i64
  %is_same = llvm.icmp "eq" %again, %epoch : i64
  llvm.cond_br %is_same, ^do, ^poll(%seen, %c0 : i64, i64)
^do:
  %mine = llvm.call @stepwell.do_blocks(%pool, %self, %epoch, %part, %args, %first, %last)
    : (!llvm.ptr, i64, i64, !llvm.ptr, !llvm.ptr, i64, i64) -> i64
  %is_any = llvm.icmp "ne" %mine, %c0 : i64
  llvm.cond_br %is_any, ^report, ^poll(%epoch, %c0 : i64, i64)
^report:
  %1 = llvm.atomicrmw add %done_at, %mine release {{alignment = 8 : i64}} : !llvm.ptr, i64
  llvm.br ^poll(%epoch, %c0 : i64, i64)
}}
"""
