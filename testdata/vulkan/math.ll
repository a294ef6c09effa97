; OpenCL's functions that Vulkan has exactly: 16 numbers through each, one row of the output for each function, floats and integers.
target datalayout = "e-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-n8:16:32:64-G1"
target triple = "spir64-unknown-unknown"

@__spirv_BuiltInGlobalInvocationId = external addrspace(7) constant <3 x i64>, align 32
declare spir_func float @_Z16__spirv_ocl_rintf(float)
declare spir_func float @_Z17__spirv_ocl_truncf(float)
declare spir_func float @_Z16__spirv_ocl_fabsf(float)
declare spir_func float @_Z16__spirv_ocl_signf(float)
declare spir_func float @_Z17__spirv_ocl_floorf(float)
declare spir_func float @_Z16__spirv_ocl_ceilf(float)
declare spir_func float @_Z17__spirv_ocl_roundf(float)
declare spir_func float @_Z23__spirv_ocl_fmin_commonff(float, float)
declare spir_func float @_Z23__spirv_ocl_fmax_commonff(float, float)
declare spir_func float @_Z16__spirv_ocl_fminff(float, float)
declare spir_func float @_Z16__spirv_ocl_fmaxff(float, float)
declare spir_func float @_Z16__spirv_ocl_stepff(float, float)
declare spir_func float @_Z16__spirv_ocl_fmodff(float, float)
declare spir_func float @_Z20__spirv_ocl_copysignff(float, float)
declare spir_func float @_Z18__spirv_ocl_fclampfff(float, float, float)
declare spir_func float @_Z15__spirv_ocl_madfff(float, float, float)
declare spir_func float @_Z15__spirv_ocl_mixfff(float, float, float)
declare spir_func i32 @_Z17__spirv_ocl_s_absi(i32)
declare spir_func i32 @_Z17__spirv_ocl_s_minii(i32, i32)
declare spir_func i32 @_Z17__spirv_ocl_s_maxii(i32, i32)
declare spir_func i32 @_Z17__spirv_ocl_u_minjj(i32, i32)
declare spir_func i32 @_Z17__spirv_ocl_u_maxjj(i32, i32)
declare spir_func i32 @_Z20__spirv_ocl_popcounti(i32)
declare spir_func i32 @_Z15__spirv_ocl_clzi(i32)
declare spir_func i32 @_Z15__spirv_ocl_ctzi(i32)
declare spir_func i32 @_Z18__spirv_ocl_rotateii(i32, i32)
declare spir_func i32 @_Z20__spirv_ocl_s_mul_hiii(i32, i32)
declare spir_func i32 @_Z20__spirv_ocl_u_mul_hijj(i32, i32)
declare spir_func i32 @_Z17__spirv_ocl_u_absj(i32)
declare spir_func i32 @_Z19__spirv_ocl_s_clampiii(i32, i32, i32)
declare spir_func i32 @_Z19__spirv_ocl_u_clampjjj(i32, i32, i32)
declare spir_func i32 @_Z21__spirv_ocl_bitselectiii(i32, i32, i32)

define spir_kernel void @math(ptr addrspace(1) %fa, ptr addrspace(1) %fb, ptr addrspace(1) %ia, ptr addrspace(1) %ib, ptr addrspace(1) %floats, ptr addrspace(1) %ints) {
entry:
  %gid = load <3 x i64>, ptr addrspace(7) @__spirv_BuiltInGlobalInvocationId, align 32
  %i = extractelement <3 x i64> %gid, i64 0
  %a.ptr = getelementptr inbounds float, ptr addrspace(1) %fa, i64 %i
  %a = load float, ptr addrspace(1) %a.ptr, align 4
  %b.ptr = getelementptr inbounds float, ptr addrspace(1) %fb, i64 %i
  %b = load float, ptr addrspace(1) %b.ptr, align 4
  %p.ptr = getelementptr inbounds i32, ptr addrspace(1) %ia, i64 %i
  %p = load i32, ptr addrspace(1) %p.ptr, align 4
  %q.ptr = getelementptr inbounds i32, ptr addrspace(1) %ib, i64 %i
  %q = load i32, ptr addrspace(1) %q.ptr, align 4
  %f0 = call spir_func float @_Z16__spirv_ocl_rintf(float %a)
  %f0.at = add i64 %i, 0
  %f0.ptr = getelementptr inbounds float, ptr addrspace(1) %floats, i64 %f0.at
  store float %f0, ptr addrspace(1) %f0.ptr, align 4
  %f1 = call spir_func float @_Z17__spirv_ocl_truncf(float %a)
  %f1.at = add i64 %i, 16
  %f1.ptr = getelementptr inbounds float, ptr addrspace(1) %floats, i64 %f1.at
  store float %f1, ptr addrspace(1) %f1.ptr, align 4
  %f2 = call spir_func float @_Z16__spirv_ocl_fabsf(float %a)
  %f2.at = add i64 %i, 32
  %f2.ptr = getelementptr inbounds float, ptr addrspace(1) %floats, i64 %f2.at
  store float %f2, ptr addrspace(1) %f2.ptr, align 4
  %f3 = call spir_func float @_Z16__spirv_ocl_signf(float %a)
  %f3.at = add i64 %i, 48
  %f3.ptr = getelementptr inbounds float, ptr addrspace(1) %floats, i64 %f3.at
  store float %f3, ptr addrspace(1) %f3.ptr, align 4
  %f4 = call spir_func float @_Z17__spirv_ocl_floorf(float %a)
  %f4.at = add i64 %i, 64
  %f4.ptr = getelementptr inbounds float, ptr addrspace(1) %floats, i64 %f4.at
  store float %f4, ptr addrspace(1) %f4.ptr, align 4
  %f5 = call spir_func float @_Z16__spirv_ocl_ceilf(float %a)
  %f5.at = add i64 %i, 80
  %f5.ptr = getelementptr inbounds float, ptr addrspace(1) %floats, i64 %f5.at
  store float %f5, ptr addrspace(1) %f5.ptr, align 4
  %f6 = call spir_func float @_Z17__spirv_ocl_roundf(float %a)
  %f6.at = add i64 %i, 96
  %f6.ptr = getelementptr inbounds float, ptr addrspace(1) %floats, i64 %f6.at
  store float %f6, ptr addrspace(1) %f6.ptr, align 4
  %f7 = call spir_func float @_Z23__spirv_ocl_fmin_commonff(float %a, float %b)
  %f7.at = add i64 %i, 112
  %f7.ptr = getelementptr inbounds float, ptr addrspace(1) %floats, i64 %f7.at
  store float %f7, ptr addrspace(1) %f7.ptr, align 4
  %f8 = call spir_func float @_Z23__spirv_ocl_fmax_commonff(float %a, float %b)
  %f8.at = add i64 %i, 128
  %f8.ptr = getelementptr inbounds float, ptr addrspace(1) %floats, i64 %f8.at
  store float %f8, ptr addrspace(1) %f8.ptr, align 4
  %f9 = call spir_func float @_Z16__spirv_ocl_fminff(float %a, float %b)
  %f9.at = add i64 %i, 144
  %f9.ptr = getelementptr inbounds float, ptr addrspace(1) %floats, i64 %f9.at
  store float %f9, ptr addrspace(1) %f9.ptr, align 4
  %f10 = call spir_func float @_Z16__spirv_ocl_fmaxff(float %a, float %b)
  %f10.at = add i64 %i, 160
  %f10.ptr = getelementptr inbounds float, ptr addrspace(1) %floats, i64 %f10.at
  store float %f10, ptr addrspace(1) %f10.ptr, align 4
  %f11 = call spir_func float @_Z16__spirv_ocl_stepff(float %a, float %b)
  %f11.at = add i64 %i, 176
  %f11.ptr = getelementptr inbounds float, ptr addrspace(1) %floats, i64 %f11.at
  store float %f11, ptr addrspace(1) %f11.ptr, align 4
  %f12 = call spir_func float @_Z16__spirv_ocl_fmodff(float %a, float %b)
  %f12.at = add i64 %i, 192
  %f12.ptr = getelementptr inbounds float, ptr addrspace(1) %floats, i64 %f12.at
  store float %f12, ptr addrspace(1) %f12.ptr, align 4
  %f13 = call spir_func float @_Z20__spirv_ocl_copysignff(float %a, float %b)
  %f13.at = add i64 %i, 208
  %f13.ptr = getelementptr inbounds float, ptr addrspace(1) %floats, i64 %f13.at
  store float %f13, ptr addrspace(1) %f13.ptr, align 4
  %f14 = call spir_func float @_Z18__spirv_ocl_fclampfff(float %a, float -4.000000e+00, float 4.000000e+00)
  %f14.at = add i64 %i, 224
  %f14.ptr = getelementptr inbounds float, ptr addrspace(1) %floats, i64 %f14.at
  store float %f14, ptr addrspace(1) %f14.ptr, align 4
  %f15 = call spir_func float @_Z15__spirv_ocl_madfff(float %a, float 5.000000e-01, float 2.000000e+00)
  %f15.at = add i64 %i, 240
  %f15.ptr = getelementptr inbounds float, ptr addrspace(1) %floats, i64 %f15.at
  store float %f15, ptr addrspace(1) %f15.ptr, align 4
  %f16 = call spir_func float @_Z15__spirv_ocl_mixfff(float %a, float 8.000000e+00, float 5.000000e-01)
  %f16.at = add i64 %i, 256
  %f16.ptr = getelementptr inbounds float, ptr addrspace(1) %floats, i64 %f16.at
  store float %f16, ptr addrspace(1) %f16.ptr, align 4
  %i0 = call spir_func i32 @_Z17__spirv_ocl_s_absi(i32 %p)
  %i0.at = add i64 %i, 0
  %i0.ptr = getelementptr inbounds i32, ptr addrspace(1) %ints, i64 %i0.at
  store i32 %i0, ptr addrspace(1) %i0.ptr, align 4
  %i1 = call spir_func i32 @_Z17__spirv_ocl_s_minii(i32 %p, i32 %q)
  %i1.at = add i64 %i, 16
  %i1.ptr = getelementptr inbounds i32, ptr addrspace(1) %ints, i64 %i1.at
  store i32 %i1, ptr addrspace(1) %i1.ptr, align 4
  %i2 = call spir_func i32 @_Z17__spirv_ocl_s_maxii(i32 %p, i32 %q)
  %i2.at = add i64 %i, 32
  %i2.ptr = getelementptr inbounds i32, ptr addrspace(1) %ints, i64 %i2.at
  store i32 %i2, ptr addrspace(1) %i2.ptr, align 4
  %i3 = call spir_func i32 @_Z17__spirv_ocl_u_minjj(i32 %p, i32 %q)
  %i3.at = add i64 %i, 48
  %i3.ptr = getelementptr inbounds i32, ptr addrspace(1) %ints, i64 %i3.at
  store i32 %i3, ptr addrspace(1) %i3.ptr, align 4
  %i4 = call spir_func i32 @_Z17__spirv_ocl_u_maxjj(i32 %p, i32 %q)
  %i4.at = add i64 %i, 64
  %i4.ptr = getelementptr inbounds i32, ptr addrspace(1) %ints, i64 %i4.at
  store i32 %i4, ptr addrspace(1) %i4.ptr, align 4
  %i5 = call spir_func i32 @_Z20__spirv_ocl_popcounti(i32 %p)
  %i5.at = add i64 %i, 80
  %i5.ptr = getelementptr inbounds i32, ptr addrspace(1) %ints, i64 %i5.at
  store i32 %i5, ptr addrspace(1) %i5.ptr, align 4
  %i6 = call spir_func i32 @_Z15__spirv_ocl_clzi(i32 %p)
  %i6.at = add i64 %i, 96
  %i6.ptr = getelementptr inbounds i32, ptr addrspace(1) %ints, i64 %i6.at
  store i32 %i6, ptr addrspace(1) %i6.ptr, align 4
  %i7 = call spir_func i32 @_Z15__spirv_ocl_ctzi(i32 %p)
  %i7.at = add i64 %i, 112
  %i7.ptr = getelementptr inbounds i32, ptr addrspace(1) %ints, i64 %i7.at
  store i32 %i7, ptr addrspace(1) %i7.ptr, align 4
  %i8 = call spir_func i32 @_Z18__spirv_ocl_rotateii(i32 %p, i32 %q)
  %i8.at = add i64 %i, 128
  %i8.ptr = getelementptr inbounds i32, ptr addrspace(1) %ints, i64 %i8.at
  store i32 %i8, ptr addrspace(1) %i8.ptr, align 4
  %i9 = call spir_func i32 @_Z20__spirv_ocl_s_mul_hiii(i32 %p, i32 %q)
  %i9.at = add i64 %i, 144
  %i9.ptr = getelementptr inbounds i32, ptr addrspace(1) %ints, i64 %i9.at
  store i32 %i9, ptr addrspace(1) %i9.ptr, align 4
  %i10 = call spir_func i32 @_Z20__spirv_ocl_u_mul_hijj(i32 %p, i32 %q)
  %i10.at = add i64 %i, 160
  %i10.ptr = getelementptr inbounds i32, ptr addrspace(1) %ints, i64 %i10.at
  store i32 %i10, ptr addrspace(1) %i10.ptr, align 4
  %i11 = call spir_func i32 @_Z17__spirv_ocl_u_absj(i32 %p)
  %i11.at = add i64 %i, 176
  %i11.ptr = getelementptr inbounds i32, ptr addrspace(1) %ints, i64 %i11.at
  store i32 %i11, ptr addrspace(1) %i11.ptr, align 4
  %i12 = call spir_func i32 @_Z19__spirv_ocl_s_clampiii(i32 %p, i32 -100, i32 1000)
  %i12.at = add i64 %i, 192
  %i12.ptr = getelementptr inbounds i32, ptr addrspace(1) %ints, i64 %i12.at
  store i32 %i12, ptr addrspace(1) %i12.ptr, align 4
  %i13 = call spir_func i32 @_Z19__spirv_ocl_u_clampjjj(i32 %p, i32 10, i32 70000)
  %i13.at = add i64 %i, 208
  %i13.ptr = getelementptr inbounds i32, ptr addrspace(1) %ints, i64 %i13.at
  store i32 %i13, ptr addrspace(1) %i13.ptr, align 4
  %i14 = call spir_func i32 @_Z21__spirv_ocl_bitselectiii(i32 %p, i32 252645135, i32 16711935)
  %i14.at = add i64 %i, 224
  %i14.ptr = getelementptr inbounds i32, ptr addrspace(1) %ints, i64 %i14.at
  store i32 %i14, ptr addrspace(1) %i14.ptr, align 4
  ret void
}
