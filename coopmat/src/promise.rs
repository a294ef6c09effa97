//! Computes the properties that an application may be told before it has a module.

use crate::{ComponentType as T, Feature as F, FlexibleProperties, MatrixProperties, Profile, Scope};

/// The property lists of Vulkan that a device may report, since modules that use them are lowered.
#[derive(Clone, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct Promise {
    /// The list of VK_KHR_cooperative_matrix, best first: the device's own, then what becomes scalar code.
    pub khr: Vec<MatrixProperties>,
    /// The list of VK_NV_cooperative_matrix2, best first.
    pub flexible: Vec<FlexibleProperties>,
    /// `cooperativeMatrixWorkgroupScopeMaxWorkgroupSize`.
    pub max_workgroup_size: u32,
    /// `cooperativeMatrixFlexibleDimensionsMaxDimension`.
    pub max_dimension: u32,
    /// `cooperativeMatrixWorkgroupScopeReservedSharedMemory`.
    pub reserved_shared_memory: u32,
}

/// The largest workgroup whose matrices are promised: engines ask for 128 and 256 invocations.
const LARGEST_WORKGROUP: u32 = 256;

/// The most rows or columns of a matrix that are promised: ggml takes no device with less.
const MAX_DIMENSION: u32 = 512;

/// Types of A, B, C and the result, and the features without which a device does not compute with them as scalars. bfloat16 needs
/// none: it is computed with as integers.
const TYPES: &[([T; 4], &[F])] = &[
    ([T::F16, T::F16, T::F16, T::F16], &[F::ShaderFloat16]),
    ([T::F16, T::F16, T::F32, T::F32], &[F::ShaderFloat16]),
    ([T::Bf16, T::Bf16, T::F32, T::F32], &[F::ShaderInt16]),
    ([T::U8, T::U8, T::U32, T::U32], &[F::ShaderInt8]),
    ([T::S8, T::S8, T::S32, T::S32], &[F::ShaderInt8]),
];

/// The shared memory that a line of two factors takes, in the shortest slices that products have.
const LINES: u32 = 2 * 16;

/// Returns the bytes of a device's shared memory that matrices may take: a quarter, or more where that is not enough for the largest.
fn reserved(all: u32) -> u32 {
    (all / 4).max((LINES * MAX_DIMENSION).min(all / 2))
}

/// Returns the promise for a device. Modules with matrices declare the Vulkan memory model, and no lowering replaces that: a device
/// without it is promised nothing.
pub(crate) fn of(profile: &Profile) -> Promise {
    if !profile.has(F::VulkanMemoryModel) {
        return Promise::default();
    }
    let limits = &profile.limits;
    // With the device's own size first, engines that compute with their first choice alone are right on small subgroups too.
    let sizes: &[[u32; 3]] =
        if limits.subgroup_size <= 8 { &[[8, 8, 8], [16, 16, 16]] } else { &[[16, 16, 16], [8, 8, 8]] };
    let types = TYPES.iter().filter(|(_, features)| features.iter().all(|f| profile.has(*f)));
    let types: Vec<[T; 4]> = types.map(|(types, _)| *types).collect();
    let reserved = reserved(limits.max_compute_shared_memory_size);
    let mut promise = Promise {
        khr: profile.khr_properties.clone(),
        flexible: profile.flexible_properties.clone(),
        max_workgroup_size: LARGEST_WORKGROUP.min(limits.max_compute_work_group_invocations),
        max_dimension: MAX_DIMENSION.min(reserved / LINES),
        reserved_shared_memory: reserved,
    };
    let row = |[a, b, c, result]: [T; 4], [m, n, k]: [u32; 3], scope| MatrixProperties {
        m,
        n,
        k,
        a,
        b,
        c,
        result,
        saturating: false,
        scope,
    };
    for (size, types) in sizes.iter().flat_map(|size| types.iter().map(move |types| (*size, *types))) {
        let row = row(types, size, Scope::Subgroup);
        if !promise.khr.contains(&row) {
            promise.khr.push(row);
        }
    }
    let mut scopes = vec![(Scope::Subgroup, 0)];
    // Workgroups are of full subgroups.
    let least = limits.subgroup_size.max(32);
    let sizes_of_workgroups = (0..32).map(|n| 1 << n).filter(|n| (least..=promise.max_workgroup_size).contains(n));
    scopes.extend(sizes_of_workgroups.map(|n| (Scope::Workgroup, n)));
    for (scope, workgroup_invocations) in scopes {
        for types in &types {
            let granularity = row(*types, [16, 16, 16], scope);
            let known = |r: &FlexibleProperties| {
                let g = &r.granularity;
                (g.a, g.b, g.c, g.result, g.scope, r.workgroup_invocations)
                    == (types[0], types[1], types[2], types[3], scope, workgroup_invocations)
            };
            if !promise.flexible.iter().any(known) {
                promise.flexible.push(FlexibleProperties { granularity, workgroup_invocations });
            }
        }
    }
    promise
}
