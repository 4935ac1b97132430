; The start of emulated programs, and the functions of the system that compiled code calls.

module asm ".globl _start"
module asm "_start: mov x29, xzr; mov x30, xzr; bl harness"
; A thread's stack starts with its function and two arguments.
module asm "spawn: stp x1, x2, [x0, #-32]!; str x3, [x0, #16]; mov x1, x0; ldr x0, =0x50f00; mov x8, #220; svc #0"
module asm "cbnz x0, 1f; ldp x4, x0, [sp]; ldr x1, [sp, #16]; blr x4"
module asm "1: ret"

declare void @spawn(ptr, ptr, ptr, i64)
declare void @stepwell_main(ptr)
declare void @stepwell_work(ptr, i64)

define i64 @syscall(i64 %number, i64 %a, i64 %b, i64 %c, i64 %d, i64 %e, i64 %f) {
  %result = call i64 asm sideeffect "svc #0", "={x0},{x8},{x0},{x1},{x2},{x3},{x4},{x5},~{memory}"(
    i64 %number, i64 %a, i64 %b, i64 %c, i64 %d, i64 %e, i64 %f)
  ret i64 %result
}

define i32 @clock_gettime(i32 %clock, ptr %time) {
  %id = zext i32 %clock to i64
  %to = ptrtoint ptr %time to i64
  %result = call i64 @syscall(i64 113, i64 %id, i64 %to, i64 0, i64 0, i64 0, i64 0)
  %narrow = trunc i64 %result to i32
  ret i32 %narrow
}

define i32 @sched_yield() {
  %result = call i64 @syscall(i64 124, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0)
  ret i32 0
}

define ptr @memset(ptr %to, i32 %value, i64 %size) {
entry:
  %byte = trunc i32 %value to i8
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp ult i64 %i, %size
  br i1 %more, label %body, label %done
body:
  %at = getelementptr i8, ptr %to, i64 %i
  store i8 %byte, ptr %at
  %next = add i64 %i, 1
  br label %head
done:
  ret ptr %to
}

define ptr @memmove(ptr %to, ptr %from, i64 %size) {
entry:
  %is_up = icmp ult ptr %to, %from
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp ult i64 %i, %size
  br i1 %more, label %body, label %done
body:
  %next = add i64 %i, 1
  %back = sub i64 %size, %next
  %place = select i1 %is_up, i64 %i, i64 %back
  %source = getelementptr i8, ptr %from, i64 %place
  %target = getelementptr i8, ptr %to, i64 %place
  %byte = load i8, ptr %source
  store i8 %byte, ptr %target
  br label %head
done:
  ret ptr %to
}

define ptr @memcpy(ptr %to, ptr %from, i64 %size) {
  %result = call ptr @memmove(ptr %to, ptr %from, i64 %size)
  ret ptr %result
}

; Subtracts the greatest doubling of the divisor that fits, until none fits: every difference is exact.
define double @fmod(double %x, double %y) {
entry:
  %rest = call double @llvm.fabs.f64(double %x)
  %divisor = call double @llvm.fabs.f64(double %y)
  %zeroed = fmul double %rest, 0.0
  %is_finite = fcmp oeq double %zeroed, 0.0
  %is_positive = fcmp ogt double %divisor, 0.0
  %is_defined = and i1 %is_finite, %is_positive
  br i1 %is_defined, label %head, label %undefined
undefined:
  ret double 0x7FF8000000000000
head:
  %left = phi double [ %rest, %entry ], [ %difference, %fits ]
  %more = fcmp oge double %left, %divisor
  br i1 %more, label %grow, label %done
grow:
  %part = phi double [ %divisor, %head ], [ %twice, %grow ]
  %twice = fadd double %part, %part
  %still = fcmp ole double %twice, %left
  br i1 %still, label %grow, label %fits
fits:
  %difference = fsub double %left, %part
  br label %head
done:
  %result = call double @llvm.copysign.f64(double %left, double %x)
  ret double %result
}

define float @fmodf(float %x, float %y) {
  %wide = fpext float %x to double
  %divisor = fpext float %y to double
  %rest = call double @fmod(double %wide, double %divisor)
  %result = fptrunc double %rest to float
  ret float %result
}

define internal void @exit(i64 %code) {
  %result = call i64 @syscall(i64 94, i64 %code, i64 0, i64 0, i64 0, i64 0, i64 0)
  ret void
}

; Reads (63) from standard input, or writes (64) to standard output, until `size` bytes are done.
define internal void @transfer(i64 %call, i64 %file, ptr %buffer, i64 %size) {
entry:
  br label %head
head:
  %at = phi ptr [ %buffer, %entry ], [ %next, %again ]
  %left = phi i64 [ %size, %entry ], [ %rest, %again ]
  %is_done = icmp eq i64 %left, 0
  br i1 %is_done, label %done, label %body
body:
  %address = ptrtoint ptr %at to i64
  %count = call i64 @syscall(i64 %call, i64 %file, i64 %address, i64 %left, i64 0, i64 0, i64 0)
  %is_good = icmp sgt i64 %count, 0
  br i1 %is_good, label %again, label %failed
again:
  %next = getelementptr i8, ptr %at, i64 %count
  %rest = sub i64 %left, %count
  br label %head
failed:
  call void @exit(i64 3)
  unreachable
done:
  ret void
}

; Returns `size` zeros that end at a page without access.
define internal ptr @new(i64 %size) {
  %more = add i64 %size, 4095
  %rounded = and i64 %more, -4096
  %whole = add i64 %rounded, 4096
  %start = call i64 @syscall(i64 222, i64 0, i64 %whole, i64 3, i64 34, i64 -1, i64 0)
  %end = add i64 %start, %rounded
  %done = call i64 @syscall(i64 226, i64 %end, i64 4096, i64 0, i64 0, i64 0, i64 0)
  %place = sub i64 %end, %size
  %result = inttoptr i64 %place to ptr
  ret ptr %result
}

define internal ptr @new_pool(i64 %threads) {
entry:
; The sizes are those of runtime/native/thread_pool.py.
  %parts = mul i64 %threads, 128
  %size = add i64 %parts, 512
  %pool = call ptr @new(i64 %size)
  store i64 %threads, ptr %pool
  br label %head
head:
  %i = phi i64 [ 1, %entry ], [ %next, %body ]
  %more = icmp ult i64 %i, %threads
  br i1 %more, label %body, label %done
body:
  %stack = call ptr @new(i64 1048576)
  %top = getelementptr i8, ptr %stack, i64 1048576
  call void @spawn(ptr %top, ptr @stepwell_work, ptr %pool, i64 %i)
  %next = add i64 %i, 1
  br label %head
done:
  ret ptr %pool
}

; Standard input: the numbers of buffers, of threads and of places; size and use of each buffer; buffer and offset of
; each place; contents of the buffers that are given.
define void @harness() {
entry:
  %header = call ptr @new(i64 24)
  call void @transfer(i64 63, i64 0, ptr %header, i64 24)
  %count = load i64, ptr %header
  %threads_at = getelementptr i64, ptr %header, i64 1
  %threads = load i64, ptr %threads_at
  %sizes_size = mul i64 %count, 16
  %sizes = call ptr @new(i64 %sizes_size)
  call void @transfer(i64 63, i64 0, ptr %sizes, i64 %sizes_size)
  %places_at = getelementptr i64, ptr %header, i64 2
  %places = load i64, ptr %places_at
  %spots_size = mul i64 %places, 16
  %spots = call ptr @new(i64 %spots_size)
  call void @transfer(i64 63, i64 0, ptr %spots, i64 %spots_size)
  %buffers_size = mul i64 %count, 8
  %buffers = call ptr @new(i64 %buffers_size)
  %slots = add i64 %places, 1
  %table_size = mul i64 %slots, 8
  %table = call ptr @new(i64 %table_size)
  br label %make
make:
  %i = phi i64 [ 0, %entry ], [ %next, %made ]
  %some = icmp ult i64 %i, %count
  br i1 %some, label %body, label %put
body:
  %place = mul i64 %i, 2
  %size_at = getelementptr i64, ptr %sizes, i64 %place
  %size = load i64, ptr %size_at
  %use_at = getelementptr i64, ptr %size_at, i64 1
  %use = load i64, ptr %use_at
  %aligned = and i64 %use, 4
  %is_aligned = icmp ne i64 %aligned, 0
  %more = add i64 %size, 63
  %rounded = and i64 %more, -64
  %bytes = select i1 %is_aligned, i64 %rounded, i64 %size
  %buffer = call ptr @new(i64 %bytes)
  %buffer_at = getelementptr ptr, ptr %buffers, i64 %i
  store ptr %buffer, ptr %buffer_at
  %given = and i64 %use, 1
  %is_given = icmp ne i64 %given, 0
  br i1 %is_given, label %read, label %poison
read:
  call void @transfer(i64 63, i64 0, ptr %buffer, i64 %size)
  br label %made
poison:
  %poisoned = call ptr @memset(ptr %buffer, i32 255, i64 %size)
  br label %made
made:
  %next = add i64 %i, 1
  br label %make
put:
  %k = phi i64 [ 0, %make ], [ %later, %putting ]
  %unset = icmp ult i64 %k, %places
  br i1 %unset, label %putting, label %run
putting:
  %spot = mul i64 %k, 2
  %number_at = getelementptr i64, ptr %spots, i64 %spot
  %number = load i64, ptr %number_at
  %offset_at = getelementptr i64, ptr %number_at, i64 1
  %offset = load i64, ptr %offset_at
  %whole_at = getelementptr ptr, ptr %buffers, i64 %number
  %whole = load ptr, ptr %whole_at
  %part = getelementptr i8, ptr %whole, i64 %offset
  %slot = getelementptr ptr, ptr %table, i64 %k
  store ptr %part, ptr %slot
  %later = add i64 %k, 1
  br label %put
run:
  %is_shared = icmp ugt i64 %threads, 1
  br i1 %is_shared, label %start, label %call
start:
  %pool = call ptr @new_pool(i64 %threads)
  %last = getelementptr ptr, ptr %table, i64 %places
  store ptr %pool, ptr %last
  br label %call
call:
  call void @stepwell_main(ptr %table)
  br label %show
show:
  %j = phi i64 [ 0, %call ], [ %following, %shown ]
  %others = icmp ult i64 %j, %count
  br i1 %others, label %check, label %end
check:
  %their = mul i64 %j, 2
  %bytes_at = getelementptr i64, ptr %sizes, i64 %their
  %length = load i64, ptr %bytes_at
  %kind_at = getelementptr i64, ptr %bytes_at, i64 1
  %kind = load i64, ptr %kind_at
  %returned = and i64 %kind, 2
  %is_returned = icmp ne i64 %returned, 0
  br i1 %is_returned, label %write, label %shown
write:
  %from_at = getelementptr ptr, ptr %buffers, i64 %j
  %from = load ptr, ptr %from_at
  call void @transfer(i64 64, i64 1, ptr %from, i64 %length)
  br label %shown
shown:
  %following = add i64 %j, 1
  br label %show
end:
  call void @exit(i64 0)
  unreachable
}
