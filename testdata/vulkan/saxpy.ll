; y = a * x + y for the first n, in a function of its own.
target datalayout = "e-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-n8:16:32:64-G1"
target triple = "spir64-unknown-unknown"

@__spirv_BuiltInGlobalInvocationId = external addrspace(7) constant <3 x i64>, align 32

define spir_func float @step(float %a, float %x, float %y) {
entry:
  %big = fcmp ogt float %x, 2.000000e+00
  br i1 %big, label %clip, label %plain
clip:
  ret float %y
plain:
  %m = fmul float %a, %x
  %s = fadd float %m, %y
  ret float %s
}

define spir_kernel void @saxpy(ptr addrspace(1) %x, ptr addrspace(1) %y, float %a, i32 %n) {
entry:
  %gid = load <3 x i64>, ptr addrspace(7) @__spirv_BuiltInGlobalInvocationId, align 32
  %g = extractelement <3 x i64> %gid, i64 0
  %g32 = trunc i64 %g to i32
  %in = icmp slt i32 %g32, %n
  br i1 %in, label %body, label %exit
body:
  %px = getelementptr inbounds float, ptr addrspace(1) %x, i64 %g
  %py = getelementptr inbounds float, ptr addrspace(1) %y, i64 %g
  %vx = load float, ptr addrspace(1) %px, align 4
  %vy = load float, ptr addrspace(1) %py, align 4
  %s = call spir_func float @step(float %a, float %vx, float %vy)
  store float %s, ptr addrspace(1) %py, align 4
  br label %exit
exit:
  ret void
}
