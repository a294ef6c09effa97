; For each row of a table: the first place whose two neighbours add up to a number of the row's own list, found in two
; nested loops that are left from inside both; rows that are switched off leave early, and one condition is of three parts.
target datalayout = "e-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-n8:16:32:64-G1"
target triple = "spir64-unknown-unknown"

@__spirv_BuiltInGlobalInvocationId = external addrspace(7) constant <3 x i64>, align 32

define spir_kernel void @search(ptr addrspace(1) %table, ptr addrspace(1) %wanted, ptr addrspace(1) %found, i32 %width, i32 %tries) {
entry:
  %gid = load <3 x i64>, ptr addrspace(7) @__spirv_BuiltInGlobalInvocationId, align 32
  %g = extractelement <3 x i64> %gid, i64 0
  %g32 = trunc i64 %g to i32
  %row = mul i32 %g32, %width
  %list = mul i32 %g32, %tries
  %o = getelementptr inbounds i32, ptr addrspace(1) %found, i64 %g
  %off = and i32 %g32, 7
  %is.off = icmp eq i32 %off, 6
  br i1 %is.off, label %early, label %outer
early:
  store i32 -7, ptr addrspace(1) %o, align 4
  ret void
outer:
  %t = phi i32 [ 0, %entry ], [ %t.next, %outer.next ]
  %skipped = phi i32 [ 0, %entry ], [ %skipped.2, %outer.next ]
  %t.more = icmp slt i32 %t, %tries
  br i1 %t.more, label %outer.body, label %none
outer.body:
  %wi = add i32 %list, %t
  %wi64 = sext i32 %wi to i64
  %wp = getelementptr inbounds i32, ptr addrspace(1) %wanted, i64 %wi64
  %want = load i32, ptr addrspace(1) %wp, align 4
  %neg = icmp slt i32 %want, 0
  br i1 %neg, label %skip, label %inner
skip:
  %skipped.1 = add i32 %skipped, 1
  br label %outer.next
inner:
  %i = phi i32 [ 1, %outer.body ], [ %i.next, %inner.next ]
  %i.more = icmp slt i32 %i, %width
  br i1 %i.more, label %test.1, label %outer.next
test.1:
  %at = add i32 %row, %i
  %at64 = sext i32 %at to i64
  %p = getelementptr inbounds i32, ptr addrspace(1) %table, i64 %at64
  %v = load i32, ptr addrspace(1) %p, align 4
  %q = getelementptr inbounds i32, ptr addrspace(1) %p, i64 -1
  %u = load i32, ptr addrspace(1) %q, align 4
  %sum = add i32 %u, %v
  %eq = icmp eq i32 %sum, %want
  br i1 %eq, label %test.2, label %inner.next
test.2:
  %odd = and i32 %v, 1
  %is.odd = icmp eq i32 %odd, 1
  br i1 %is.odd, label %hit, label %test.3
test.3:
  %same = icmp eq i32 %u, %v
  br i1 %same, label %hit, label %inner.next
inner.next:
  %i.next = add nsw i32 %i, 1
  br label %inner
outer.next:
  %skipped.2 = phi i32 [ %skipped.1, %skip ], [ %skipped, %inner ]
  %t.next = add nsw i32 %t, 1
  br label %outer
none:
  %n = sub i32 -1, %skipped
  br label %write
hit:
  %h = mul i32 %t, 1000
  %h2 = add i32 %h, %i
  br label %write
write:
  %r = phi i32 [ %n, %none ], [ %h2, %hit ]
  store i32 %r, ptr addrspace(1) %o, align 4
  ret void
}
