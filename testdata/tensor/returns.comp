#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
layout(local_size_x = 8) in;
layout(set=0,binding=0) readonly buffer A { float a[]; };
layout(set=0,binding=1) writeonly buffer D { float d[]; };
layout(push_constant) uniform P { uint k; uint n; };
#define C coopmat<float, gl_ScopeSubgroup, 8, 8, gl_MatrixUseAccumulator>
C pick(C x, uint k) {
    C y = x + x;
    uint seen = 0;
    for (uint i = 0; i < 6; i++) {
        C z = y * float(i);
        seen = i * 3;
        if (i == k) return z;
        for (uint j = 0; j < 3; j++) {
            if (i * 10 + j == k) return z + y;
            if (i + j == 7) break;
            switch (k - 40) {
                case 0: if (j == 1) return x; break;
                case 1: return -x;
                case 2: y = y + x;
                case 3: if (i == 3) { y = z; continue; }
                default: break;
            }
            y = y + x;
        }
        if (i == 4 && k == 99) break;
    }
    if (seen == 12) return y - x;
    if (k == 60) { return x * 0.5; } else if (k == 61) { return y * 0.5; }
    return y * float(seen);
}
void add(inout C x, const C y, uint k) { if (k == 5) return; x = x + y; if (k == 7) { x = x + pick(y, k); return; } x = x - pick(x, k + 1); }
void main() {
    C x;
    coopMatLoad(x, a, 0, 8, gl_CooperativeMatrixLayoutRowMajor);
    C sum = C(0.0);
    uint i = 0;
    do {
        sum = sum + pick(x, k + i);
        add(sum, x, i);
        i++;
    } while (i < n && k != 77);
    for (uint t = 0; t < 2; t++) { add(sum, pick(sum, 50 + t), k); if (t + k == 3) continue; sum = sum + x; }
    coopMatStore(sum, d, 0, 8, gl_CooperativeMatrixLayoutRowMajor);
}
