; C = A x B through workgroup memory: f16 A and B, f32 C. A workgroup of 4 subgroups of 16 makes a tile of 16x32, each
; subgroup a quarter; all of them copy a slice of A and B first, and wait. The slice of B lies in an array of bytes.
target datalayout = "e-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-n8:16:32:64-G1"
target triple = "spir64-unknown-unknown"

@slice.a = internal addrspace(3) global [256 x half] undef, align 16
@slice.b = internal addrspace(3) global [1024 x i8] undef, align 16
@__spirv_BuiltInWorkgroupId = external addrspace(7) constant <3 x i64>, align 32
@__spirv_BuiltInLocalInvocationId = external addrspace(7) constant <3 x i64>, align 32

define spir_kernel void @gemm(ptr addrspace(1) align 2 %a, ptr addrspace(1) align 2 %b, ptr addrspace(1) align 4 %c, i64 %n, i64 %k) !intel_reqd_sub_group_size !0 {
entry:
  %wg = load <3 x i64>, ptr addrspace(7) @__spirv_BuiltInWorkgroupId, align 32
  %wx = extractelement <3 x i64> %wg, i64 0
  %wy = extractelement <3 x i64> %wg, i64 1
  %lid = load <3 x i64>, ptr addrspace(7) @__spirv_BuiltInLocalInvocationId, align 32
  %lx = extractelement <3 x i64> %lid, i64 0
  %n0 = shl i64 %wx, 5
  %m0 = shl i64 %wy, 4
  %sub = lshr i64 %lx, 4
  %sm = lshr i64 %sub, 1
  %sn = and i64 %sub, 1
  %smrow = shl i64 %sm, 3
  %sncol = shl i64 %sn, 4
  %zero = call spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z26__spirv_CompositeConstructf(float 0.000000e+00)
  br label %loop

loop:
  %kk = phi i64 [ 0, %entry ], [ %next, %multiply ]
  %acc = phi target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) [ %zero, %entry ], [ %sum, %multiply ]
  %more = icmp ult i64 %kk, %k
  br i1 %more, label %copy.a, label %done

copy.a:
  %i = phi i64 [ %lx, %loop ], [ %i.next, %copy.a ]
  %ir = lshr i64 %i, 4
  %ic = and i64 %i, 15
  %arow = add i64 %m0, %ir
  %arow.k = mul i64 %arow, %k
  %acol = add i64 %kk, %ic
  %aoff = add i64 %arow.k, %acol
  %ap = getelementptr inbounds half, ptr addrspace(1) %a, i64 %aoff
  %av = load half, ptr addrspace(1) %ap, align 2
  %as = getelementptr inbounds [256 x half], ptr addrspace(3) @slice.a, i64 0, i64 %i
  store half %av, ptr addrspace(3) %as, align 2
  %i.next = add nuw nsw i64 %i, 64
  %i.more = icmp ult i64 %i.next, 256
  br i1 %i.more, label %copy.a, label %copy.b

copy.b:
  %j = phi i64 [ %lx, %copy.a ], [ %j.next, %copy.b ]
  %jr = lshr i64 %j, 5
  %jc = and i64 %j, 31
  %brow = add i64 %kk, %jr
  %brow.n = mul i64 %brow, %n
  %bcol = add i64 %n0, %jc
  %boff = add i64 %brow.n, %bcol
  %bp = getelementptr inbounds half, ptr addrspace(1) %b, i64 %boff
  %bv = load half, ptr addrspace(1) %bp, align 2
  %bs = getelementptr inbounds half, ptr addrspace(3) @slice.b, i64 %j
  store half %bv, ptr addrspace(3) %bs, align 2
  %j.next = add nuw nsw i64 %j, 64
  %j.more = icmp ult i64 %j.next, 512
  br i1 %j.more, label %copy.b, label %multiply

multiply:
  call spir_func void @_Z22__spirv_ControlBarrierjjj(i32 2, i32 2, i32 272)
  %aslot = shl i64 %smrow, 4
  %at = getelementptr inbounds [256 x half], ptr addrspace(3) @slice.a, i64 0, i64 %aslot
  %am = call spir_func target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS3Dhili(ptr addrspace(3) %at, i32 0, i64 16, i32 0)
  %bt = getelementptr inbounds half, ptr addrspace(3) @slice.b, i64 %sncol
  %btg = addrspacecast ptr addrspace(3) %bt to ptr addrspace(4)
  %bm = call spir_func target("spirv.CooperativeMatrixKHR", half, 3, 16, 16, 1) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS4Dhili_1(ptr addrspace(4) %btg, i32 0, i64 32, i32 0)
  %sum = call spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z34__spirv_CooperativeMatrixMulAddKHR(target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0) %am, target("spirv.CooperativeMatrixKHR", half, 3, 16, 16, 1) %bm, target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) %acc, i32 0)
  call spir_func void @_Z22__spirv_ControlBarrierjjj(i32 2, i32 2, i32 272)
  %next = add nuw nsw i64 %kk, 16
  br label %loop

done:
  %crow = add i64 %m0, %smrow
  %crow.n = mul i64 %crow, %n
  %ccol = add i64 %n0, %sncol
  %cbase = getelementptr inbounds float, ptr addrspace(1) %c, i64 %ccol
  %cp = getelementptr inbounds float, ptr addrspace(1) %cbase, i64 %crow.n
  %cg = addrspacecast ptr addrspace(1) %cp to ptr addrspace(4)
  call spir_func void @_Z33__spirv_CooperativeMatrixStoreKHRPU3AS4f(ptr addrspace(4) %cg, target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) %acc, i32 0, i64 %n, i32 0)
  ret void
}

declare spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z26__spirv_CompositeConstructf(float)
declare spir_func void @_Z22__spirv_ControlBarrierjjj(i32, i32, i32)
declare spir_func target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS3Dhili(ptr addrspace(3), i32, i64, i32)
declare spir_func target("spirv.CooperativeMatrixKHR", half, 3, 16, 16, 1) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS4Dhili_1(ptr addrspace(4), i32, i64, i32)
declare spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z34__spirv_CooperativeMatrixMulAddKHR(target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0), target("spirv.CooperativeMatrixKHR", half, 3, 16, 16, 1), target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2), i32)
declare spir_func void @_Z33__spirv_CooperativeMatrixStoreKHRPU3AS4f(ptr addrspace(4), target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2), i32, i64, i32)

!0 = !{i32 16}
