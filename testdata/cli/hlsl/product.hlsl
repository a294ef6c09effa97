// arguments: -DNV -fspv-debug=line
#include "matrix.hlsli"
RWStructuredBuffer<float> factors : register(u0);
RWStructuredBuffer<float> sums : register(u1);

[numthreads(32, 1, 1)]
void main(uint3 group : SV_GroupID) {
    CREATE;
    C sum = load_c(sums[group.x * 64], LAYOUT(4));
    for (uint k = 0; k < 4; ++k) {
        A left = load_a(factors[k * 64], LAYOUT(4));
        B right = load_b(factors[k * 64 + 256], LAYOUT(4));
        sum = multiply(left, right, sum);
    }
    store(sums[group.x * 64], sum, LAYOUT(4));
}
