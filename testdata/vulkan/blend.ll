; Vectors, 16-bit floats and bytes in one record; narrow arguments; a pointer that is one of two; OpenCL's functions.
target datalayout = "e-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-n8:16:32:64-G1"
target triple = "spir64-unknown-unknown"

%record = type { <4 x float>, half, i8, i16 }
@__spirv_BuiltInGlobalInvocationId = external addrspace(7) constant <3 x i64>, align 32
@__spirv_BuiltInGlobalSize = external addrspace(7) constant <3 x i64>, align 32
declare spir_func float @_Z15__spirv_ocl_fmafff(float, float, float)
declare spir_func float @_Z16__spirv_ocl_fminff(float, float)
declare spir_func float @_Z18__spirv_ocl_fclampfff(float, float, float)
declare spir_func float @_Z16__spirv_ocl_rintf(float)
declare spir_func float @_Z17__spirv_ocl_floorf(float)
declare spir_func float @_Z20__spirv_ocl_copysignff(float, float)
declare spir_func i32 @_Z17__spirv_ocl_s_maxii(i32, i32)
declare spir_func i32 @_Z15__spirv_ocl_clzi(i32)
declare spir_func i32 @_Z15__spirv_ocl_ctzi(i32)

define spir_kernel void @blend(ptr addrspace(1) %records, ptr addrspace(1) %a, ptr addrspace(1) %b, i8 %flag, float %factor, i16 %shift.16, ptr addrspace(1) %out) {
entry:
  %gid = load <3 x i64>, ptr addrspace(7) @__spirv_BuiltInGlobalInvocationId, align 32
  %g = extractelement <3 x i64> %gid, i64 0
  %y = extractelement <3 x i64> %gid, i64 1
  %sizes = load <3 x i64>, ptr addrspace(7) @__spirv_BuiltInGlobalSize, align 32
  %w = extractelement <3 x i64> %sizes, i64 0
  %row = mul i64 %y, %w
  %i = add i64 %row, %g
  %shift = sext i16 %shift.16 to i32
  %r = getelementptr inbounds %record, ptr addrspace(1) %records, i64 %i
  %v = load <4 x float>, ptr addrspace(1) %r, align 16
  %hp = getelementptr inbounds %record, ptr addrspace(1) %r, i64 0, i32 1
  %h = load half, ptr addrspace(1) %hp, align 2
  %hf = fpext half %h to float
  %bp = getelementptr inbounds %record, ptr addrspace(1) %r, i64 0, i32 2
  %byte = load i8, ptr addrspace(1) %bp, align 1
  %wp = getelementptr inbounds %record, ptr addrspace(1) %r, i64 0, i32 3
  %word = load i16, ptr addrspace(1) %wp, align 2
  %odd = and i8 %byte, 1
  %is.odd = icmp eq i8 %odd, %flag
  %from = select i1 %is.odd, ptr addrspace(1) %a, ptr addrspace(1) %b
  %from.g = addrspacecast ptr addrspace(1) %from to ptr addrspace(4)
  %q = getelementptr inbounds float, ptr addrspace(4) %from.g, i64 %i
  %x = load float, ptr addrspace(4) %q, align 4
  %v0 = extractelement <4 x float> %v, i64 0
  %v1 = extractelement <4 x float> %v, i64 1
  %v3 = extractelement <4 x float> %v, i64 3
  %f = call spir_func float @_Z15__spirv_ocl_fmafff(float %v0, float %factor, float %x)
  %m = call spir_func float @_Z16__spirv_ocl_fminff(float %f, float %v1)
  %c = call spir_func float @_Z18__spirv_ocl_fclampfff(float %m, float -6.000000e+00, float 6.000000e+00)
  %half.c = fmul float %c, 5.000000e-01
  %e = call spir_func float @_Z16__spirv_ocl_rintf(float %half.c)
  %n = call spir_func float @_Z17__spirv_ocl_floorf(float %half.c)
  %s = call spir_func float @_Z20__spirv_ocl_copysignff(float %n, float %v3)
  %se = fadd float %s, %e
  %sh = fadd float %se, %hf
  %wordw = sext i16 %word to i32
  %big = call spir_func i32 @_Z17__spirv_ocl_s_maxii(i32 %wordw, i32 %shift)
  %lead = call spir_func i32 @_Z15__spirv_ocl_clzi(i32 %big)
  %low = call spir_func i32 @_Z15__spirv_ocl_ctzi(i32 %wordw)
  %bits = add i32 %lead, %low
  %bitsf = sitofp i32 %bits to float
  %all = fadd float %sh, %bitsf
  %o = getelementptr inbounds <2 x float>, ptr addrspace(1) %out, i64 %i
  %pair.0 = insertelement <2 x float> undef, float %all, i64 0
  %pair = insertelement <2 x float> %pair.0, float %half.c, i64 1
  store <2 x float> %pair, ptr addrspace(1) %o, align 8
  ret void
}
