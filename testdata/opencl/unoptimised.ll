; C = alpha * (A x B) as it comes from a compiler that does not optimise: the kernel's object, its parts and every value are in variables, pointers to them
; are kept in others, copied as bytes and handed to functions behind Generic pointers; an array of matrices is walked through by a pointer that does nothing.
target datalayout = "e-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-n8:16:32:64-G1"
target triple = "spir64-unknown-unknown"

%struct.joint_c = type { target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) }
%struct.joint_a = type { target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0) }
%struct.sizes = type { i64, i64 }
%struct.functor = type { ptr addrspace(4), ptr addrspace(4), ptr addrspace(4), float, %struct.sizes }
%struct.item = type { [2 x i64], [2 x i64] }

@__spirv_BuiltInGlobalInvocationId = external addrspace(7) constant <3 x i64>, align 32
@__spirv_BuiltInLocalInvocationId = external addrspace(7) constant <3 x i64>, align 32

define internal spir_func void @item(ptr addrspace(4) %result) noinline {
entry:
  %result.at = alloca ptr addrspace(4), align 8
  %made = alloca %struct.item, align 8
  store ptr addrspace(4) %result, ptr %result.at, align 8
  %gid = load <3 x i64>, ptr addrspace(7) @__spirv_BuiltInGlobalInvocationId, align 32
  %gx = extractelement <3 x i64> %gid, i64 0
  %gy = extractelement <3 x i64> %gid, i64 1
  %lid = load <3 x i64>, ptr addrspace(7) @__spirv_BuiltInLocalInvocationId, align 32
  %lx = extractelement <3 x i64> %lid, i64 0
  %made.g = addrspacecast ptr %made to ptr addrspace(4)
  %ids = getelementptr inbounds %struct.item, ptr addrspace(4) %made.g, i32 0, i32 0
  %id0 = getelementptr inbounds [2 x i64], ptr addrspace(4) %ids, i64 0, i64 0
  store i64 %gx, ptr addrspace(4) %id0, align 8
  %id1 = getelementptr inbounds [2 x i64], ptr addrspace(4) %ids, i64 0, i64 1
  store i64 %gy, ptr addrspace(4) %id1, align 8
  %locals = getelementptr inbounds %struct.item, ptr addrspace(4) %made.g, i32 0, i32 1
  %local0 = getelementptr inbounds i64, ptr addrspace(4) %locals, i64 0
  store i64 %lx, ptr addrspace(4) %local0, align 8
  %to = load ptr addrspace(4), ptr %result.at, align 8
  call void @llvm.memcpy.p4.p4.i64(ptr addrspace(4) align 8 %to, ptr addrspace(4) align 8 %made.g, i64 24, i1 false)
  ret void
}

define internal spir_func i64 @column(ptr addrspace(4) %item) noinline {
entry:
  %item.at = alloca ptr addrspace(4), align 8
  %value = alloca i64, align 8
  store ptr addrspace(4) %item, ptr %item.at, align 8
  %it = load ptr addrspace(4), ptr %item.at, align 8
  %global = getelementptr inbounds %struct.item, ptr addrspace(4) %it, i32 0, i32 0, i64 0
  %local = getelementptr inbounds %struct.item, ptr addrspace(4) %it, i32 0, i32 1, i64 0
  %g = load i64, ptr addrspace(4) %global, align 8
  %l = load i64, ptr addrspace(4) %local, align 8
  %n0 = sub i64 %g, %l
  store i64 %n0, ptr %value, align 8
  %out = load i64, ptr %value, align 8
  ret i64 %out
}

define internal spir_func void @scale(ptr addrspace(4) %matrix, ptr addrspace(4) %alpha) noinline {
entry:
  %matrix.at = alloca ptr addrspace(4), align 8
  %alpha.at = alloca ptr addrspace(4), align 8
  %i = alloca i32, align 4
  %x = alloca float, align 4
  store ptr addrspace(4) %matrix, ptr %matrix.at, align 8
  store ptr addrspace(4) %alpha, ptr %alpha.at, align 8
  store i32 0, ptr %i, align 4
  br label %loop

loop:
  %now = load i32, ptr %i, align 4
  %now64 = sext i32 %now to i64
  %m = load ptr addrspace(4), ptr %matrix.at, align 8
  %held = getelementptr inbounds %struct.joint_c, ptr addrspace(4) %m, i32 0, i32 0
  %value = load target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2), ptr addrspace(4) %held, align 8
  %len = call spir_func i64 @_Z34__spirv_CooperativeMatrixLengthKHR(target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) %value)
  %more = icmp ult i64 %now64, %len
  br i1 %more, label %body, label %done

body:
  %e = call spir_func ptr addrspace(4) @_Z19__spirv_AccessChainPU3AS4m(ptr addrspace(4) %held, i64 %now64)
  %old = load float, ptr addrspace(4) %e, align 4
  store float %old, ptr %x, align 4
  %factor.at = load ptr addrspace(4), ptr %alpha.at, align 8
  %factor = load float, ptr addrspace(4) %factor.at, align 4
  %copy = load float, ptr %x, align 4
  %product = fmul float %copy, %factor
  %e2 = call spir_func ptr addrspace(4) @_Z19__spirv_AccessChainPU3AS4m(ptr addrspace(4) %held, i64 %now64)
  store float %product, ptr addrspace(4) %e2, align 4
  %next = add nsw i32 %now, 1
  store i32 %next, ptr %i, align 4
  br label %loop

done:
  ret void
}

define internal spir_func void @run(ptr addrspace(4) %self, ptr byval(%struct.item) align 8 %item) noinline {
entry:
  %self.at = alloca ptr addrspace(4), align 8
  %row = alloca i64, align 8
  %k = alloca i64, align 8
  %c = alloca [2 x target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2)], align 8
  %a = alloca target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0), align 8
  %a.ref = alloca ptr addrspace(4), align 8
  store ptr addrspace(4) %self, ptr %self.at, align 8
  %this = load ptr addrspace(4), ptr %self.at, align 8
  %item.g = addrspacecast ptr %item to ptr addrspace(4)
  %n0 = call spir_func i64 @column(ptr addrspace(4) %item.g)
  %gy.at = getelementptr inbounds %struct.item, ptr addrspace(4) %item.g, i32 0, i32 0, i64 1
  %gy = load i64, ptr addrspace(4) %gy.at, align 8
  %m0 = shl i64 %gy, 3
  store i64 %m0, ptr %row, align 8
  %c.g = addrspacecast ptr %c to ptr addrspace(4)
  %begin = getelementptr inbounds [2 x %struct.joint_c], ptr addrspace(4) %c.g, i32 0, i32 0
  %end = getelementptr inbounds %struct.joint_c, ptr addrspace(4) %begin, i64 2
  br label %made

made:
  %at = phi ptr addrspace(4) [ %begin, %entry ], [ %at.next, %made ]
  %at.next = getelementptr inbounds %struct.joint_c, ptr addrspace(4) %at, i64 1
  %all = icmp eq ptr addrspace(4) %at.next, %end
  br i1 %all, label %start, label %made

start:
  %first = getelementptr inbounds [2 x %struct.joint_c], ptr addrspace(4) %c.g, i64 0, i64 1
  %first.held = getelementptr inbounds %struct.joint_c, ptr addrspace(4) %first, i32 0, i32 0
  %zero = call spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z26__spirv_CompositeConstructf(float 0.000000e+00)
  store target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) %zero, ptr addrspace(4) %first.held, align 8
  %a.g = addrspacecast ptr %a to ptr addrspace(4)
  store ptr addrspace(4) %a.g, ptr %a.ref, align 8
  store i64 0, ptr %k, align 8
  br label %loop

loop:
  %kk = load i64, ptr %k, align 8
  %depth.at = getelementptr inbounds %struct.functor, ptr addrspace(4) %this, i32 0, i32 4, i32 1
  %depth = load i64, ptr addrspace(4) %depth.at, align 8
  %width.at = getelementptr inbounds %struct.functor, ptr addrspace(4) %this, i32 0, i32 4, i32 0
  %width = load i64, ptr addrspace(4) %width.at, align 8
  %more = icmp ult i64 %kk, %depth
  br i1 %more, label %body, label %done

body:
  %pa.at = getelementptr inbounds %struct.functor, ptr addrspace(4) %this, i32 0, i32 0
  %pa = load ptr addrspace(4), ptr addrspace(4) %pa.at, align 8
  %r = load i64, ptr %row, align 8
  %line = mul i64 %r, %depth
  %pa1 = getelementptr inbounds half, ptr addrspace(4) %pa, i64 %line
  %pa2 = getelementptr inbounds half, ptr addrspace(4) %pa1, i64 %kk
  %am = call spir_func target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS4Dhili(ptr addrspace(4) %pa2, i32 0, i64 %depth, i32 0)
  %a.to = load ptr addrspace(4), ptr %a.ref, align 8
  %a.held = getelementptr inbounds %struct.joint_a, ptr addrspace(4) %a.to, i32 0, i32 0
  store target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0) %am, ptr addrspace(4) %a.held, align 8
  %pb.at = getelementptr inbounds %struct.functor, ptr addrspace(4) %this, i32 0, i32 1
  %pb = load ptr addrspace(4), ptr addrspace(4) %pb.at, align 8
  %lineb = mul i64 %kk, %width
  %pb1 = getelementptr inbounds half, ptr addrspace(4) %pb, i64 %lineb
  %pb2 = getelementptr inbounds half, ptr addrspace(4) %pb1, i64 %n0
  %bm = call spir_func target("spirv.CooperativeMatrixKHR", half, 3, 16, 16, 1) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS4Dhili_1(ptr addrspace(4) %pb2, i32 0, i64 %width, i32 0)
  %a.again = load target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0), ptr addrspace(4) %a.held, align 8
  %c.old = load target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2), ptr addrspace(4) %first.held, align 8
  %c.new = call spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z34__spirv_CooperativeMatrixMulAddKHR(target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0) %a.again, target("spirv.CooperativeMatrixKHR", half, 3, 16, 16, 1) %bm, target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) %c.old, i32 0)
  store target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) %c.new, ptr addrspace(4) %first.held, align 8
  %k.next = add i64 %kk, 16
  store i64 %k.next, ptr %k, align 8
  br label %loop

done:
  %alpha = getelementptr inbounds %struct.functor, ptr addrspace(4) %this, i32 0, i32 3
  call spir_func void @scale(ptr addrspace(4) %first, ptr addrspace(4) %alpha)
  %pc.at = getelementptr inbounds %struct.functor, ptr addrspace(4) %this, i32 0, i32 2
  %pc = load ptr addrspace(4), ptr addrspace(4) %pc.at, align 8
  %rc = load i64, ptr %row, align 8
  %linec = mul i64 %rc, %width
  %pc1 = getelementptr inbounds float, ptr addrspace(4) %pc, i64 %linec
  %pc2 = getelementptr inbounds float, ptr addrspace(4) %pc1, i64 %n0
  %out = load target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2), ptr addrspace(4) %first.held, align 8
  call spir_func void @_Z33__spirv_CooperativeMatrixStoreKHRPU3AS4f(ptr addrspace(4) %pc2, target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) %out, i32 0, i64 %width, i32 0)
  ret void
}

define spir_kernel void @unoptimised(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c, ptr byval(%struct.sizes) align 8 %sizes, float %alpha) !intel_reqd_sub_group_size !0 {
entry:
  %alpha.at = alloca float, align 4
  %self = alloca %struct.functor, align 8
  %item = alloca %struct.item, align 8
  %copy = alloca %struct.item, align 8
  store float %alpha, ptr %alpha.at, align 4
  %self.g = addrspacecast ptr %self to ptr addrspace(4)
  %a.to = getelementptr inbounds %struct.functor, ptr addrspace(4) %self.g, i32 0, i32 0
  %a.g = addrspacecast ptr addrspace(1) %a to ptr addrspace(4)
  store ptr addrspace(4) %a.g, ptr addrspace(4) %a.to, align 8
  %b.to = getelementptr inbounds %struct.functor, ptr addrspace(4) %self.g, i32 0, i32 1
  %b.g = addrspacecast ptr addrspace(1) %b to ptr addrspace(4)
  store ptr addrspace(4) %b.g, ptr addrspace(4) %b.to, align 8
  %c.to = getelementptr inbounds %struct.functor, ptr addrspace(4) %self.g, i32 0, i32 2
  %c.g = addrspacecast ptr addrspace(1) %c to ptr addrspace(4)
  store ptr addrspace(4) %c.g, ptr addrspace(4) %c.to, align 8
  %alpha.to = getelementptr inbounds %struct.functor, ptr addrspace(4) %self.g, i32 0, i32 3
  %factor = load float, ptr %alpha.at, align 4
  store float %factor, ptr addrspace(4) %alpha.to, align 8
  %sizes.to = getelementptr inbounds %struct.functor, ptr addrspace(4) %self.g, i32 0, i32 4
  %sizes.g = addrspacecast ptr %sizes to ptr addrspace(4)
  call void @llvm.memcpy.p4.p4.i64(ptr addrspace(4) align 8 %sizes.to, ptr addrspace(4) align 8 %sizes.g, i64 16, i1 false)
  %item.g = addrspacecast ptr %item to ptr addrspace(4)
  call spir_func void @item(ptr addrspace(4) %item.g)
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %copy, ptr align 8 %item, i64 32, i1 false)
  call spir_func void @run(ptr addrspace(4) %self.g, ptr byval(%struct.item) align 8 %copy)
  ret void
}

declare void @llvm.memcpy.p4.p4.i64(ptr addrspace(4), ptr addrspace(4), i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z26__spirv_CompositeConstructf(float)
declare spir_func target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS4Dhili(ptr addrspace(4), i32, i64, i32)
declare spir_func target("spirv.CooperativeMatrixKHR", half, 3, 16, 16, 1) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS4Dhili_1(ptr addrspace(4), i32, i64, i32)
declare spir_func i64 @_Z34__spirv_CooperativeMatrixLengthKHR(target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2))
declare spir_func ptr addrspace(4) @_Z19__spirv_AccessChainPU3AS4m(ptr addrspace(4), i64)
declare spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z34__spirv_CooperativeMatrixMulAddKHR(target("spirv.CooperativeMatrixKHR", half, 3, 8, 16, 0), target("spirv.CooperativeMatrixKHR", half, 3, 16, 16, 1), target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2), i32)
declare spir_func void @_Z33__spirv_CooperativeMatrixStoreKHRPU3AS4f(ptr addrspace(4), target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2), i32, i64, i32)

!0 = !{i32 16}
