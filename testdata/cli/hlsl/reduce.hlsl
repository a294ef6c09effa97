// arguments: -HV 2021
StructuredBuffer<float> values : register(t0);
RWStructuredBuffer<float> sums : register(u1);
groupshared float parts[64];

template <typename T> T add(T a, T b) { return a + b; }

[numthreads(64, 1, 1)]
void main(uint3 thread : SV_GroupThreadID, uint3 group : SV_GroupID) {
    float sum = 0;
    for (uint k = 0; k < 4; ++k) {
        sum = add(sum, values[group.x * 256 + k * 64 + thread.x]);
    }
    sum = WaveActiveSum(sum);
    if (WaveIsFirstLane()) {
        parts[thread.x / WaveGetLaneCount()] = sum;
    }
    GroupMemoryBarrierWithGroupSync();
    if (thread.x == 0) {
        float all = 0;
        for (uint wave = 0; wave < 64 / WaveGetLaneCount(); ++wave) {
            all += parts[wave];
        }
        sums[group.x] = all;
    }
}
