; Sums of 64 numbers each: in shared memory whose size the host says, halved again and again, with barriers; the first
; invocation adds the sum of its workgroup to a total, and a maximum, with atomics.
target datalayout = "e-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-n8:16:32:64-G1"
target triple = "spir64-unknown-unknown"

@__spirv_BuiltInLocalInvocationId = external addrspace(7) constant <3 x i64>, align 32
@__spirv_BuiltInWorkgroupId = external addrspace(7) constant <3 x i64>, align 32
@__spirv_BuiltInWorkgroupSize = external addrspace(7) constant <3 x i64>, align 32
declare spir_func void @_Z22__spirv_ControlBarrieriii(i32, i32, i32)
declare spir_func i32 @_Z18__spirv_AtomicIAddPU3AS1iiii(ptr addrspace(1), i32, i32, i32)
declare spir_func i32 @_Z18__spirv_AtomicSMaxPU3AS1iiii(ptr addrspace(1), i32, i32, i32)

define spir_kernel void @reduce(ptr addrspace(1) %in, ptr addrspace(3) %part, ptr addrspace(1) %out, i16 %scale, ptr addrspace(1) %total) {
entry:
  %lv = load <3 x i64>, ptr addrspace(7) @__spirv_BuiltInLocalInvocationId, align 32
  %l = extractelement <3 x i64> %lv, i64 0
  %gv = load <3 x i64>, ptr addrspace(7) @__spirv_BuiltInWorkgroupId, align 32
  %w = extractelement <3 x i64> %gv, i64 0
  %sv = load <3 x i64>, ptr addrspace(7) @__spirv_BuiltInWorkgroupSize, align 32
  %size = extractelement <3 x i64> %sv, i64 0
  %base = mul i64 %w, %size
  %at = add i64 %base, %l
  %p = getelementptr inbounds i32, ptr addrspace(1) %in, i64 %at
  %v = load i32, ptr addrspace(1) %p, align 4
  %s = sext i16 %scale to i32
  %scaled = mul i32 %v, %s
  %mine = getelementptr inbounds i32, ptr addrspace(3) %part, i64 %l
  store i32 %scaled, ptr addrspace(3) %mine, align 4
  br label %head
head:
  %step = phi i64 [ %size, %entry ], [ %half, %next ]
  %half = lshr i64 %step, 1
  call spir_func void @_Z22__spirv_ControlBarrieriii(i32 2, i32 2, i32 272)
  %more = icmp ugt i64 %half, 0
  br i1 %more, label %body, label %end
body:
  %active = icmp ult i64 %l, %half
  br i1 %active, label %add, label %next
add:
  %other = add i64 %l, %half
  %q = getelementptr inbounds i32, ptr addrspace(3) %part, i64 %other
  %a = load i32, ptr addrspace(3) %mine, align 4
  %b = load i32, ptr addrspace(3) %q, align 4
  %c = add i32 %a, %b
  store i32 %c, ptr addrspace(3) %mine, align 4
  br label %next
next:
  br label %head
end:
  %first = icmp eq i64 %l, 0
  br i1 %first, label %write, label %exit
write:
  %sum = load i32, ptr addrspace(3) %part, align 4
  %o = getelementptr inbounds i32, ptr addrspace(1) %out, i64 %w
  store i32 %sum, ptr addrspace(1) %o, align 4
  %old = call spir_func i32 @_Z18__spirv_AtomicIAddPU3AS1iiii(ptr addrspace(1) %total, i32 1, i32 528, i32 %sum)
  %best = getelementptr inbounds i32, ptr addrspace(1) %total, i64 1
  %old2 = call spir_func i32 @_Z18__spirv_AtomicSMaxPU3AS1iiii(ptr addrspace(1) %best, i32 1, i32 0, i32 %sum)
  br label %exit
exit:
  ret void
}
