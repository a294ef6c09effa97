//! A device that has matrices of every type, which none of ours is.

use coop_device::{ComponentType, Feature, MatrixProperties, Profile};

/// lavapipe, if it had matrices of every type.
pub(crate) fn every_type() -> Profile {
    use ComponentType as C;
    let mut profile = Profile::builtin("mesa-lavapipe").expect("a built-in profile");
    profile.features.insert(Feature::ShaderBFloat16Type);
    profile.features.insert(Feature::ShaderBFloat16CooperativeMatrix);
    profile.extensions.push("VK_KHR_shader_bfloat16".to_owned());
    let one = profile.khr_properties[0];
    for a in [C::S8, C::U8, C::F16, C::F32, C::Bf16] {
        for c in [C::S8, C::U8, C::S32, C::U32, C::F16, C::F32, C::Bf16] {
            profile.khr_properties.push(MatrixProperties { a, b: a, c, result: c, ..one });
        }
    }
    profile
}
