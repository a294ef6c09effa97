; C = A x B of 8x8x8 matrices and subgroups of 8, which software drivers of Vulkan have: the matrices stay matrices.
target datalayout = "e-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-n8:16:32:64-G1"
target triple = "spir64-unknown-unknown"

@__spirv_BuiltInWorkgroupId = external addrspace(7) constant <3 x i64>, align 32

define spir_kernel void @gemm(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c, i64 %n, i64 %k) !intel_reqd_sub_group_size !0 {
entry:
  %wg = load <3 x i64>, ptr addrspace(7) @__spirv_BuiltInWorkgroupId, align 32
  %wx = extractelement <3 x i64> %wg, i64 0
  %wy = extractelement <3 x i64> %wg, i64 1
  %n0 = shl i64 %wx, 3
  %m0 = shl i64 %wy, 3
  %arow = mul i64 %m0, %k
  %abase = getelementptr inbounds half, ptr addrspace(1) %a, i64 %arow
  %bbase = getelementptr inbounds half, ptr addrspace(1) %b, i64 %n0
  %zero = call spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 8, 2) @_Z26__spirv_CompositeConstructf(float 0.000000e+00)
  br label %loop
loop:
  %kk = phi i64 [ 0, %entry ], [ %next, %body ]
  %acc = phi target("spirv.CooperativeMatrixKHR", float, 3, 8, 8, 2) [ %zero, %entry ], [ %sum, %body ]
  %more = icmp ult i64 %kk, %k
  br i1 %more, label %body, label %done
body:
  %ap = getelementptr inbounds half, ptr addrspace(1) %abase, i64 %kk
  %am = call spir_func target("spirv.CooperativeMatrixKHR", half, 3, 8, 8, 0) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS1Dhili_1(ptr addrspace(1) %ap, i32 0, i64 %k, i32 0)
  %brow = mul i64 %kk, %n
  %bp = getelementptr inbounds half, ptr addrspace(1) %bbase, i64 %brow
  %bm = call spir_func target("spirv.CooperativeMatrixKHR", half, 3, 8, 8, 1) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS1Dhili(ptr addrspace(1) %bp, i32 0, i64 %n, i32 0)
  %sum = call spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 8, 2) @_Z34__spirv_CooperativeMatrixMulAddKHR(target("spirv.CooperativeMatrixKHR", half, 3, 8, 8, 0) %am, target("spirv.CooperativeMatrixKHR", half, 3, 8, 8, 1) %bm, target("spirv.CooperativeMatrixKHR", float, 3, 8, 8, 2) %acc, i32 0)
  %next = add nuw nsw i64 %kk, 8
  br label %loop
done:
  %crow = mul i64 %m0, %n
  %cbase = getelementptr inbounds float, ptr addrspace(1) %c, i64 %n0
  %cp = getelementptr inbounds float, ptr addrspace(1) %cbase, i64 %crow
  call spir_func void @_Z33__spirv_CooperativeMatrixStoreKHRPU3AS1f(ptr addrspace(1) %cp, target("spirv.CooperativeMatrixKHR", float, 3, 8, 8, 2) %acc, i32 0, i64 %n, i32 0)
  ret void
}

declare spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 8, 2) @_Z26__spirv_CompositeConstructf(float)
declare spir_func target("spirv.CooperativeMatrixKHR", half, 3, 8, 8, 0) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS1Dhili_1(ptr addrspace(1), i32, i64, i32)
declare spir_func target("spirv.CooperativeMatrixKHR", half, 3, 8, 8, 1) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS1Dhili(ptr addrspace(1), i32, i64, i32)
declare spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 8, 2) @_Z34__spirv_CooperativeMatrixMulAddKHR(target("spirv.CooperativeMatrixKHR", half, 3, 8, 8, 0), target("spirv.CooperativeMatrixKHR", half, 3, 8, 8, 1), target("spirv.CooperativeMatrixKHR", float, 3, 8, 8, 2), i32)
declare spir_func void @_Z33__spirv_CooperativeMatrixStoreKHRPU3AS1f(ptr addrspace(1), target("spirv.CooperativeMatrixKHR", float, 3, 8, 8, 2), i32, i64, i32)

!0 = !{i32 8}
