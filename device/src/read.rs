//! Reads profiles, and rejects unknown names and impossible numbers.
//!
//! The keys are compared with those of a profile that is written, so that there is no second list of them.

use serde_json::Value;

use super::require::misspelt_extension;
use super::{
    Api, Feature, Features, FlexibleProperties, Limits, MatrixProperties, NvProperties, Profile, ProfileError,
    Properties2,
};
use super::{ComponentType, Scope};
use coop_ir::nearest::{DidYouMean, nearest};

/// The most rows or columns of a matrix that a profile may list.
const MAX_DIMENSION: u32 = 1 << 16;

/// Reads a profile.
pub(super) fn from_json(text: &str) -> Result<Profile, ProfileError> {
    let value: Value = serde_json::from_str(text).map_err(|error| ProfileError(error.to_string()))?;
    keys(&value, &specimen(), "")?;
    let profile = unchecked(text, &value)?;
    limits(&profile.limits)?;
    for (list, rows) in listed(&profile) {
        dimensions(list, rows)?;
    }
    for name in &profile.extensions {
        extension(name)?;
    }
    Ok(profile)
}

/// Reads a profile that a test reads with all checks: looking for misspelled names takes longer than the rest.
pub(super) fn builtin(text: &str) -> Result<Profile, ProfileError> {
    let value: Value = serde_json::from_str(text).map_err(|error| ProfileError(error.to_string()))?;
    unchecked(text, &value)
}

fn unchecked(text: &str, value: &Value) -> Result<Profile, ProfileError> {
    // From the text once more: a `Value` forgets keys that are given twice.
    let mut profile: Profile = serde_json::from_str(text).map_err(|error| ProfileError(error.to_string()))?;
    sizes_from_one(value, &mut profile.limits)?;
    Ok(profile)
}

/// Returns a profile with every key, as JSON.
fn specimen() -> Value {
    let (a, scope) = (ComponentType::F16, Scope::Subgroup);
    let row = MatrixProperties { m: 1, n: 1, k: 1, a, b: a, c: a, result: a, saturating: false, scope };
    let mut features = Features::NONE;
    Feature::ALL.iter().for_each(|&feature| features.insert(feature));
    let profile = Profile {
        // What is not written where it says nothing.
        api: Api::OpenCl,
        slow_matrices: "a source".into(),
        features,
        extensions: vec![String::new()],
        khr_properties: vec![row],
        held_properties: vec![row],
        flexible_properties: vec![FlexibleProperties { granularity: row, workgroup_invocations: 0 }],
        properties2: vec![Properties2 {
            scope,
            invocations: 0,
            subgroup_size: 0,
            saturating: false,
            entries: vec![row],
        }],
        nv_properties: vec![NvProperties { m: 1, n: 1, k: 1, a, b: a, c: a, d: a, scope }],
        ..Profile::default()
    };
    serde_json::to_value(profile).unwrap_or_else(|error| unreachable!("a profile has string keys only: {error}"))
}

/// Rejects keys that the specimen does not have at the same place, and values of another kind.
fn keys(value: &Value, specimen: &Value, path: &str) -> Result<(), ProfileError> {
    match (value, specimen) {
        (Value::Object(object), Value::Object(known)) => {
            for (key, inner) in object {
                let place = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                let Some(like) = known.get(key) else {
                    let near = DidYouMean(nearest(key, known.keys().map(String::as_str)));
                    return Err(ProfileError(format!("there is no {place}{near}")));
                };
                keys(inner, like, &place)?;
            }
            Ok(())
        }
        (Value::Array(items), Value::Array(like)) => {
            let Some(like) = like.first() else { return Ok(()) };
            items.iter().zip(0..).try_for_each(|(item, n)| keys(item, like, &format!("{path}[{n}]")))
        }
        (_, Value::Object(_)) if path.is_empty() => Err(ProfileError(format!("{} is not an object", kind(value)))),
        (_, Value::Object(_)) => Err(ProfileError(format!("{path} is {}, not an object", kind(value)))),
        (_, Value::Array(_)) => Err(ProfileError(format!("{path} is {}, not a list", kind(value)))),
        (_, Value::Bool(_)) if !value.is_boolean() => {
            Err(ProfileError(format!("{path} is {value}, not true or false")))
        }
        _ => Ok(()),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a Boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Requires the subgroup size, since lowerings depend on it. Without a smallest and a largest size it is the only one.
fn sizes_from_one(value: &Value, limits: &mut Limits) -> Result<(), ProfileError> {
    let said = |key: &str| value.get("limits").is_some_and(|limits| limits.get(key).is_some());
    if !said("subgroupSize") {
        return Err(ProfileError("limits.subgroupSize is missing".to_owned()));
    }
    for (key, size) in
        [("minSubgroupSize", &mut limits.min_subgroup_size), ("maxSubgroupSize", &mut limits.max_subgroup_size)]
    {
        if !said(key) {
            *size = limits.subgroup_size;
        }
    }
    Ok(())
}

/// Rejects limits that no device can have and that arithmetic on limits relies on.
fn limits(limits: &Limits) -> Result<(), ProfileError> {
    let sizes = [
        ("subgroupSize", limits.subgroup_size),
        ("minSubgroupSize", limits.min_subgroup_size),
        ("maxSubgroupSize", limits.max_subgroup_size),
    ];
    for (name, size) in sizes {
        if !size.is_power_of_two() {
            return Err(ProfileError(format!("limits.{name} is {size}, not a power of two")));
        }
        if size > Limits::MAX_SUBGROUP_SIZE {
            let most = Limits::MAX_SUBGROUP_SIZE;
            return Err(ProfileError(format!(
                "limits.{name} is {size}, and no subgroup has more than {most} invocations"
            )));
        }
    }
    let (min, max, size) = (limits.min_subgroup_size, limits.max_subgroup_size, limits.subgroup_size);
    if min > max {
        return Err(ProfileError(format!("limits.minSubgroupSize {min} is larger than limits.maxSubgroupSize {max}")));
    }
    if !(min..=max).contains(&size) {
        let why = format!("limits.subgroupSize {size} is not from minSubgroupSize {min} to maxSubgroupSize {max}");
        return Err(ProfileError(why));
    }
    Ok(())
}

/// Returns the lists of matrices, each with its rows as m, n and k.
fn listed(profile: &Profile) -> Vec<(&'static str, Vec<[u32; 3]>)> {
    let sizes = |rows: &[MatrixProperties]| rows.iter().map(|r| [r.m, r.n, r.k]).collect();
    let flexible: Vec<MatrixProperties> = profile.flexible_properties.iter().map(|r| r.granularity).collect();
    let mut lists = vec![
        ("khrProperties", sizes(&profile.khr_properties)),
        ("flexibleProperties", sizes(&flexible)),
        ("nvProperties", profile.nv_properties.iter().map(|r| [r.m, r.n, r.k]).collect()),
    ];
    lists.extend(profile.properties2.iter().map(|query| ("properties2.entries", sizes(&query.entries))));
    lists
}

fn dimensions(list: &str, rows: Vec<[u32; 3]>) -> Result<(), ProfileError> {
    for (row, n) in rows.into_iter().zip(0..) {
        for (value, name) in row.into_iter().zip(["m", "n", "k"]) {
            if !(1..=MAX_DIMENSION).contains(&value) {
                let why = format!("{list}[{n}].{name} is {value}, not from 1 to {MAX_DIMENSION}");
                return Err(ProfileError(why));
            }
        }
    }
    Ok(())
}

fn extension(name: &str) -> Result<(), ProfileError> {
    let near = misspelt_extension(name);
    if near.is_none() && name.starts_with("VK_") {
        return Ok(());
    }
    Err(ProfileError(format!("extensions: '{name}' is not an extension of Vulkan{}", DidYouMean(near))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(members: &str) -> Result<Profile, String> {
        from_json(&format!(r#"{{"limits": {{"subgroupSize": 32}}{members}}}"#)).map_err(|e| e.to_string())
    }

    #[test]
    fn what_is_not_said_is_the_least() {
        let profile = with("").unwrap();
        assert!(!profile.has(Feature::ShaderFloat16));
        let limits = Limits { subgroup_size: 32, min_subgroup_size: 32, max_subgroup_size: 32, ..Limits::default() };
        assert_eq!(profile.limits, limits);
    }

    #[test]
    fn names_that_mean_nothing_are_errors() {
        for (members, why) in [
            (r#", "colour": "red""#, "there is no colour"),
            (r#", "khrProperty": []"#, "there is no khrProperty; did you mean 'khrProperties'?"),
            (r#", "features": {"shaderFlaot16": true}"#, "no features.shaderFlaot16; did you mean 'shaderFloat16'?"),
            (r#", "name": "a", "name": "b""#, "duplicate field `name`"),
            (r#", "features": {"shaderInt8": true, "shaderInt8": false}"#, "feature shaderInt8 is given twice"),
            (r#", "features": []"#, "features is a list, not an object"),
            (r#", "features": {"shaderInt8": 1}"#, "features.shaderInt8 is 1, not true or false"),
            (r#", "extensions": ["VK_KHR_cooperative_matix"]"#, "did you mean 'VK_KHR_cooperative_matrix'?"),
            (r#", "extensions": ["SPV_KHR_cooperative_matrix"]"#, "is not an extension of Vulkan"),
            (r#", "khrProperties": [[8, 8, 8]]"#, "khrProperties[0] is a list, not an object"),
            (r#", "khrProperties": [{"M": 8}]"#, "there is no khrProperties[0].M"),
            (r#", "apiVersion": "one""#, "'one' is not a version"),
        ] {
            let error = with(members).unwrap_err();
            assert!(error.starts_with("not a device profile: ") && error.contains(why), "{members}: {error}");
        }
        assert!(with(r#", "extensions": ["VK_KHR_maintenance99", "VK_KHR_cooperative_matrix3"]"#).is_ok());
    }

    #[test]
    fn numbers_that_no_device_has_are_errors() {
        let row = |m: &str| {
            format!(
                r#"{{"limits": {{"subgroupSize": 32}}, "khrProperties": [{{"m": {m}, "n": 8, "k": 8,
                    "a": "f16", "b": "f16", "c": "f16", "result": "f16", "scope": "subgroup"}}]}}"#
            )
        };
        let limits = |members: &str| format!(r#"{{"limits": {{{members}}}}}"#);
        for (text, why) in [
            (String::new(), "EOF"),
            ("[]".to_owned(), "a list is not an object"),
            ("12".to_owned(), "a number is not an object"),
            ("{}".to_owned(), "limits.subgroupSize is missing"),
            (limits(r#""subgroupSise": 32"#), "there is no limits.subgroupSise; did you mean 'subgroupSize'?"),
            (limits(r#""subgroupSize": 12"#), "limits.subgroupSize is 12, not a power of two"),
            (limits(r#""subgroupSize": 0"#), "limits.subgroupSize is 0, not a power of two"),
            (limits(r#""subgroupSize": 256"#), "no subgroup has more than 128"),
            (limits(r#""subgroupSize": -1"#), "invalid value"),
            (limits(r#""subgroupSize": 32, "minSubgroupSize": 64"#), "larger than"),
            (limits(r#""subgroupSize": 8, "minSubgroupSize": 16, "maxSubgroupSize": 32"#), "not from"),
            (row("0"), "khrProperties[0].m is 0"),
            (row("4294967295"), "khrProperties[0].m is 4294967295"),
        ] {
            let error = from_json(&text).unwrap_err().to_string();
            assert!(error.starts_with("not a device profile: ") && error.contains(why), "{text}: {error}");
        }
        assert!(from_json(&row("16")).is_ok());
    }
}
