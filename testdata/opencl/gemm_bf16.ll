; C += A x B: bf16 (as 16-bit integers) A in rows, B packed in pairs of rows, f32 C. Workgroups of several subgroups of 16
; beside each other; each subgroup makes a tile of 8x16, and asks for the next tile of A early.
target datalayout = "e-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-n8:16:32:64-G1"
target triple = "spir64-unknown-unknown"

@__spirv_BuiltInWorkgroupId = external addrspace(7) constant <3 x i64>, align 32
@__spirv_BuiltInWorkgroupSize = external addrspace(7) constant <3 x i64>, align 32
@__spirv_BuiltInLocalInvocationId = external addrspace(7) constant <3 x i64>, align 32

define spir_kernel void @gemm(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c, i64 %n, i64 %k) !intel_reqd_sub_group_size !0 {
entry:
  %wg = load <3 x i64>, ptr addrspace(7) @__spirv_BuiltInWorkgroupId, align 32
  %wx = extractelement <3 x i64> %wg, i64 0
  %wy = extractelement <3 x i64> %wg, i64 1
  %size = load <3 x i64>, ptr addrspace(7) @__spirv_BuiltInWorkgroupSize, align 32
  %sx = extractelement <3 x i64> %size, i64 0
  %lid = load <3 x i64>, ptr addrspace(7) @__spirv_BuiltInLocalInvocationId, align 32
  %lx = extractelement <3 x i64> %lid, i64 0
  %first = mul i64 %wx, %sx
  %lane0 = and i64 %lx, -16
  %n0 = add i64 %first, %lane0
  %m0 = shl i64 %wy, 3
  %arow = mul i64 %m0, %k
  %abase = getelementptr inbounds i16, ptr addrspace(1) %a, i64 %arow
  %bstride = shl i64 %n, 1
  %b0 = shl i64 %n0, 1
  %bbase = getelementptr inbounds i16, ptr addrspace(1) %b, i64 %b0
  %crow = mul i64 %m0, %n
  %cbase = getelementptr inbounds float, ptr addrspace(1) %c, i64 %n0
  %cp = getelementptr inbounds float, ptr addrspace(1) %cbase, i64 %crow
  %cg = addrspacecast ptr addrspace(1) %cp to ptr addrspace(4)
  %old = call spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS4fili(ptr addrspace(4) %cg, i32 0, i64 %n, i32 0)
  br label %loop

loop:
  %kk = phi i64 [ 0, %entry ], [ %next, %body ]
  %acc = phi target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) [ %old, %entry ], [ %sum, %body ]
  %more = icmp ult i64 %kk, %k
  br i1 %more, label %body, label %done

body:
  %ap = getelementptr inbounds i16, ptr addrspace(1) %abase, i64 %kk
  %ag = addrspacecast ptr addrspace(1) %ap to ptr addrspace(4)
  %am = call spir_func target("spirv.CooperativeMatrixKHR", i16, 3, 8, 16, 0) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS4sili(ptr addrspace(4) %ag, i32 0, i64 %k, i32 0)
  %next = add nuw nsw i64 %kk, 16
  %an = getelementptr inbounds i16, ptr addrspace(1) %abase, i64 %next
  %ang = addrspacecast ptr addrspace(1) %an to ptr addrspace(4)
  call spir_func void @_Z38__spirv_CooperativeMatrixPrefetchINTELPU3AS4siiiil(ptr addrspace(4) %ang, i32 8, i32 16, i32 0, i32 0, i64 %k)
  ; Two rows of B make a line of memory.
  %line = lshr i64 %kk, 1
  %brow = mul i64 %line, %bstride
  %bp = getelementptr inbounds i16, ptr addrspace(1) %bbase, i64 %brow
  %bg = addrspacecast ptr addrspace(1) %bp to ptr addrspace(4)
  %bm = call spir_func target("spirv.CooperativeMatrixKHR", i16, 3, 16, 16, 1) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS4sili_1(ptr addrspace(4) %bg, i32 2, i64 %bstride, i32 0)
  %sum = call spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z34__spirv_CooperativeMatrixMulAddKHR(target("spirv.CooperativeMatrixKHR", i16, 3, 8, 16, 0) %am, target("spirv.CooperativeMatrixKHR", i16, 3, 16, 16, 1) %bm, target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) %acc, i32 64)
  br label %loop

done:
  call spir_func void @_Z33__spirv_CooperativeMatrixStoreKHRPU3AS4f(ptr addrspace(4) %cg, target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) %acc, i32 0, i64 %n, i32 0)
  ret void
}

declare spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS4fili(ptr addrspace(4), i32, i64, i32)
declare spir_func target("spirv.CooperativeMatrixKHR", i16, 3, 8, 16, 0) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS4sili(ptr addrspace(4), i32, i64, i32)
declare spir_func void @_Z38__spirv_CooperativeMatrixPrefetchINTELPU3AS4siiiil(ptr addrspace(4), i32, i32, i32, i32, i64)
declare spir_func target("spirv.CooperativeMatrixKHR", i16, 3, 16, 16, 1) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS4sili_1(ptr addrspace(4), i32, i64, i32)
declare spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z34__spirv_CooperativeMatrixMulAddKHR(target("spirv.CooperativeMatrixKHR", i16, 3, 8, 16, 0), target("spirv.CooperativeMatrixKHR", i16, 3, 16, 16, 1), target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2), i32)
declare spir_func void @_Z33__spirv_CooperativeMatrixStoreKHRPU3AS4f(ptr addrspace(4), target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2), i32, i64, i32)

!0 = !{i32 16}
