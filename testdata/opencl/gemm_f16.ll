; C = A x B: f16 A and B of any size that is a multiple of the tile, f32 C, all in rows. A subgroup of 16 makes a tile of 8x16.
target datalayout = "e-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-n8:16:32:64-G1"
target triple = "spir64-unknown-unknown"

@__spirv_BuiltInGlobalInvocationId = external addrspace(7) constant <3 x i64>, align 32
@__spirv_BuiltInLocalInvocationId = external addrspace(7) constant <3 x i64>, align 32

define spir_kernel void @gemm(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c, i64 %n, i64 %k) !intel_reqd_sub_group_size !0 {
entry:
  %gid = load <3 x i64>, ptr addrspace(7) @__spirv_BuiltInGlobalInvocationId, align 32
  %gx = extractelement <3 x i64> %gid, i64 0
  %gy = extractelement <3 x i64> %gid, i64 1
  %lid = load <3 x i64>, ptr addrspace(7) @__spirv_BuiltInLocalInvocationId, align 32
  %lx = extractelement <3 x i64> %lid, i64 0
  %n0 = sub i64 %gx, %lx
  %m0 = shl i64 %gy, 3
  %arow = mul i64 %m0, %k
  %abase = getelementptr inbounds half, ptr addrspace(1) %a, i64 %arow
  %bbase = getelementptr inbounds half, ptr addrspace(1) %b, i64 %n0
  %zero = call spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z26__spirv_CompositeConstructf(float 0.000000e+00)
  br label %loop

loop:
  %kk = phi i64 [ 0, %entry ], [ %next, %body ]
  %acc = phi target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) [ %zero, %entry ], [ %sum, %body ]
  %more = icmp ult i64 %kk, %k
  br i1 %more, label %body, label %done

body:
  %ap = getelementptr inbounds half, ptr addrspace(1) %abase, i64 %kk
  %ag = addrspacecast ptr addrspace(1) %ap to ptr addrspace(4)
  %am = call spir_func target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS4Dhili(ptr addrspace(4) %ag, i32 0, i64 %k, i32 0)
  %brow = mul i64 %kk, %n
  %bp = getelementptr inbounds half, ptr addrspace(1) %bbase, i64 %brow
  %bm = call spir_func target("spirv.CooperativeMatrixKHR", half, 3, 16, 16, 1) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS1Dhili(ptr addrspace(1) %bp, i32 0, i64 %n, i32 0)
  %sum = call spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z34__spirv_CooperativeMatrixMulAddKHR(target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0) %am, target("spirv.CooperativeMatrixKHR", half, 3, 16, 16, 1) %bm, target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) %acc, i32 0)
  %next = add nuw nsw i64 %kk, 16
  br label %loop

done:
  %crow = mul i64 %m0, %n
  %cbase = getelementptr inbounds float, ptr addrspace(1) %c, i64 %n0
  %cp = getelementptr inbounds float, ptr addrspace(1) %cbase, i64 %crow
  %cg = addrspacecast ptr addrspace(1) %cp to ptr addrspace(4)
  call spir_func void @_Z33__spirv_CooperativeMatrixStoreKHRPU3AS4f(ptr addrspace(4) %cg, target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) %acc, i32 0, i64 %n, i32 0)
  ret void
}

declare spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z26__spirv_CompositeConstructf(float)
declare spir_func target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS4Dhili(ptr addrspace(4), i32, i64, i32)
declare spir_func target("spirv.CooperativeMatrixKHR", half, 3, 16, 16, 1) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS1Dhili(ptr addrspace(1), i32, i64, i32)
declare spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z34__spirv_CooperativeMatrixMulAddKHR(target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0), target("spirv.CooperativeMatrixKHR", half, 3, 16, 16, 1), target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2), i32)
declare spir_func void @_Z33__spirv_CooperativeMatrixStoreKHRPU3AS4f(ptr addrspace(4), target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2), i32, i64, i32)

!0 = !{i32 16}
