; C = A x B: f32 A and B whose elements are rounded to TF32 first, one after the other, through Generic pointers to the
; elements of matrices that lie in structs in private memory. The products ask for nothing: no producer says TF32 there.
target datalayout = "e-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-n8:16:32:64-G1"
target triple = "spir64-unknown-unknown"

%struct.joint_a = type { target("spirv.CooperativeMatrixKHR", float, 3, 8, 8, 0) }
%struct.joint_b = type { target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 1) }

@__spirv_BuiltInGlobalInvocationId = external addrspace(7) constant <3 x i64>, align 32
@__spirv_BuiltInLocalInvocationId = external addrspace(7) constant <3 x i64>, align 32

define spir_kernel void @gemm(ptr addrspace(1) align 4 %a, ptr addrspace(1) align 4 %b, ptr addrspace(1) align 4 %c, i64 %n, i64 %k) !intel_reqd_sub_group_size !0 {
entry:
  %aj = alloca %struct.joint_a, align 8
  %bj = alloca %struct.joint_b, align 8
  %gid = load <3 x i64>, ptr addrspace(7) @__spirv_BuiltInGlobalInvocationId, align 32
  %gx = extractelement <3 x i64> %gid, i64 0
  %gy = extractelement <3 x i64> %gid, i64 1
  %lid = load <3 x i64>, ptr addrspace(7) @__spirv_BuiltInLocalInvocationId, align 32
  %lx = extractelement <3 x i64> %lid, i64 0
  %n0 = sub i64 %gx, %lx
  %m0 = shl i64 %gy, 3
  %arow = mul i64 %m0, %k
  %abase = getelementptr inbounds float, ptr addrspace(1) %a, i64 %arow
  %bbase = getelementptr inbounds float, ptr addrspace(1) %b, i64 %n0
  %zero = call spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z26__spirv_CompositeConstructf(float 0.000000e+00)
  %ar = addrspacecast ptr %aj to ptr addrspace(4)
  %ar.matrix = getelementptr inbounds %struct.joint_a, ptr addrspace(4) %ar, i64 0, i32 0
  %br = addrspacecast ptr %bj to ptr addrspace(4)
  %br.matrix = getelementptr inbounds %struct.joint_b, ptr addrspace(4) %br, i64 0, i32 0
  br label %loop

loop:
  %kk = phi i64 [ 0, %entry ], [ %next, %multiply ]
  %acc = phi target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) [ %zero, %entry ], [ %sum, %multiply ]
  %more = icmp ult i64 %kk, %k
  br i1 %more, label %body, label %done

body:
  call void @llvm.lifetime.start.p0(ptr %aj)
  call void @llvm.lifetime.start.p0(ptr %bj)
  %ap = getelementptr inbounds float, ptr addrspace(1) %abase, i64 %kk
  %ag = addrspacecast ptr addrspace(1) %ap to ptr addrspace(4)
  %am = call spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 8, 0) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS4fili_1(ptr addrspace(4) %ag, i32 0, i64 %k, i32 0)
  store target("spirv.CooperativeMatrixKHR", float, 3, 8, 8, 0) %am, ptr %aj, align 8
  %brow = mul i64 %kk, %n
  %bp = getelementptr inbounds float, ptr addrspace(1) %bbase, i64 %brow
  %bg = addrspacecast ptr addrspace(1) %bp to ptr addrspace(4)
  %bm = call spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 1) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS4fili_2(ptr addrspace(4) %bg, i32 0, i64 %n, i32 0)
  store target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 1) %bm, ptr %bj, align 8
  br label %round.a

round.a:
  %i = phi i64 [ 0, %body ], [ %i.next, %round.a.body ]
  %am.now = load target("spirv.CooperativeMatrixKHR", float, 3, 8, 8, 0), ptr %aj, align 8
  %alen = call spir_func i64 @_Z34__spirv_CooperativeMatrixLengthKHR_1(target("spirv.CooperativeMatrixKHR", float, 3, 8, 8, 0) %am.now)
  %a.more = icmp ult i64 %i, %alen
  br i1 %a.more, label %round.a.body, label %round.b

round.a.body:
  %ae = call spir_func ptr addrspace(4) @_Z19__spirv_AccessChainPU3AS4m(ptr addrspace(4) %ar.matrix, i64 %i)
  %av = load float, ptr addrspace(4) %ae, align 4
  %at = call spir_func float @_Z25__spirv_RoundFToTF32INTELf(float %av)
  %ae2 = call spir_func ptr addrspace(4) @_Z19__spirv_AccessChainPU3AS4m(ptr addrspace(4) %ar.matrix, i64 %i)
  store float %at, ptr addrspace(4) %ae2, align 4
  %i.next = add nuw nsw i64 %i, 1
  br label %round.a

round.b:
  %j = phi i64 [ 0, %round.a ], [ %j.next, %round.b.body ]
  %bm.now = load target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 1), ptr %bj, align 8
  %blen = call spir_func i64 @_Z34__spirv_CooperativeMatrixLengthKHR_2(target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 1) %bm.now)
  %b.more = icmp ult i64 %j, %blen
  br i1 %b.more, label %round.b.body, label %multiply

round.b.body:
  %be = call spir_func ptr addrspace(4) @_Z19__spirv_AccessChainPU3AS4m_2(ptr addrspace(4) %br.matrix, i64 %j)
  %bv = load float, ptr addrspace(4) %be, align 4
  %bt = call spir_func float @_Z25__spirv_RoundFToTF32INTELf(float %bv)
  store float %bt, ptr addrspace(4) %be, align 4
  %j.next = add nuw nsw i64 %j, 1
  br label %round.b

multiply:
  %ax = load target("spirv.CooperativeMatrixKHR", float, 3, 8, 8, 0), ptr %aj, align 8
  %bx = load target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 1), ptr %bj, align 8
  %sum = call spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z34__spirv_CooperativeMatrixMulAddKHR(target("spirv.CooperativeMatrixKHR", float, 3, 8, 8, 0) %ax, target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 1) %bx, target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) %acc, i32 0)
  call void @llvm.lifetime.end.p0(ptr %bj)
  call void @llvm.lifetime.end.p0(ptr %aj)
  %next = add nuw nsw i64 %kk, 8
  br label %loop

done:
  %crow = mul i64 %m0, %n
  %cbase = getelementptr inbounds float, ptr addrspace(1) %c, i64 %n0
  %cp = getelementptr inbounds float, ptr addrspace(1) %cbase, i64 %crow
  %cg = addrspacecast ptr addrspace(1) %cp to ptr addrspace(4)
  call spir_func void @_Z33__spirv_CooperativeMatrixStoreKHRPU3AS4f(ptr addrspace(4) %cg, target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) %acc, i32 0, i64 %n, i32 0)
  ret void
}

declare void @llvm.lifetime.start.p0(ptr)
declare void @llvm.lifetime.end.p0(ptr)

declare spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z26__spirv_CompositeConstructf(float)
declare spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 8, 0) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS4fili_1(ptr addrspace(4), i32, i64, i32)
declare spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 1) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS4fili_2(ptr addrspace(4), i32, i64, i32)
declare spir_func i64 @_Z34__spirv_CooperativeMatrixLengthKHR_1(target("spirv.CooperativeMatrixKHR", float, 3, 8, 8, 0))
declare spir_func ptr addrspace(4) @_Z19__spirv_AccessChainPU3AS4m(ptr addrspace(4), i64)
declare spir_func ptr addrspace(4) @_Z19__spirv_AccessChainPU3AS4m_2(ptr addrspace(4), i64)
declare spir_func float @_Z25__spirv_RoundFToTF32INTELf(float)
declare spir_func i64 @_Z34__spirv_CooperativeMatrixLengthKHR_2(target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 1))
declare spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z34__spirv_CooperativeMatrixMulAddKHR(target("spirv.CooperativeMatrixKHR", float, 3, 8, 8, 0), target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 1), target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2), i32)
declare spir_func void @_Z33__spirv_CooperativeMatrixStoreKHRPU3AS4f(ptr addrspace(4), target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2), i32, i64, i32)

!0 = !{i32 16}
