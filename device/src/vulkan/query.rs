//! Queries a device's profile from its driver.

use std::ffi::CStr;

use super::structs::{
    self, Chain, DOT_PRODUCT_PROPERTIES, FEATURE_STRUCTS, FLOAT_CONTROLS_PROPERTIES, ListProperties2, ListRows, Row,
};
use super::{QueryError, check};
use crate::{
    ApiVersion, ComponentType, Feature, Features, FlexibleProperties, Limits, MatrixProperties, NvProperties, Origin,
    Profile, Properties2, Scope, SubgroupOperations, slow,
};
use ash::vk;

/// Queries everything that a profile holds. `version` is the newest that the instance may be used with.
///
/// # Safety
///
/// The instance is alive, was made through `entry`, and `device` is one of its devices.
pub unsafe fn profile(
    entry: &ash::Entry,
    instance: &ash::Instance,
    version: ApiVersion,
    device: vk::PhysicalDevice,
) -> Result<Profile, QueryError> {
    let mut query = Query::new(entry, instance, version, device)?;
    query.features();
    query.properties();
    query.khr_list()?;
    query.flexible_list()?;
    query.properties2()?;
    query.nv_list()?;
    let mut profile = query.profile;
    if profile.has(Feature::CooperativeMatrix) {
        profile.slow_matrices = slow::source(&profile.device);
    }
    Ok(profile)
}

/// Cooperative matrices need extended queries, which are core in 1.1.
fn has_queries(version: ApiVersion) -> bool {
    version.at_least(1, 1)
}

struct Query<'a> {
    entry: &'a ash::Entry,
    instance: &'a ash::Instance,
    device: vk::PhysicalDevice,
    /// The version that may be used: the older of the instance's and the device's.
    version: ApiVersion,
    profile: Profile,
}

impl<'a> Query<'a> {
    fn new(
        entry: &'a ash::Entry,
        instance: &'a ash::Instance,
        version: ApiVersion,
        device: vk::PhysicalDevice,
    ) -> Result<Query<'a>, QueryError> {
        // ash aborts when it does not find a function.
        let has = |name: &CStr| function(entry, instance, name).is_some();
        if !has(c"vkGetPhysicalDeviceProperties") || !has(c"vkGetPhysicalDeviceFeatures") {
            return Err(QueryError { call: "vkGetInstanceProcAddr", result: vk::Result::ERROR_INITIALIZATION_FAILED });
        }
        let extended = has(c"vkGetPhysicalDeviceFeatures2") && has(c"vkGetPhysicalDeviceProperties2");
        let version = if extended { version } else { ApiVersion::new(1, 0) };
        // SAFETY: the device is one of this instance.
        let (properties, extensions) = unsafe {
            (instance.get_physical_device_properties(device), instance.enumerate_device_extension_properties(device))
        };
        let extensions = check("vkEnumerateDeviceExtensionProperties", extensions)?;
        let mut names: Vec<String> =
            extensions.iter().map(|extension| text(extension.extension_name_as_c_str().ok())).collect();
        names.sort();
        let api_version = ApiVersion::from_packed(properties.api_version);
        let profile = Profile {
            device: text(properties.device_name_as_c_str().ok()),
            api_version,
            origin: Origin::Measured,
            extensions: names,
            limits: core_limits(&properties.limits),
            ..Profile::default()
        };
        Ok(Query { entry, instance, device, version: api_version.min(version), profile })
    }

    fn has(&self, extension: &str) -> bool {
        self.profile.has_extension(extension)
    }

    fn features(&mut self) {
        let mut chain = Chain::default();
        let mut asked = Vec::new();
        if has_queries(self.version) {
            for group in FEATURE_STRUCTS {
                if group.is_core_in(self.version) || self.has(group.extension) {
                    asked.push((chain.push(group.s_type, &[]), group));
                }
            }
        }
        let mut all = vk::PhysicalDeviceFeatures2 { p_next: chain.head(), ..Default::default() };
        // SAFETY: the chain holds structures that the device knows, each as large as Vulkan's or larger.
        unsafe {
            if has_queries(self.version) {
                self.instance.get_physical_device_features2(self.device, &mut all);
            } else {
                all.features = self.instance.get_physical_device_features(self.device);
            }
        }
        let mut features = Features::NONE;
        for (feature, on) in structs::core_features(&mut all.features) {
            features.set(feature, *on != vk::FALSE);
        }
        for (place, group) in asked {
            for (member, on) in group.members.iter().zip(chain.members(place)) {
                if let Some(feature) = *member {
                    features.set(feature, *on != vk::FALSE);
                }
            }
        }
        self.profile.features = features;
    }

    /// Limits and Boolean properties that are not in Vulkan 1.0.
    fn properties(&mut self) {
        if !has_queries(self.version) {
            return;
        }
        let mut chain = Chain::default();
        let mut ask = |wanted: bool, s_type| if wanted { Some(chain.push(s_type, &[])) } else { None };
        let subgroup = ask(true, structs::SUBGROUP_PROPERTIES);
        let size_control = ask(
            self.version.at_least(1, 3) || self.has("VK_EXT_subgroup_size_control"),
            structs::SUBGROUP_SIZE_CONTROL_PROPERTIES,
        );
        let controls =
            ask(self.version.at_least(1, 2) || self.has("VK_KHR_shader_float_controls"), FLOAT_CONTROLS_PROPERTIES);
        let dot =
            ask(self.version.at_least(1, 3) || self.has("VK_KHR_shader_integer_dot_product"), DOT_PRODUCT_PROPERTIES);
        let khr = ask(self.has("VK_KHR_cooperative_matrix"), structs::KHR_PROPERTIES);
        let nv = ask(self.has("VK_NV_cooperative_matrix"), structs::NV_PROPERTIES);
        let nv2 = ask(self.has("VK_NV_cooperative_matrix2"), structs::NV2_PROPERTIES);
        let long = ask(self.has("VK_EXT_shader_long_vector"), structs::LONG_VECTOR_PROPERTIES);
        let mut driver = vk::PhysicalDeviceDriverProperties { p_next: chain.head(), ..Default::default() };
        let has_driver = self.version.at_least(1, 2) || self.has("VK_KHR_driver_properties");
        let next = if has_driver { (&raw mut driver).cast() } else { chain.head() };
        let mut all = vk::PhysicalDeviceProperties2 { p_next: next, ..Default::default() };
        // SAFETY: as for the features; `driver` outlives the call.
        unsafe { self.instance.get_physical_device_properties2(self.device, &mut all) };

        if has_driver {
            self.profile.driver = text(driver.driver_name_as_c_str().ok());
            self.profile.driver_info = text(driver.driver_info_as_c_str().ok());
        }
        let answer = |place: Option<usize>| place.map(|place| chain.members(place));
        let limits = &mut self.profile.limits;
        if let Some([size, stages, operations, ..]) = answer(subgroup) {
            (limits.subgroup_size, limits.subgroup_supported_stages) = (*size, *stages);
            (limits.min_subgroup_size, limits.max_subgroup_size) = (*size, *size);
            limits.subgroup_supported_operations = SubgroupOperations(*operations);
        }
        if let Some([min, max, subgroups, stages, ..]) = answer(size_control) {
            (limits.min_subgroup_size, limits.max_subgroup_size) = (*min, *max);
            (limits.max_compute_workgroup_subgroups, limits.required_subgroup_size_stages) = (*subgroups, *stages);
        }
        // Compute is the one stage that either may have; where both exist, the KHR bit counts.
        if let Some([stages, ..]) = answer(khr).or(answer(nv)) {
            limits.cooperative_matrix_supported_stages = *stages;
        }
        if let Some([workgroup, dimension, reserved, ..]) = answer(nv2) {
            limits.cooperative_matrix_workgroup_scope_max_workgroup_size = *workgroup;
            limits.cooperative_matrix_flexible_dimensions_max_dimension = *dimension;
            limits.cooperative_matrix_workgroup_scope_reserved_shared_memory = *reserved;
        }
        if let Some([components, ..]) = answer(long) {
            limits.max_vector_components = *components;
        }
        let booleans = [
            (answer(controls).map(|members| &members[2..]), "VkPhysicalDeviceFloatControlsProperties"),
            (answer(dot).map(|members| &members[3..]), "VkPhysicalDeviceShaderIntegerDotProductProperties"),
        ];
        for (members, structure) in booleans {
            let group = Feature::ALL.iter().filter(|feature| feature.structure() == structure);
            for (feature, on) in group.zip(members.unwrap_or_default()) {
                self.profile.features.set(*feature, *on != vk::FALSE);
            }
        }
    }

    fn khr_list(&mut self) -> Result<(), QueryError> {
        if self.profile.has(Feature::CooperativeMatrix) {
            let name = c"vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR";
            let rows = self.rows::<9>(name, structs::KHR_ROW)?;
            self.profile.khr_properties = rows.iter().map(matrix_row).collect();
        }
        Ok(())
    }

    fn flexible_list(&mut self) -> Result<(), QueryError> {
        if self.profile.has(Feature::CooperativeMatrixFlexibleDimensions) {
            let name = c"vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV";
            let rows = self.rows::<10>(name, structs::FLEXIBLE_ROW)?;
            let flexible = |row: &[u32; 10]| FlexibleProperties {
                granularity: matrix_row(&std::array::from_fn(|member| row[member])),
                workgroup_invocations: row[9],
            };
            self.profile.flexible_properties = rows.iter().map(flexible).collect();
        }
        Ok(())
    }

    fn nv_list(&mut self) -> Result<(), QueryError> {
        if self.profile.has(Feature::CooperativeMatrixNv) {
            let rows = self.rows::<8>(c"vkGetPhysicalDeviceCooperativeMatrixPropertiesNV", structs::NV_ROW)?;
            let row = |&[m, n, k, a, b, c, d, scope]: &[u32; 8]| {
                let [a, b, c, d] = [a, b, c, d].map(ComponentType::from_vk);
                NvProperties { m, n, k, a, b, c, d, scope: Scope::from_number(scope) }
            };
            self.profile.nv_properties = rows.iter().map(row).collect();
        }
        Ok(())
    }

    /// Queries both scopes, every size of subgroup and of workgroup that can be required, saturating and not.
    fn properties2(&mut self) -> Result<(), QueryError> {
        if !self.profile.has(Feature::CooperativeMatrixProperties2) {
            return Ok(());
        }
        let Limits { subgroup_size, min_subgroup_size, max_subgroup_size, .. } = self.profile.limits;
        let most = self.profile.limits.cooperative_matrix_workgroup_scope_max_workgroup_size;
        let mut sizes = vec![0];
        if self.profile.has(Feature::SubgroupSizeControl) {
            sizes.extend(powers_of_two(min_subgroup_size, max_subgroup_size));
        } else {
            sizes.push(subgroup_size);
        }
        let mut keys = Vec::new();
        for &size in &sizes {
            keys.push((Scope::Subgroup, 0, size));
            if self.profile.has(Feature::CooperativeMatrixWorkgroupScope) {
                let invocations = powers_of_two(size.max(min_subgroup_size), most);
                keys.extend(invocations.map(|invocations| (Scope::Workgroup, invocations, size)));
            }
        }
        for (scope, invocations, subgroup_size) in keys {
            for saturating in [false, true] {
                let key = Properties2 { scope, invocations, subgroup_size, saturating, entries: Vec::new() };
                let entries = self.properties2_rows(&key)?;
                self.profile.properties2.push(Properties2 { entries, ..key });
            }
        }
        Ok(())
    }

    fn properties2_rows(&self, key: &Properties2) -> Result<Vec<MatrixProperties>, QueryError> {
        let name = c"vkGetPhysicalDeviceCooperativeMatrixProperties2EXT";
        let Some(function) = self.function(name) else { return Ok(Vec::new()) };
        // SAFETY: the function's type is the one that belongs to its name.
        let function =
            unsafe { std::mem::transmute::<vk::PFN_vkVoidFunction, Option<ListProperties2>>(Some(function)) };
        let Some(function) = function else { return Ok(Vec::new()) };
        let mut info = Row::<4>::new(structs::PROPERTIES2_INFO);
        info.members = [key.scope.number(), key.invocations, key.subgroup_size, u32::from(key.saturating)];
        let rows = list(structs::PROPERTIES2_ROW, |count, rows| {
            // SAFETY: `count` says how many elements `rows` has; `info` outlives the call.
            unsafe { function(self.device, &info, count, rows) }
        });
        let rows = check("vkGetPhysicalDeviceCooperativeMatrixProperties2EXT", rows)?;
        let row = |&[m, n, k, a, b, c, result]: &[u32; 7]| {
            let [a, b, c, result] = [a, b, c, result].map(ComponentType::from_vk);
            MatrixProperties { m, n, k, a, b, c, result, saturating: key.saturating, scope: key.scope }
        };
        Ok(rows.iter().map(row).collect())
    }

    fn function(&self, name: &CStr) -> Option<unsafe extern "system" fn()> {
        function(self.entry, self.instance, name)
    }

    fn rows<const N: usize>(&self, name: &'static CStr, s_type: i32) -> Result<Vec<[u32; N]>, QueryError> {
        let Some(function) = self.function(name) else { return Ok(Vec::new()) };
        // SAFETY: all functions that are queried this way have this type, with rows of N members.
        let function = unsafe { std::mem::transmute::<vk::PFN_vkVoidFunction, Option<ListRows<N>>>(Some(function)) };
        let Some(function) = function else { return Ok(Vec::new()) };
        let rows = list(s_type, |count, rows| {
            // SAFETY: `count` says how many elements `rows` has.
            unsafe { function(self.device, count, rows) }
        });
        check(name.to_str().unwrap_or("a query of cooperative matrices"), rows)
    }
}

fn function(entry: &ash::Entry, instance: &ash::Instance, name: &CStr) -> Option<unsafe extern "system" fn()> {
    // SAFETY: the instance is alive and the name ends with a zero.
    unsafe { entry.get_instance_proc_addr(instance.handle(), name.as_ptr()) }
}

/// Lists items as Vulkan does: query the count, then the elements, again if there are more by then.
fn list<const N: usize>(
    s_type: i32,
    mut call: impl FnMut(*mut u32, *mut Row<N>) -> vk::Result,
) -> Result<Vec<[u32; N]>, vk::Result> {
    loop {
        let mut count = 0;
        call(&mut count, std::ptr::null_mut()).result()?;
        let mut rows = vec![Row::new(s_type); count as usize];
        match call(&mut count, rows.as_mut_ptr()) {
            vk::Result::INCOMPLETE => {}
            other => {
                other.result()?;
                rows.truncate(count as usize);
                return Ok(rows.iter().map(|row| row.members).collect());
            }
        }
    }
}

fn matrix_row(&[m, n, k, a, b, c, result, saturating, scope]: &[u32; 9]) -> MatrixProperties {
    let [a, b, c, result] = [a, b, c, result].map(ComponentType::from_vk);
    MatrixProperties { m, n, k, a, b, c, result, saturating: saturating != 0, scope: Scope::from_number(scope) }
}

fn powers_of_two(low: u32, high: u32) -> impl Iterator<Item = u32> {
    (0..32).map(|power| 1 << power).filter(move |size| (low..=high).contains(size))
}

fn text(text: Option<&CStr>) -> String {
    text.map(CStr::to_string_lossy).unwrap_or_default().into_owned()
}

fn core_limits(limits: &vk::PhysicalDeviceLimits) -> Limits {
    Limits {
        max_compute_shared_memory_size: limits.max_compute_shared_memory_size,
        max_compute_work_group_invocations: limits.max_compute_work_group_invocations,
        max_compute_work_group_size: limits.max_compute_work_group_size,
        max_compute_work_group_count: limits.max_compute_work_group_count,
        max_push_constants_size: limits.max_push_constants_size,
        max_storage_buffer_range: limits.max_storage_buffer_range.into(),
        max_uniform_buffer_range: limits.max_uniform_buffer_range.into(),
        timestamp_period: if limits.timestamp_compute_and_graphics == vk::TRUE { limits.timestamp_period } else { 0.0 },
        ..Limits::default()
    }
}
