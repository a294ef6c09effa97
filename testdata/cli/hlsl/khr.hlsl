// arguments: -fcgl -Vd -fspv-debug=line
// finds: module-memory-model
#include "matrix.hlsli"
RWStructuredBuffer<float> factors : register(u0);
RWStructuredBuffer<float> sums : register(u1);
groupshared float staged[512];

C step(uint k, C sum) {
    A left = load_a(factors[k * 64], LAYOUT(4));
    B right = load_b(staged[k * 32], LAYOUT(4));
    return multiply(left, right, sum);
}

[numthreads(32, 1, 1)]
void main(uint3 thread : SV_GroupThreadID) {
    CREATE;
    for (uint i = thread.x; i < 512; i += 32) {
        staged[i] = factors[i];
    }
    GroupMemoryBarrierWithGroupSync();
    C sum = load_c(sums[0], LAYOUT(4));
    for (uint k = 0; k < thread.x; ++k) {
        sum = step(k, sum); // finds: uniformity-flow
    }
    store(sums[0], sum, LAYOUT(4));
}
