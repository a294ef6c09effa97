; C = bfloat16(f * (A x B + 16 * bias)) as it comes from compilers that do not optimise: matrices go through functions, a matrix is filled through a
; pointer to a struct, B is loaded by row and column of the whole matrix, elements go through the conversions of Intel's device library, and a
; loop is entered in two places (it counts f: 4 where n is a multiple of 32, else 5).
target datalayout = "e-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-n8:16:32:64-G1"
target triple = "spir64-unknown-unknown"

%struct.half = type { half }
%struct.joint_c = type { target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) }

@__spirv_BuiltInGlobalInvocationId = external addrspace(7) constant <3 x i64>, align 32
@__spirv_BuiltInLocalInvocationId = external addrspace(7) constant <3 x i64>, align 32

define internal spir_func target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0) @load_a(ptr addrspace(4) %p, i64 %stride) noinline {
  %m = call spir_func target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS4Dhili(ptr addrspace(4) %p, i32 0, i64 %stride, i32 0)
  ret target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0) %m
}

define internal spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @mad(target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0) %a, target("spirv.CooperativeMatrixKHR", half, 3, 16, 16, 1) %b, target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) %c) noinline {
  %d = call spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z34__spirv_CooperativeMatrixMulAddKHR(target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0) %a, target("spirv.CooperativeMatrixKHR", half, 3, 16, 16, 1) %b, target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) %c, i32 0)
  ret target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) %d
}

define spir_kernel void @gemm(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c, half %bias, i64 %n, i64 %k) !intel_reqd_sub_group_size !0 {
entry:
  %box = alloca %struct.half, align 2
  %cj = alloca %struct.joint_c, align 8
  %wide = alloca float, align 4
  %narrow = alloca i16, align 2
  %gid = load <3 x i64>, ptr addrspace(7) @__spirv_BuiltInGlobalInvocationId, align 32
  %gx = extractelement <3 x i64> %gid, i64 0
  %gy = extractelement <3 x i64> %gid, i64 1
  %lid = load <3 x i64>, ptr addrspace(7) @__spirv_BuiltInLocalInvocationId, align 32
  %lx = extractelement <3 x i64> %lid, i64 0
  %n0 = sub i64 %gx, %lx
  %m0 = shl i64 %gy, 3
  %arow = mul i64 %m0, %k
  %abase = getelementptr inbounds half, ptr addrspace(1) %a, i64 %arow
  %n0.word = trunc i64 %n0 to i32
  %member = getelementptr inbounds %struct.half, ptr %box, i32 0, i32 0
  store half %bias, ptr %member, align 2
  %biases = call spir_func target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0) @_Z26__spirv_CompositeConstruct(ptr byval(%struct.half) align 2 %box)
  %ones = call spir_func target("spirv.CooperativeMatrixKHR", half, 3, 16, 16, 1) @_Z26__spirv_CompositeConstructDh(half 1.0)
  %zero = call spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z26__spirv_CompositeConstructf(float 0.000000e+00)
  %first = call spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @mad(target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0) %biases, target("spirv.CooperativeMatrixKHR", half, 3, 16, 16, 1) %ones, target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) %zero)
  br label %loop

loop:
  %kk = phi i64 [ 0, %entry ], [ %next, %body ]
  %acc = phi target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) [ %first, %entry ], [ %sum, %body ]
  %more = icmp ult i64 %kk, %k
  br i1 %more, label %body, label %count

body:
  %ap = getelementptr inbounds half, ptr addrspace(1) %abase, i64 %kk
  %ag = addrspacecast ptr addrspace(1) %ap to ptr addrspace(4)
  %am = call spir_func target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0) @load_a(ptr addrspace(4) %ag, i64 %k)
  %kk.word = trunc i64 %kk to i32
  %bm = call spir_func target("spirv.CooperativeMatrixKHR", half, 3, 16, 16, 1) @_Z40__spirv_CooperativeMatrixLoadOffsetINTELPU3AS1Dhiiili(ptr addrspace(1) %b, i32 %kk.word, i32 %n0.word, i32 0, i64 %n, i32 0)
  %sum = call spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @mad(target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0) %am, target("spirv.CooperativeMatrixKHR", half, 3, 16, 16, 1) %bm, target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) %acc)
  %next = add nuw nsw i64 %kk, 16
  br label %loop

count:
  %rest = and i64 %n, 31
  %whole = icmp eq i64 %rest, 0
  br i1 %whole, label %one, label %two

one:
  %i.one = phi i32 [ 0, %count ], [ %i.b, %two ]
  %i.a = add i32 %i.one, 1
  br label %two

two:
  %i.two = phi i32 [ 0, %count ], [ %i.a, %one ]
  %i.b = add i32 %i.two, 1
  %again = icmp ult i32 %i.b, 4
  br i1 %again, label %one, label %round

round:
  %factor = uitofp i32 %i.b to float
  store target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) %acc, ptr %cj, align 8
  %ref = addrspacecast ptr %cj to ptr addrspace(4)
  %ref.matrix = getelementptr inbounds %struct.joint_c, ptr addrspace(4) %ref, i64 0, i32 0
  %wide.ref = addrspacecast ptr %wide to ptr addrspace(4)
  %narrow.ref = addrspacecast ptr %narrow to ptr addrspace(4)
  %len = call spir_func i64 @_Z34__spirv_CooperativeMatrixLengthKHR(target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) %acc)
  br label %each

each:
  %i = phi i64 [ 0, %round ], [ %i.next, %put ]
  %left = icmp ult i64 %i, %len
  br i1 %left, label %put, label %done

put:
  %e = call spir_func ptr addrspace(4) @_Z19__spirv_AccessChainPU3AS4m(ptr addrspace(4) %ref.matrix, i64 %i)
  %v = load float, ptr addrspace(4) %e, align 4
  %scaled = fmul float %v, %factor
  store float %scaled, ptr %wide, align 4
  %bits = call spir_func zeroext i16 @__devicelib_ConvertFToBF16INTEL(ptr addrspace(4) %wide.ref)
  store i16 %bits, ptr %narrow, align 2
  %back = call spir_func float @__devicelib_ConvertBF16ToFINTEL(ptr addrspace(4) %narrow.ref)
  store float %back, ptr addrspace(4) %e, align 4
  %i.next = add nuw nsw i64 %i, 1
  br label %each

done:
  %crow = mul i64 %m0, %n
  %cbase = getelementptr inbounds float, ptr addrspace(1) %c, i64 %n0
  %cp = getelementptr inbounds float, ptr addrspace(1) %cbase, i64 %crow
  %cg = addrspacecast ptr addrspace(1) %cp to ptr addrspace(4)
  %new = load target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2), ptr %cj, align 8
  call spir_func void @_Z33__spirv_CooperativeMatrixStoreKHRPU3AS4f(ptr addrspace(4) %cg, target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) %new, i32 0, i64 %n, i32 0)
  ret void
}

declare spir_func target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0) @_Z26__spirv_CompositeConstruct(ptr byval(%struct.half))
declare spir_func target("spirv.CooperativeMatrixKHR", half, 3, 16, 16, 1) @_Z26__spirv_CompositeConstructDh(half)
declare spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z26__spirv_CompositeConstructf(float)
declare spir_func target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS4Dhili(ptr addrspace(4), i32, i64, i32)
declare spir_func target("spirv.CooperativeMatrixKHR", half, 3, 16, 16, 1) @_Z40__spirv_CooperativeMatrixLoadOffsetINTELPU3AS1Dhiiili(ptr addrspace(1), i32, i32, i32, i64, i32)
declare spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z34__spirv_CooperativeMatrixMulAddKHR(target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0), target("spirv.CooperativeMatrixKHR", half, 3, 16, 16, 1), target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2), i32)
declare spir_func i64 @_Z34__spirv_CooperativeMatrixLengthKHR(target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2))
declare spir_func ptr addrspace(4) @_Z19__spirv_AccessChainPU3AS4m(ptr addrspace(4), i64)
declare spir_func zeroext i16 @__devicelib_ConvertFToBF16INTEL(ptr addrspace(4))
declare spir_func float @__devicelib_ConvertBF16ToFINTEL(ptr addrspace(4))
declare spir_func void @_Z33__spirv_CooperativeMatrixStoreKHRPU3AS4f(ptr addrspace(4), target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2), i32, i64, i32)

!0 = !{i32 16}
