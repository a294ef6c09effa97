; C = A x B, and on the way the sum of all elements of each tile of A, element by element, and of each row of A by where elements are (with an
; index of 64 bits): right only where each element of a factor is held once.
target datalayout = "e-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-n8:16:32:64-G1"
target triple = "spir64-unknown-unknown"

%struct.joint_a = type { target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0) }

@__spirv_BuiltInGlobalInvocationId = external addrspace(7) constant <3 x i64>, align 32
@__spirv_BuiltInLocalInvocationId = external addrspace(7) constant <3 x i64>, align 32

define spir_kernel void @sums(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c, ptr addrspace(1) %rows, ptr addrspace(1) %all, i64 %n) !intel_reqd_sub_group_size !0 {
entry:
  %aj = alloca target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0), align 8
  %gid = load <3 x i64>, ptr addrspace(7) @__spirv_BuiltInGlobalInvocationId, align 32
  %gx = extractelement <3 x i64> %gid, i64 0
  %gy = extractelement <3 x i64> %gid, i64 1
  %lid = load <3 x i64>, ptr addrspace(7) @__spirv_BuiltInLocalInvocationId, align 32
  %lx = extractelement <3 x i64> %lid, i64 0
  %n0 = sub i64 %gx, %lx
  %m0 = shl i64 %gy, 3
  %a0 = shl i64 %m0, 4
  %ap = getelementptr inbounds half, ptr addrspace(1) %a, i64 %a0
  %ag = addrspacecast ptr addrspace(1) %ap to ptr addrspace(4)
  %am = call spir_func target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS4Dhili(ptr addrspace(4) %ag, i32 0, i64 16, i32 0)
  %held = getelementptr inbounds %struct.joint_a, ptr %aj, i64 0, i32 0
  store target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0) %am, ptr %held, align 8
  %held.g = addrspacecast ptr %held to ptr addrspace(4)
  br label %loop

loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %body ]
  %sum = phi float [ 0.0, %entry ], [ %sum.next, %body ]
  %now = load target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0), ptr %held, align 8
  %len = call spir_func i64 @_Z34__spirv_CooperativeMatrixLengthKHR(target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0) %now)
  %more = icmp ult i64 %i, %len
  br i1 %more, label %body, label %done

body:
  %e = call spir_func ptr addrspace(4) @_Z19__spirv_AccessChainPU3AS4m(ptr addrspace(4) %held.g, i64 %i)
  %v = load half, ptr addrspace(4) %e, align 2
  %wide = fpext half %v to float
  %sum.next = fadd float %sum, %wide
  %place = call spir_func <2 x i32> @_Z39__spirv_JointMatrixGetElementCoordINTEL(target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0) %now, i64 %i)
  %r = extractelement <2 x i32> %place, i32 0
  %r64 = zext i32 %r to i64
  %row = add i64 %m0, %r64
  %to = getelementptr inbounds i32, ptr addrspace(1) %rows, i64 %row
  %twice = fmul float %wide, 2.0
  %whole = fptosi float %twice to i32
  %was = call spir_func i32 @_Z18__spirv_AtomicIAddPU3AS1iiii(ptr addrspace(1) %to, i32 1, i32 0, i32 %whole)
  %i.next = add nuw nsw i64 %i, 1
  br label %loop

done:
  %sum.twice = fmul float %sum, 2.0
  %sum.whole = fptosi float %sum.twice to i32
  %into = getelementptr inbounds i32, ptr addrspace(1) %all, i64 %gy
  %before = call spir_func i32 @_Z18__spirv_AtomicIAddPU3AS1iiii(ptr addrspace(1) %into, i32 1, i32 0, i32 %sum.whole)
  %bp = getelementptr inbounds half, ptr addrspace(1) %b, i64 %n0
  %bg = addrspacecast ptr addrspace(1) %bp to ptr addrspace(4)
  %bm = call spir_func target("spirv.CooperativeMatrixKHR", half, 3, 16, 16, 1) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS4Dhili_1(ptr addrspace(4) %bg, i32 0, i64 %n, i32 0)
  %zero = call spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z26__spirv_CompositeConstructf(float 0.000000e+00)
  %last = load target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0), ptr %held, align 8
  %product = call spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z34__spirv_CooperativeMatrixMulAddKHR(target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0) %last, target("spirv.CooperativeMatrixKHR", half, 3, 16, 16, 1) %bm, target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) %zero, i32 0)
  %crow = mul i64 %m0, %n
  %cbase = getelementptr inbounds float, ptr addrspace(1) %c, i64 %n0
  %cp = getelementptr inbounds float, ptr addrspace(1) %cbase, i64 %crow
  %cg = addrspacecast ptr addrspace(1) %cp to ptr addrspace(4)
  call spir_func void @_Z33__spirv_CooperativeMatrixStoreKHRPU3AS4f(ptr addrspace(4) %cg, target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) %product, i32 0, i64 %n, i32 0)
  ret void
}

declare spir_func target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS4Dhili(ptr addrspace(4), i32, i64, i32)
declare spir_func target("spirv.CooperativeMatrixKHR", half, 3, 16, 16, 1) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS4Dhili_1(ptr addrspace(4), i32, i64, i32)
declare spir_func i64 @_Z34__spirv_CooperativeMatrixLengthKHR(target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0))
declare spir_func <2 x i32> @_Z39__spirv_JointMatrixGetElementCoordINTEL(target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0), i64)
declare spir_func ptr addrspace(4) @_Z19__spirv_AccessChainPU3AS4m(ptr addrspace(4), i64)
declare spir_func i32 @_Z18__spirv_AtomicIAddPU3AS1iiii(ptr addrspace(1), i32, i32, i32)
declare spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z26__spirv_CompositeConstructf(float)
declare spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z34__spirv_CooperativeMatrixMulAddKHR(target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0), target("spirv.CooperativeMatrixKHR", half, 3, 16, 16, 1), target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2), i32)
declare spir_func void @_Z33__spirv_CooperativeMatrixStoreKHRPU3AS4f(ptr addrspace(4), target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2), i32, i64, i32)

!0 = !{i32 16}
