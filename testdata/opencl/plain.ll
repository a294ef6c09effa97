; out = alpha * in, by way of workgroup memory that is an argument. No matrices: what a device runs that knows none.
target datalayout = "e-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-n8:16:32:64-G1"
target triple = "spir64-unknown-unknown"

@__spirv_BuiltInGlobalInvocationId = external addrspace(7) constant <3 x i64>, align 32
@__spirv_BuiltInLocalInvocationId = external addrspace(7) constant <3 x i64>, align 32

define spir_kernel void @plain(ptr addrspace(1) align 4 %in, ptr addrspace(1) align 4 %out, ptr addrspace(3) align 4 %tmp, float %alpha) {
entry:
  %gid = load <3 x i64>, ptr addrspace(7) @__spirv_BuiltInGlobalInvocationId, align 32
  %gx = extractelement <3 x i64> %gid, i64 0
  %lid = load <3 x i64>, ptr addrspace(7) @__spirv_BuiltInLocalInvocationId, align 32
  %lx = extractelement <3 x i64> %lid, i64 0
  %ip = getelementptr inbounds float, ptr addrspace(1) %in, i64 %gx
  %v = load float, ptr addrspace(1) %ip, align 4
  %tp = getelementptr inbounds float, ptr addrspace(3) %tmp, i64 %lx
  store float %v, ptr addrspace(3) %tp, align 4
  call spir_func void @_Z22__spirv_ControlBarrierjjj(i32 2, i32 2, i32 272)
  %w = load float, ptr addrspace(3) %tp, align 4
  %m = fmul float %w, %alpha
  %op = getelementptr inbounds float, ptr addrspace(1) %out, i64 %gx
  store float %m, ptr addrspace(1) %op, align 4
  ret void
}

declare spir_func void @_Z22__spirv_ControlBarrierjjj(i32, i32, i32)
