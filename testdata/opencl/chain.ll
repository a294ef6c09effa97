; E = f16(A x B) x D: the accumulator of the first product becomes a factor of the second, element by element by its index; A and B come by
; way of workgroup memory that is declared as bytes, through a pointer that is kept in a struct.
target datalayout = "e-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-n8:16:32:64-G1"
target triple = "spir64-unknown-unknown"

%struct.joint_a = type { target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0) }
%struct.joint_c = type { target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) }
%struct.functor = type { ptr addrspace(3), i64 }

@__spirv_BuiltInGlobalInvocationId = external addrspace(7) constant <3 x i64>, align 32
@__spirv_BuiltInLocalInvocationId = external addrspace(7) constant <3 x i64>, align 32

define spir_kernel void @chain(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %d, ptr addrspace(1) %e, ptr addrspace(3) %room, i64 %n) !intel_reqd_sub_group_size !0 {
entry:
  %self = alloca %struct.functor, align 8
  %cj = alloca target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2), align 8
  %aj = alloca target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0), align 8
  %self.g = addrspacecast ptr %self to ptr addrspace(4)
  %self.room = getelementptr inbounds %struct.functor, ptr addrspace(4) %self.g, i32 0, i32 0
  store ptr addrspace(3) %room, ptr addrspace(4) %self.room, align 8
  %gid = load <3 x i64>, ptr addrspace(7) @__spirv_BuiltInGlobalInvocationId, align 32
  %gx = extractelement <3 x i64> %gid, i64 0
  %gy = extractelement <3 x i64> %gid, i64 1
  %lid = load <3 x i64>, ptr addrspace(7) @__spirv_BuiltInLocalInvocationId, align 32
  %lx = extractelement <3 x i64> %lid, i64 0
  %n0 = sub i64 %gx, %lx
  %m0 = shl i64 %gy, 3
  %a0 = shl i64 %m0, 4
  %bytes = load ptr addrspace(3), ptr addrspace(4) %self.room, align 8
  br label %fetch

fetch:
  %t = phi i64 [ 0, %entry ], [ %t.next, %fetch ]
  %step = shl i64 %t, 4
  %at = add i64 %step, %lx
  %apos = add i64 %a0, %at
  %ap = getelementptr inbounds half, ptr addrspace(1) %a, i64 %apos
  %av = load half, ptr addrspace(1) %ap, align 2
  %offset = shl i64 %at, 1
  %to = getelementptr inbounds i8, ptr addrspace(3) %bytes, i64 %offset
  store half %av, ptr addrspace(3) %to, align 2
  %t.next = add nuw nsw i64 %t, 1
  %again = icmp ult i64 %t.next, 8
  br i1 %again, label %fetch, label %first

first:
  call spir_func void @_Z22__spirv_ControlBarrierjjj(i32 2, i32 2, i32 272)
  %am = call spir_func target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS3cili(ptr addrspace(3) %bytes, i32 0, i64 16, i32 0)
  %bg = addrspacecast ptr addrspace(1) %b to ptr addrspace(4)
  %bm = call spir_func target("spirv.CooperativeMatrixKHR", half, 3, 16, 16, 1) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS4Dhili_1(ptr addrspace(4) %bg, i32 0, i64 16, i32 0)
  %zero = call spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z26__spirv_CompositeConstructf(float 0.000000e+00)
  %s = call spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z34__spirv_CooperativeMatrixMulAddKHR(target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0) %am, target("spirv.CooperativeMatrixKHR", half, 3, 16, 16, 1) %bm, target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) %zero, i32 0)
  %c.held = getelementptr inbounds %struct.joint_c, ptr %cj, i64 0, i32 0
  store target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) %s, ptr %c.held, align 8
  %a.held = getelementptr inbounds %struct.joint_a, ptr %aj, i64 0, i32 0
  %c.g = addrspacecast ptr %c.held to ptr addrspace(4)
  %a.g = addrspacecast ptr %a.held to ptr addrspace(4)
  br label %loop

loop:
  %i = phi i64 [ 0, %first ], [ %i.next, %body ]
  %now = load target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2), ptr %c.held, align 8
  %len = call spir_func i64 @_Z34__spirv_CooperativeMatrixLengthKHR(target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) %now)
  %more = icmp ult i64 %i, %len
  br i1 %more, label %body, label %second

body:
  %ce = call spir_func ptr addrspace(4) @_Z19__spirv_AccessChainPU3AS4m(ptr addrspace(4) %c.g, i64 %i)
  %v = load float, ptr addrspace(4) %ce, align 4
  %narrow = fptrunc float %v to half
  %ae = call spir_func ptr addrspace(4) @_Z19__spirv_AccessChainPU3AS4m(ptr addrspace(4) %a.g, i64 %i)
  store half %narrow, ptr addrspace(4) %ae, align 2
  %i.next = add nuw nsw i64 %i, 1
  br label %loop

second:
  %pm = load target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0), ptr %a.held, align 8
  %dp = getelementptr inbounds half, ptr addrspace(1) %d, i64 %n0
  %dg = addrspacecast ptr addrspace(1) %dp to ptr addrspace(4)
  %dm = call spir_func target("spirv.CooperativeMatrixKHR", half, 3, 16, 16, 1) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS4Dhili_1(ptr addrspace(4) %dg, i32 0, i64 %n, i32 0)
  %o = call spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z34__spirv_CooperativeMatrixMulAddKHR(target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0) %pm, target("spirv.CooperativeMatrixKHR", half, 3, 16, 16, 1) %dm, target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) %zero, i32 0)
  %erow = mul i64 %m0, %n
  %ebase = getelementptr inbounds float, ptr addrspace(1) %e, i64 %n0
  %ep = getelementptr inbounds float, ptr addrspace(1) %ebase, i64 %erow
  %eg = addrspacecast ptr addrspace(1) %ep to ptr addrspace(4)
  call spir_func void @_Z33__spirv_CooperativeMatrixStoreKHRPU3AS4f(ptr addrspace(4) %eg, target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) %o, i32 0, i64 %n, i32 0)
  ret void
}

declare spir_func void @_Z22__spirv_ControlBarrierjjj(i32, i32, i32)
declare spir_func target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS3cili(ptr addrspace(3), i32, i64, i32)
declare spir_func target("spirv.CooperativeMatrixKHR", half, 3, 16, 16, 1) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS4Dhili_1(ptr addrspace(4), i32, i64, i32)
declare spir_func i64 @_Z34__spirv_CooperativeMatrixLengthKHR(target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2))
declare spir_func ptr addrspace(4) @_Z19__spirv_AccessChainPU3AS4m(ptr addrspace(4), i64)
declare spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z26__spirv_CompositeConstructf(float)
declare spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z34__spirv_CooperativeMatrixMulAddKHR(target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0), target("spirv.CooperativeMatrixKHR", half, 3, 16, 16, 1), target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2), i32)
declare spir_func void @_Z33__spirv_CooperativeMatrixStoreKHRPU3AS4f(ptr addrspace(4), target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2), i32, i64, i32)

!0 = !{i32 16}
