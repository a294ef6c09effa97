; Pointers that are constants of the module, into shared memory and a table of constants that is looked at as bytes and as
; words; memory that is copied and cleared; numbers at addresses that are not multiples of their size.
target datalayout = "e-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-n8:16:32:64-G1"
target triple = "spir64-unknown-unknown"

@shared = internal addrspace(3) global [64 x i32] undef, align 4
@words = internal addrspace(2) constant { [4 x i8], [3 x i32], i16 } { [4 x i8] c"\01\02\03\04", [3 x i32] [i32 10, i32 200, i32 3000], i16 77 }, align 4
@__spirv_BuiltInLocalInvocationId = external addrspace(7) constant <3 x i64>, align 32
declare spir_func void @_Z22__spirv_ControlBarrieriii(i32, i32, i32)
declare void @llvm.memcpy.p0.p1.i64(ptr, ptr addrspace(1), i64, i1)

define spir_kernel void @table(ptr addrspace(1) %in, ptr addrspace(1) %out) {
entry:
  %mine = alloca [4 x i32], align 4
  %lv = load <3 x i64>, ptr addrspace(7) @__spirv_BuiltInLocalInvocationId, align 32
  %l = extractelement <3 x i64> %lv, i64 0
  %l32 = trunc i64 %l to i32
  %from = getelementptr inbounds i32, ptr addrspace(1) %in, i64 %l
  call void @llvm.memcpy.p0.p1.i64(ptr align 4 %mine, ptr addrspace(1) align 4 %from, i64 16, i1 false)
  %odd.at = getelementptr inbounds i8, ptr addrspace(1) %from, i64 1
  %odd = load i32, ptr addrspace(1) %odd.at, align 1
  %which = urem i64 %l, 3
  %e = getelementptr inbounds i32, ptr addrspace(2) getelementptr inbounds (i8, ptr addrspace(2) @words, i64 4), i64 %which
  %t = load i32, ptr addrspace(2) %e, align 4
  %bytes = and i64 %l, 3
  %b.at = getelementptr inbounds i8, ptr addrspace(2) @words, i64 %bytes
  %b = load i8, ptr addrspace(2) %b.at, align 1
  %bw = zext i8 %b to i32
  %w = load i16, ptr addrspace(2) getelementptr inbounds (i8, ptr addrspace(2) @words, i64 16), align 4
  %ww = zext i16 %w to i32
  %slot = getelementptr inbounds i32, ptr addrspace(3) getelementptr inbounds (i8, ptr addrspace(3) @shared, i64 128), i64 %l
  %s1 = add i32 %t, %bw
  %s2 = add i32 %s1, %ww
  store i32 %s2, ptr addrspace(3) %slot, align 4
  call spir_func void @_Z22__spirv_ControlBarrieriii(i32 2, i32 2, i32 272)
  %back = sub i64 31, %l
  %other.at = getelementptr inbounds i32, ptr addrspace(3) getelementptr inbounds (i8, ptr addrspace(3) @shared, i64 128), i64 %back
  %other = load i32, ptr addrspace(3) %other.at, align 4
  %m3 = getelementptr inbounds [4 x i32], ptr %mine, i64 0, i64 3
  %copied = load i32, ptr %m3, align 4
  %r1 = add i32 %other, %copied
  %r2 = xor i32 %r1, %odd
  %o = getelementptr inbounds i8, ptr addrspace(1) %out, i64 2
  %o2 = getelementptr inbounds i32, ptr addrspace(1) %o, i64 %l
  store i32 %r2, ptr addrspace(1) %o2, align 2
  ret void
}
