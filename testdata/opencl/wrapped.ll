; C = max(alpha * C, 0) + beta, element by element: the variable is declared as the matrix, or as an array of two, and looked at as a struct
; around it, behind Generic pointers; the arguments come as a struct by value that is copied as bytes.
target datalayout = "e-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-n8:16:32:64-G1"
target triple = "spir64-unknown-unknown"

%struct.joint = type { target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) }
%struct.scales = type { i32, [2 x float], i16 }
%struct.functor = type { ptr addrspace(4), %struct.scales, i64 }

@__spirv_BuiltInGlobalInvocationId = external addrspace(7) constant <3 x i64>, align 32
@__spirv_BuiltInLocalInvocationId = external addrspace(7) constant <3 x i64>, align 32

define spir_kernel void @wrapped(ptr addrspace(1) align 4 %c, ptr byval(%struct.scales) align 4 %s, i64 %n) !intel_reqd_sub_group_size !0 {
entry:
  %self = alloca %struct.functor, align 8
  %pair = alloca [2 x target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2)], align 8
  %self.g = addrspacecast ptr %self to ptr addrspace(4)
  %c.g = addrspacecast ptr addrspace(1) %c to ptr addrspace(4)
  %self.c = getelementptr inbounds %struct.functor, ptr addrspace(4) %self.g, i32 0, i32 0
  store ptr addrspace(4) %c.g, ptr addrspace(4) %self.c, align 8
  %self.s = getelementptr inbounds %struct.functor, ptr addrspace(4) %self.g, i32 0, i32 1
  %s.g = addrspacecast ptr %s to ptr addrspace(4)
  call void @llvm.memcpy.p4.p4.i64(ptr addrspace(4) align 8 %self.s, ptr addrspace(4) align 4 %s.g, i64 16, i1 false)
  %self.n = getelementptr inbounds %struct.functor, ptr addrspace(4) %self.g, i32 0, i32 2
  store i64 %n, ptr addrspace(4) %self.n, align 8
  %gid = load <3 x i64>, ptr addrspace(7) @__spirv_BuiltInGlobalInvocationId, align 32
  %gx = extractelement <3 x i64> %gid, i64 0
  %gy = extractelement <3 x i64> %gid, i64 1
  %lid = load <3 x i64>, ptr addrspace(7) @__spirv_BuiltInLocalInvocationId, align 32
  %lx = extractelement <3 x i64> %lid, i64 0
  %n0 = sub i64 %gx, %lx
  %m0 = shl i64 %gy, 3
  %width = load i64, ptr addrspace(4) %self.n, align 8
  %row = mul i64 %m0, %width
  %from = load ptr addrspace(4), ptr addrspace(4) %self.c, align 8
  %p0 = getelementptr inbounds float, ptr addrspace(4) %from, i64 %n0
  %p1 = getelementptr inbounds float, ptr addrspace(4) %p0, i64 %row
  %pair.g = addrspacecast ptr %pair to ptr addrspace(4)
  br label %each

each:
  %m = phi i64 [ 0, %entry ], [ %m.next, %stored ]
  %side = shl i64 %m, 4
  %p = getelementptr inbounds float, ptr addrspace(4) %p1, i64 %side
  %old = call spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS4fili(ptr addrspace(4) %p, i32 0, i64 %width, i32 0)
  %one = getelementptr inbounds [2 x %struct.joint], ptr addrspace(4) %pair.g, i64 0, i64 %m
  %held = getelementptr inbounds %struct.joint, ptr addrspace(4) %one, i64 0, i32 0
  store target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) %old, ptr addrspace(4) %held, align 8
  %which = getelementptr inbounds %struct.functor, ptr addrspace(4) %self.g, i32 0, i32 1, i32 1, i64 %m
  %alpha = load float, ptr addrspace(4) %which, align 4
  %shift = getelementptr inbounds i8, ptr addrspace(4) %self.s, i64 12
  %steps = load i16, ptr addrspace(4) %shift, align 4
  %beta = uitofp i16 %steps to float
  br label %loop

loop:
  %i = phi i64 [ 0, %each ], [ %i.next, %put ]
  %now = load target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2), ptr addrspace(4) %held, align 8
  %len = call spir_func i64 @_Z34__spirv_CooperativeMatrixLengthKHR(target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) %now)
  %more = icmp ult i64 %i, %len
  br i1 %more, label %body, label %done

body:
  %e = call spir_func ptr addrspace(4) @_Z19__spirv_AccessChainPU3AS4m(ptr addrspace(4) %held, i64 %i)
  %v = load float, ptr addrspace(4) %e, align 4
  %scaled = fmul float %v, %alpha
  %positive = fcmp ogt float %scaled, 0.0
  br i1 %positive, label %put, label %clip

clip:
  br label %put

put:
  %w = phi float [ %scaled, %body ], [ 0.0, %clip ]
  %x = fadd float %w, %beta
  %e2 = call spir_func ptr addrspace(4) @_Z19__spirv_AccessChainPU3AS4m(ptr addrspace(4) %held, i64 %i)
  store float %x, ptr addrspace(4) %e2, align 4
  %i.next = add nuw nsw i64 %i, 1
  br label %loop

done:
  %new = load target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2), ptr addrspace(4) %held, align 8
  call spir_func void @_Z33__spirv_CooperativeMatrixStoreKHRPU3AS4f(ptr addrspace(4) %p, target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) %new, i32 0, i64 %width, i32 0)
  br label %stored

stored:
  %m.next = add nuw nsw i64 %m, 1
  %again = icmp ult i64 %m.next, 2
  br i1 %again, label %each, label %end

end:
  ret void
}

declare void @llvm.memcpy.p4.p4.i64(ptr addrspace(4), ptr addrspace(4), i64, i1)
declare spir_func target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2) @_Z32__spirv_CooperativeMatrixLoadKHRPU3AS4fili(ptr addrspace(4), i32, i64, i32)
declare spir_func i64 @_Z34__spirv_CooperativeMatrixLengthKHR(target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2))
declare spir_func ptr addrspace(4) @_Z19__spirv_AccessChainPU3AS4m(ptr addrspace(4), i64)
declare spir_func void @_Z33__spirv_CooperativeMatrixStoreKHRPU3AS4f(ptr addrspace(4), target("spirv.CooperativeMatrixKHR", float, 3, 8, 16, 2), i32, i64, i32)

!0 = !{i32 16}
