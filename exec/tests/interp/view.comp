// Views. binding 0: f32 tensor of 4 x 6 x 8. Outputs f32 8 x 8 each in binding 1:
// 0 slice [1][2..][0..] of 4 x 8 twice as a transposed view; 1 clipped load into a matrix of 5s; 2 space to depth of a 16 x 16
// image (binding 2) with 2 x 2 blocks into 8 x 32 (stored at 128); 3-D store with a permuted view to binding 3.
#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#extension GL_KHR_memory_scope_semantics : require
layout(local_size_x = 32) in;
layout(binding = 0) readonly buffer I { float i0[]; };
layout(binding = 1) buffer O1 { float o1[]; };
layout(binding = 2) readonly buffer I2 { float i2[]; };
layout(binding = 3) buffer O3 { float o3[]; };
#define MAT(M, N) coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>
void main()
{
    // Element (r, c) of the 8 x 4 matrix is tensor element [1][2 + c][r].
    tensorLayoutNV<3> t = createTensorLayoutNV(3);
    t = setTensorLayoutDimensionNV(t, 4, 6, 8);
    t = sliceTensorLayoutNV(t, 1, 1, 2, 4, 0, 8);
    tensorViewNV<3, false, 0, 2, 1> v = createTensorViewNV(3, false, 0, 2, 1);
    MAT(8, 4) a = MAT(8, 4)(0.0);
    coopMatLoadTensorNV(a, i0, 0, t, v);
    coopMatStore(a, o1, 0, 4, gl_CooperativeMatrixLayoutRowMajor);

    // Rows 2 to 5 and columns 1 to 4 are loaded, from a 4 x 4 slice; the rest keeps its 5s.
    tensorLayoutNV<2> s = createTensorLayoutNV(2);
    s = setTensorLayoutDimensionNV(s, 24, 8);
    s = sliceTensorLayoutNV(s, 3, 4, 2, 4);
    tensorViewNV<2> w = createTensorViewNV(2);
    w = setTensorViewClipNV(w, 2, 4, 1, 4);
    MAT(8, 8) b = MAT(8, 8)(5.0);
    coopMatLoadTensorNV(b, i0, 0, s, w);
    coopMatStore(b, o1, 64, 8, gl_CooperativeMatrixLayoutRowMajor);

    // The image as [8][2][8][2], read as [8][8][2][2] = 64 x 4, as an 8 x 32 matrix.
    tensorLayoutNV<4> d = createTensorLayoutNV(4);
    d = setTensorLayoutDimensionNV(d, 8, 2, 8, 2);
    tensorViewNV<4, false, 0, 2, 1, 3> x = createTensorViewNV(4, false, 0, 2, 1, 3);
    MAT(8, 32) c = MAT(8, 32)(0.0);
    coopMatLoadTensorNV(c, i2, 0, d, x);
    coopMatStore(c, o1, 128, 32, gl_CooperativeMatrixLayoutRowMajor);

    // Stored through a view with dimensions of its own: element number n of the matrix goes to [n % 8][n / 8].
    tensorLayoutNV<2> e = createTensorLayoutNV(2);
    e = setTensorLayoutDimensionNV(e, 8, 8);
    tensorViewNV<2, true, 1, 0> y = createTensorViewNV(2, true, 1, 0);
    y = setTensorViewDimensionsNV(y, 8, 8);
    coopMatStoreTensorNV(b, o3, 0, e, y);
}
