// arguments: -DNV -fspv-debug=line
#include "matrix.hlsli"
RWStructuredBuffer<float> factors : register(u0);
RWStructuredBuffer<float> sums : register(u1);

[numthreads(32, 1, 1)]
void main(uint3 thread : SV_GroupThreadID) {
    CREATE;
    C sum = load_c(sums[0], LAYOUT(4));
    for (uint k = 0; k < 4; ++k) {
        if (sums[thread.x] < 1.0) {
            A left = load_a(factors[k * 64], LAYOUT(4)); // finds: uniformity-flow
            B right = load_b(factors[k * 64 + 256], LAYOUT(4));
            sum = multiply(left, right, sum);
        }
    }
    store(sums[0], sum, LAYOUT(4));
}
