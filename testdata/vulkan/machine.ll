; A machine with a stack in private memory runs a program of bytes, one for each invocation: a switch in a loop, with
; cases that fall into each other, one that ends the loop, and one that begins it again.
target datalayout = "e-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-n8:16:32:64-G1"
target triple = "spir64-unknown-unknown"

@__spirv_BuiltInGlobalInvocationId = external addrspace(7) constant <3 x i64>, align 32
@primes = internal addrspace(2) constant [8 x i16] [i16 2, i16 3, i16 5, i16 7, i16 11, i16 13, i16 17, i16 19], align 2

define spir_kernel void @machine(ptr addrspace(1) %code, ptr addrspace(1) %out, i64 %length) {
entry:
  %stack = alloca [16 x i32], align 4
  %gid = load <3 x i64>, ptr addrspace(7) @__spirv_BuiltInGlobalInvocationId, align 32
  %g = extractelement <3 x i64> %gid, i64 0
  %base = mul i64 %g, %length
  %bottom = getelementptr inbounds [16 x i32], ptr %stack, i64 0, i64 0
  store i32 1, ptr %bottom, align 4
  br label %head
head:
  %pc = phi i64 [ 0, %entry ], [ %pc.next, %next ], [ %pc.2, %case.skip ]
  %sp = phi i32 [ 0, %entry ], [ %sp.next, %next ], [ %sp, %case.skip ]
  %more = icmp ult i64 %pc, %length
  br i1 %more, label %fetch, label %end
fetch:
  %at = add i64 %base, %pc
  %p = getelementptr inbounds i8, ptr addrspace(1) %code, i64 %at
  %op = load i8, ptr addrspace(1) %p, align 1
  %kind = and i8 %op, 7
  %sp64 = sext i32 %sp to i64
  %top = getelementptr inbounds [16 x i32], ptr %stack, i64 0, i64 %sp64
  %v = load i32, ptr %top, align 4
  switch i8 %kind, label %case.prime [
    i8 0, label %case.push
    i8 1, label %case.add
    i8 2, label %case.double
    i8 3, label %case.skip
    i8 4, label %case.halt
  ]
case.push:
  %full = icmp sgt i32 %sp, 13
  br i1 %full, label %next.same, label %push
push:
  %sp.up = add nsw i32 %sp, 1
  %sp.up64 = sext i32 %sp.up to i64
  %slot = getelementptr inbounds [16 x i32], ptr %stack, i64 0, i64 %sp.up64
  %opw = zext i8 %op to i32
  store i32 %opw, ptr %slot, align 4
  br label %next
case.add:
  %deep = icmp sgt i32 %sp, 0
  br i1 %deep, label %add, label %case.double
add:
  %sp.down = add nsw i32 %sp, -1
  %sp.down64 = sext i32 %sp.down to i64
  %under = getelementptr inbounds [16 x i32], ptr %stack, i64 0, i64 %sp.down64
  %w = load i32, ptr %under, align 4
  %s = add i32 %v, %w
  store i32 %s, ptr %under, align 4
  br label %next
case.double:
  %d = shl i32 %v, 1
  store i32 %d, ptr %top, align 4
  br label %next
case.skip:
  %pc.2 = add i64 %pc, 2
  br label %head
case.prime:
  %which = and i32 %v, 7
  %which64 = zext i32 %which to i64
  %prime = getelementptr inbounds [8 x i16], ptr addrspace(2) @primes, i64 0, i64 %which64
  %pr = load i16, ptr addrspace(2) %prime, align 2
  %prw = zext i16 %pr to i32
  %m = mul i32 %v, %prw
  store i32 %m, ptr %top, align 4
  br label %next.same
case.halt:
  %h = add i32 %v, 1000000
  br label %write
next.same:
  br label %next
next:
  %sp.next = phi i32 [ %sp.up, %push ], [ %sp.down, %add ], [ %sp, %case.double ], [ %sp, %next.same ]
  %pc.next = add nuw i64 %pc, 1
  br label %head
end:
  %sp64.e = sext i32 %sp to i64
  %top.e = getelementptr inbounds [16 x i32], ptr %stack, i64 0, i64 %sp64.e
  %v.e = load i32, ptr %top.e, align 4
  br label %write
write:
  %r = phi i32 [ %h, %case.halt ], [ %v.e, %end ]
  %o = getelementptr inbounds i32, ptr addrspace(1) %out, i64 %g
  store i32 %r, ptr addrspace(1) %o, align 4
  ret void
}
