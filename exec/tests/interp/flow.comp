// Control flow that parts and meets again, and what subgroups see of it. binding 0: u32 64 outputs of 32 invocations each.
#version 460
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_shuffle_relative : require
#extension GL_KHR_shader_subgroup_clustered : require
layout(local_size_x = 32) in;
layout(binding = 0) buffer O { uint o[]; };
uint at = 0;
void put(uint v) { o[at * 32 + gl_LocalInvocationIndex] = v; at++; }
uint collatz(uint n)
{
    uint steps = 0;
    while (true) {
        if (n <= 1) {
            return steps;
        }
        steps++;
        if ((n & 1) == 0) {
            n /= 2;
            continue;
        }
        n = 3 * n + 1;
    }
}
uint pick(uint n)
{
    switch (n % 5) {
    case 0: return 10;
    case 1:
        if (n > 10) break;
        return 20;
    case 2: n += 100; // falls through
    case 3: n += 1000; break;
    default: return 7;
    }
    return n;
}
void main()
{
    const uint lane = gl_LocalInvocationIndex;
    put(collatz(lane + 1));
    // All of them meet after the loop.
    put(subgroupAdd(1));
    put(pick(lane));
    put(subgroupBallotBitCount(subgroupBallot(true)));
    uint sum = 0;
    for (uint i = 0; i < lane; ++i) {
        for (uint k = 0; k < i; ++k) {
            if (k == 7) break;
            sum += subgroupAdd(1);
        }
    }
    put(sum);
    put(subgroupInclusiveAdd(lane));
    put(subgroupExclusiveMul(lane < 5 ? lane + 1 : 1));
    put(subgroupShuffleXor(lane, 5));
    put(subgroupShuffleUp(lane, 1));
    put(subgroupClusteredMax(lane ^ 3, 4));
    put(subgroupBroadcast(lane * 3, 9));
    put(subgroupElect() ? 1 : 0);
    if ((lane & 1) == 1) {
        put(subgroupBallot(true).x);
        put(subgroupBroadcastFirst(lane));
        put(subgroupMin(lane));
    } else {
        put(subgroupBallot(lane > 9).x);
        put(subgroupBroadcastFirst(lane + 50));
        put(subgroupMax(lane));
    }
    put(subgroupAll(lane < 32) ? 1 : 0);
    put(gl_SubgroupLtMask.x);
    uvec4 b = subgroupBallot(lane % 3 == 0);
    put(subgroupBallotExclusiveBitCount(b));
    put(subgroupBallotFindMSB(b));
    put(subgroupInverseBallot(b) ? 1 : 0);
}
