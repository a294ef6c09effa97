; OUT = IN * factor + shift, with both in a struct that is passed by value.
target datalayout = "e-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-n8:16:32:64-G1"
target triple = "spir64-unknown-unknown"

%how = type { i8, float, i32 }
@__spirv_BuiltInGlobalInvocationId = external addrspace(7) constant <3 x i64>, align 32

define spir_kernel void @affine(ptr byval(%how) align 4 %how, ptr addrspace(1) %in, ptr addrspace(1) %out) {
entry:
  %gid = load <3 x i64>, ptr addrspace(7) @__spirv_BuiltInGlobalInvocationId, align 32
  %g = extractelement <3 x i64> %gid, i64 0
  %fp = getelementptr inbounds %how, ptr %how, i32 0, i32 1
  %factor = load float, ptr %fp, align 4
  %sp = getelementptr inbounds %how, ptr %how, i32 0, i32 2
  %shift = load i32, ptr %sp, align 4
  %flag = load i8, ptr %how, align 4
  %on = icmp ne i8 %flag, 0
  %p = getelementptr inbounds float, ptr addrspace(1) %in, i64 %g
  %x = load float, ptr addrspace(1) %p, align 4
  %m = fmul float %x, %factor
  %s = sitofp i32 %shift to float
  %a = fadd float %m, %s
  %r = select i1 %on, float %a, float %x
  %o = getelementptr inbounds float, ptr addrspace(1) %out, i64 %g
  store float %r, ptr addrspace(1) %o, align 4
  ret void
}
