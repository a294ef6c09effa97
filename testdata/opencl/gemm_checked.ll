; C = A x B of any sizes: f16 A and B, f32 C. Tiles may hang over every edge: loads beyond it give 0, stores drop it. A
; subgroup whose tile begins below the last row has nothing to do and returns early; the loop has two ways out.
target datalayout = "e-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-n8:16:32:64-G1"
target triple = "spir64-unknown-unknown"

@__spirv_BuiltInGlobalInvocationId = external addrspace(7) constant <3 x i64>, align 32
@__spirv_BuiltInLocalInvocationId = external addrspace(7) constant <3 x i64>, align 32

define spir_kernel void @gemm(ptr addrspace(1) align 2 %a, ptr addrspace(1) align 2 %b, ptr addrspace(1) align 4 %c, i32 %m, i32 %n, i32 %k) !intel_reqd_sub_group_size !0 {
entry:
  %gid = load <3 x i64>, ptr addrspace(7) @__spirv_BuiltInGlobalInvocationId, align 32
  %gx = extractelement <3 x i64> %gid, i64 0
  %gy = extractelement <3 x i64> %gid, i64 1
  %lid = load <3 x i64>, ptr addrspace(7) @__spirv_BuiltInLocalInvocationId, align 32
  %lx = extractelement <3 x i64> %lid, i64 0
  %x0 = sub i64 %gx, %lx
  %y0 = shl i64 %gy, 3
  %n0 = trunc i64 %x0 to i32
  %m0 = trunc i64 %y0 to i32
  %outside = icmp sge i32 %m0, %m
  br i1 %outside, label %leave, label %start

start:
  %ag = addrspacecast ptr addrspace(1) %a to ptr addrspace(4)
  %bg = addrspacecast ptr addrspace(1) %b to ptr addrspace(4)
  %cg = addrspacecast ptr addrspace(1) %c to ptr addrspace(4)
  %ka = zext i32 %k to i64
  %nb = zext i32 %n to i64
  %zero = call spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z26__spirv_CompositeConstructf(float 0.000000e+00)
  br label %loop

loop:
  %kk = phi i32 [ 0, %start ], [ %next, %again ]
  %acc = phi target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) [ %zero, %start ], [ %sum, %again ]
  %none = icmp sge i32 %kk, %k
  br i1 %none, label %done, label %body

body:
  %am = call spir_func target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0) @_Z41__spirv_CooperativeMatrixLoadCheckedINTELPU3AS4Dhiiiiili_1(ptr addrspace(4) %ag, i32 %m0, i32 %kk, i32 0, i32 %m, i32 %k, i64 %ka, i32 0)
  %bm = call spir_func target("spirv.CooperativeMatrixKHR", half, 3, 16, 16, 1) @_Z41__spirv_CooperativeMatrixLoadCheckedINTELPU3AS4Dhiiiiili_2(ptr addrspace(4) %bg, i32 %kk, i32 %n0, i32 0, i32 %k, i32 %n, i64 %nb, i32 0)
  %sum = call spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z34__spirv_CooperativeMatrixMulAddKHR(target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0) %am, target("spirv.CooperativeMatrixKHR", half, 3, 16, 16, 1) %bm, target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) %acc, i32 0)
  %next = add nsw i32 %kk, 16
  %last = icmp sge i32 %next, %k
  br i1 %last, label %done, label %again

again:
  br label %loop

done:
  %result = phi target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) [ %acc, %loop ], [ %sum, %body ]
  call spir_func void @_Z42__spirv_CooperativeMatrixStoreCheckedINTELPU3AS4fii(ptr addrspace(4) %cg, i32 %m0, i32 %n0, target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) %result, i32 0, i32 %m, i32 %n, i64 %nb, i32 0)
  ret void

leave:
  ret void
}

declare spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z26__spirv_CompositeConstructf(float)
declare spir_func target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0) @_Z41__spirv_CooperativeMatrixLoadCheckedINTELPU3AS4Dhiiiiili_1(ptr addrspace(4), i32, i32, i32, i32, i32, i64, i32)
declare spir_func target("spirv.CooperativeMatrixKHR", half, 3, 16, 16, 1) @_Z41__spirv_CooperativeMatrixLoadCheckedINTELPU3AS4Dhiiiiili_2(ptr addrspace(4), i32, i32, i32, i32, i32, i64, i32)
declare spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z34__spirv_CooperativeMatrixMulAddKHR(target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0), target("spirv.CooperativeMatrixKHR", half, 3, 16, 16, 1), target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2), i32)
declare spir_func void @_Z42__spirv_CooperativeMatrixStoreCheckedINTELPU3AS4fii(ptr addrspace(4), i32, i32, target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2), i32, i32, i32, i64, i32)

!0 = !{i32 16}
