; C = A x B: A of signed, B of unsigned 4-bit integers, two to a byte; A in rows, B packed in eights of rows, 32-bit C. Strides
; count components.
target datalayout = "e-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-n8:16:32:64-G1"
target triple = "spir64-unknown-unknown"

@__spirv_BuiltInGlobalInvocationId = external addrspace(7) constant <3 x i64>, align 32
@__spirv_BuiltInLocalInvocationId = external addrspace(7) constant <3 x i64>, align 32

define spir_kernel void @gemm(ptr addrspace(1) align 1 %a, ptr addrspace(1) align 1 %b, ptr addrspace(1) align 4 %c, i64 %n, i64 %k) !intel_reqd_sub_group_size !0 {
entry:
  %gid = load <3 x i64>, ptr addrspace(7) @__spirv_BuiltInGlobalInvocationId, align 32
  %gx = extractelement <3 x i64> %gid, i64 0
  %gy = extractelement <3 x i64> %gid, i64 1
  %lid = load <3 x i64>, ptr addrspace(7) @__spirv_BuiltInLocalInvocationId, align 32
  %lx = extractelement <3 x i64> %lid, i64 0
  %lane = and i64 %lx, 15
  %n0 = sub i64 %gx, %lane
  %m0 = shl i64 %gy, 3
  %ag = addrspacecast ptr addrspace(1) %a to ptr addrspace(4)
  %bg = addrspacecast ptr addrspace(1) %b to ptr addrspace(4)
  %arow = mul i64 %m0, %k
  %bstride = shl i64 %n, 3
  %b0 = shl i64 %n0, 3
  %zero = call spir_func target("spirv.CooperativeMatrixKHR", i32, 3, 8, 16, 2) @_Z26__spirv_CompositeConstructi(i32 0)
  br label %loop

loop:
  %kk = phi i64 [ 0, %entry ], [ %next, %loop ]
  %acc = phi target("spirv.CooperativeMatrixKHR", i32, 3, 8, 16, 2) [ %zero, %entry ], [ %sum, %loop ]
  %aoff = add i64 %arow, %kk
  %abyte = lshr i64 %aoff, 1
  %ap = getelementptr inbounds i8, ptr addrspace(4) %ag, i64 %abyte
  %am = call spir_func target("spirv.CooperativeMatrixKHR", i4, 3, 8, 64, 0) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS4cili(ptr addrspace(4) %ap, i32 0, i64 %k, i32 0)
  %line = lshr i64 %kk, 3
  %brow = mul i64 %line, %bstride
  %boff = add i64 %brow, %b0
  %bbyte = lshr i64 %boff, 1
  %bp = getelementptr inbounds i8, ptr addrspace(4) %bg, i64 %bbyte
  %bm = call spir_func target("spirv.CooperativeMatrixKHR", i4, 3, 64, 16, 1) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS4cili_1(ptr addrspace(4) %bp, i32 2, i64 %bstride, i32 0)
  %sum = call spir_func target("spirv.CooperativeMatrixKHR", i32, 3, 8, 16, 2) @_Z34__spirv_CooperativeMatrixMulAddKHR(target("spirv.CooperativeMatrixKHR", i4, 3, 8, 64, 0) %am, target("spirv.CooperativeMatrixKHR", i4, 3, 64, 16, 1) %bm, target("spirv.CooperativeMatrixKHR", i32, 3, 8, 16, 2) %acc, i32 1)
  %next = add nuw nsw i64 %kk, 64
  %more = icmp ult i64 %next, %k
  br i1 %more, label %loop, label %done

done:
  %crow = mul i64 %m0, %n
  %cbase = getelementptr inbounds i32, ptr addrspace(1) %c, i64 %n0
  %cp = getelementptr inbounds i32, ptr addrspace(1) %cbase, i64 %crow
  %cg = addrspacecast ptr addrspace(1) %cp to ptr addrspace(4)
  call spir_func void @_Z33__spirv_CooperativeMatrixStoreKHRPU3AS4i(ptr addrspace(4) %cg, target("spirv.CooperativeMatrixKHR", i32, 3, 8, 16, 2) %sum, i32 0, i64 %n, i32 0)
  ret void
}

declare spir_func target("spirv.CooperativeMatrixKHR", i32, 3, 8, 16, 2) @_Z26__spirv_CompositeConstructi(i32)
declare spir_func target("spirv.CooperativeMatrixKHR", i4, 3, 8, 64, 0) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS4cili(ptr addrspace(4), i32, i64, i32)
declare spir_func target("spirv.CooperativeMatrixKHR", i4, 3, 64, 16, 1) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS4cili_1(ptr addrspace(4), i32, i64, i32)
declare spir_func target("spirv.CooperativeMatrixKHR", i32, 3, 8, 16, 2) @_Z34__spirv_CooperativeMatrixMulAddKHR(target("spirv.CooperativeMatrixKHR", i4, 3, 8, 64, 0), target("spirv.CooperativeMatrixKHR", i4, 3, 64, 16, 1), target("spirv.CooperativeMatrixKHR", i32, 3, 8, 16, 2), i32)
declare spir_func void @_Z33__spirv_CooperativeMatrixStoreKHRPU3AS4i(ptr addrspace(4), target("spirv.CooperativeMatrixKHR", i32, 3, 8, 16, 2), i32, i64, i32)

!0 = !{i32 16}
