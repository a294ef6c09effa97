; C[r][c] = alpha * C[r][c] + D[r][c] up to the diagonal of the whole matrix, minus infinity behind it: element by element,
; each asking where in its tile it is. The matrix lies in a struct in private memory, behind a Generic pointer.
target datalayout = "e-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-n8:16:32:64-G1"
target triple = "spir64-unknown-unknown"

%struct.joint_c = type { target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) }

@__spirv_BuiltInGlobalInvocationId = external addrspace(7) constant <3 x i64>, align 32
@__spirv_BuiltInLocalInvocationId = external addrspace(7) constant <3 x i64>, align 32

define spir_kernel void @elements(ptr addrspace(1) align 4 %c, ptr addrspace(1) align 4 %d, float %alpha, i64 %n) !intel_reqd_sub_group_size !0 {
entry:
  %cj = alloca %struct.joint_c, align 8
  %gid = load <3 x i64>, ptr addrspace(7) @__spirv_BuiltInGlobalInvocationId, align 32
  %gx = extractelement <3 x i64> %gid, i64 0
  %gy = extractelement <3 x i64> %gid, i64 1
  %lid = load <3 x i64>, ptr addrspace(7) @__spirv_BuiltInLocalInvocationId, align 32
  %lx = extractelement <3 x i64> %lid, i64 0
  %n0 = sub i64 %gx, %lx
  %m0 = shl i64 %gy, 3
  %crow = mul i64 %m0, %n
  %cbase = getelementptr inbounds float, ptr addrspace(1) %c, i64 %n0
  %cp = getelementptr inbounds float, ptr addrspace(1) %cbase, i64 %crow
  %cg = addrspacecast ptr addrspace(1) %cp to ptr addrspace(4)
  %old = call spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS4fili(ptr addrspace(4) %cg, i32 0, i64 %n, i32 0)
  store target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) %old, ptr %cj, align 8
  %ref = addrspacecast ptr %cj to ptr addrspace(4)
  %ref.matrix = getelementptr inbounds %struct.joint_c, ptr addrspace(4) %ref, i64 0, i32 0
  br label %loop

loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %put ]
  %now = load target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2), ptr %cj, align 8
  %len = call spir_func i64 @_Z34__spirv_CooperativeMatrixLengthKHR(target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) %now)
  %more = icmp ult i64 %i, %len
  br i1 %more, label %body, label %done

body:
  %at = trunc i64 %i to i32
  %place = call spir_func <2 x i32> @_Z39__spirv_JointMatrixGetElementCoordINTEL(target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) %now, i32 %at)
  %r = extractelement <2 x i32> %place, i32 0
  %q = extractelement <2 x i32> %place, i32 1
  %r64 = zext i32 %r to i64
  %q64 = zext i32 %q to i64
  %row = add i64 %m0, %r64
  %col = add i64 %n0, %q64
  %above = icmp ugt i64 %col, %row
  br i1 %above, label %put, label %below

below:
  %e = call spir_func ptr addrspace(4) @_Z19__spirv_AccessChainPU3AS4m(ptr addrspace(4) %ref.matrix, i64 %i)
  %v = load float, ptr addrspace(4) %e, align 4
  %drow = mul i64 %row, %n
  %doff = add i64 %drow, %col
  %dp = getelementptr inbounds float, ptr addrspace(1) %d, i64 %doff
  %dv = load float, ptr addrspace(1) %dp, align 4
  %f = call spir_func float @_Z15__spirv_ocl_fmafff(float %v, float %alpha, float %dv)
  br label %put

put:
  %w = phi float [ 0xFFF0000000000000, %body ], [ %f, %below ]
  %e2 = call spir_func ptr addrspace(4) @_Z19__spirv_AccessChainPU3AS4m(ptr addrspace(4) %ref.matrix, i64 %i)
  store float %w, ptr addrspace(4) %e2, align 4
  %i.next = add nuw nsw i64 %i, 1
  br label %loop

done:
  %new = load target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2), ptr %cj, align 8
  call spir_func void @_Z33__spirv_CooperativeMatrixStoreKHRPU3AS4f(ptr addrspace(4) %cg, target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) %new, i32 0, i64 %n, i32 0)
  ret void
}

declare spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS4fili(ptr addrspace(4), i32, i64, i32)
declare spir_func i64 @_Z34__spirv_CooperativeMatrixLengthKHR(target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2))
declare spir_func <2 x i32> @_Z39__spirv_JointMatrixGetElementCoordINTEL(target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2), i32)
declare spir_func ptr addrspace(4) @_Z19__spirv_AccessChainPU3AS4m(ptr addrspace(4), i64)
declare spir_func float @_Z15__spirv_ocl_fmafff(float, float, float)
declare spir_func void @_Z33__spirv_CooperativeMatrixStoreKHRPU3AS4f(ptr addrspace(4), target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2), i32, i64, i32)

!0 = !{i32 16}
