//! The user's settings, from `VK_EXT_layer_settings` or environment variables.
//!
//! A setting `name` is the variable `COOPMAT_NAME`, and `coopmat_fallback.name` in `vk_layer_settings.txt`; an application's own word
//! comes first, then the variable, then the file. Programs that run with more rights than their user listen to no variable, read no
//! such file and keep nothing in files.

use std::ffi::{CStr, c_char, c_void};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ash::vk;
use coopmat::{Lanes, Target};

use crate::additions::Group;
use crate::cache::{self, Folder};
use crate::log::{self, Level};

/// The layer's name, as the loader and settings know it.
pub(crate) const LAYER: &CStr = c"VK_LAYER_COOPMAT_fallback";

/// The settings of an instance.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The groups of extensions that are added where the driver has them not.
    pub(crate) extensions: Vec<Group>,
    /// Extensions that are hidden from the application though the driver has them, by name.
    pub(crate) hide: Vec<String>,
    /// The target of lowered modules.
    pub(crate) target: Target,
    /// The lane number of an invocation.
    pub(crate) lanes: Lanes,
    /// True if modules that the device runs are lowered all the same.
    pub(crate) always_lower: bool,
    /// True if modules that break rules are refused.
    pub(crate) check_rules: bool,
    /// True if elements outside of tensors read as zero where layouts leave them undefined.
    pub(crate) undefined_as_zero: bool,
    /// True if the pointers of tensor accesses may be at any multiple of an element's size.
    pub(crate) unaligned_tensors: bool,
    /// True if arithmetic with f16 that the device lacks keeps the precision of f32.
    pub(crate) excess_precision: bool,
    /// True if a module that is specialized for a subgroup size gets it, emulated if need be.
    pub(crate) baked_subgroup_size: bool,
    /// The folder that was named for it.
    cache_folder: Option<PathBuf>,
    /// The megabytes that the folder may have.
    cache_mb: u64,
    /// The cache folder shared with other processes.
    pub(crate) cache: Option<Arc<Folder>>,
    /// The time limit of a lowering.
    pub(crate) time_limit: Duration,
    /// The most instructions that a lowering makes: about a hundred bytes each. Without it, the library's own limit.
    pub(crate) max_instructions: Option<usize>,
    /// The most words of a module that is lowered.
    pub(crate) max_words: usize,
    /// The folder where refused modules are written.
    pub(crate) dump: Option<PathBuf>,
    /// True if modules that are lowered are written there too.
    pub(crate) dump_all: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            extensions: vec![Group::Khr, Group::Nv2],
            hide: Vec::new(),
            target: Target::Auto,
            lanes: Lanes::Auto,
            always_lower: false,
            check_rules: true,
            undefined_as_zero: true,
            unaligned_tensors: true,
            excess_precision: false,
            baked_subgroup_size: true,
            cache_folder: None,
            cache_mb: 256,
            cache: None,
            time_limit: Duration::from_secs(10),
            max_instructions: None,
            max_words: 4 << 20,
            dump: None,
            dump_all: false,
        }
    }
}

/// The names of all settings, with what they take.
pub(crate) const SETTINGS: &[(&str, &str)] = &[
    ("extensions", "groups to add: khr, nv2, decode-vector, maintenance1, bfloat16 or all, none"),
    ("hide", "extensions to hide, by their Vulkan names"),
    ("target", "auto, scalar or khr"),
    ("lanes", "auto, subgroup or local-index"),
    ("always_lower", "1 to lower modules that the device runs too"),
    ("check_rules", "0 to lower modules that break rules of cooperative matrices"),
    ("undefined_as_zero", "0 to leave elements outside of tensors undefined where layouts do"),
    ("unaligned_tensors", "0 to take pointers of tensor accesses for multiples of 16 bytes"),
    ("excess_precision", "1 to round f16 that the device lacks only where it is stored"),
    ("baked_subgroup_size", "0 to give modules any subgroup size, whatever size their constants show"),
    ("cache_dir", "a folder to keep lowered modules in"),
    ("cache_mb", "megabytes that the folder may have, 0 for none"),
    ("time_limit_ms", "milliseconds that lowering a pipeline may take"),
    ("max_instructions", "instructions that the lowering of a pipeline may make"),
    ("max_words", "words of the largest module that is lowered"),
    ("dump_dir", "a folder for modules that were refused"),
    ("dump_all", "1 to write lowered modules there too"),
    ("log", "off, error, warn, info or debug"),
    ("log_file", "a file for the log, which is appended to"),
];

impl Settings {
    /// Reads the settings of an instance, and sets the log up.
    ///
    /// # Safety
    ///
    /// `chain` is the `pNext` of a valid `VkInstanceCreateInfo`.
    pub(crate) unsafe fn read(chain: *const c_void) -> Settings {
        // SAFETY: the caller's promise.
        let own = unsafe { from_chain(chain) };
        let listen = !is_privileged();
        let file = if listen { settings_file().and_then(|path| std::fs::read_to_string(path).ok()) } else { None };
        let file = file.map_or_else(Vec::new, |text| from_file(&text));
        let among =
            |all: &[(String, String)], name: &str| all.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone());
        let get = |name: &str| {
            let variable = || listen.then(|| std::env::var(format!("COOPMAT_{}", name.to_uppercase())).ok()).flatten();
            among(&own, name).or_else(variable).or_else(|| among(&file, name))
        };
        let level = get("log").map(|text| Level::parse(&text).unwrap_or(Level::Info)).unwrap_or(Level::Error);
        let file = get("log_file").filter(|path| !path.is_empty());
        let open = |path: String| std::fs::OpenOptions::new().create(true).append(true).open(path).ok();
        log::configure(level, file.and_then(open));
        let mut settings = Settings::default();
        for (name, takes) in SETTINGS {
            if let Some(value) = get(name)
                && settings.set(name, value.trim()).is_none()
            {
                log::error(format_args!("setting {name}: '{value}' is not among {takes}; it is left as it is"));
            }
        }
        if listen {
            let folder = settings.cache_folder.clone().or_else(cache::usual_folder);
            let open = |path: PathBuf| Folder::open(&path, settings.cache_mb.saturating_mul(1 << 20));
            settings.cache = folder.and_then(open).map(Arc::new);
        }
        settings
    }

    fn set(&mut self, name: &str, value: &str) -> Option<()> {
        match name {
            "extensions" => {
                let names = value.split([',', ' ']).filter(|name| !name.is_empty());
                self.extensions = match value {
                    "all" => Group::ALL.to_vec(),
                    "none" => Vec::new(),
                    _ => names.map(Group::parse).collect::<Option<_>>()?,
                };
            }
            "hide" => self.hide = value.split([',', ' ']).filter(|s| !s.is_empty()).map(str::to_owned).collect(),
            "target" => {
                self.target = match value {
                    "auto" => Target::Auto,
                    "scalar" => Target::Scalar,
                    "khr" => Target::Khr,
                    _ => return None,
                }
            }
            "lanes" => {
                self.lanes = match value {
                    "auto" => Lanes::Auto,
                    "subgroup" => Lanes::Subgroup,
                    "local-index" => Lanes::LocalIndex,
                    _ => return None,
                }
            }
            "always_lower" => self.always_lower = boolean(value)?,
            "check_rules" => self.check_rules = boolean(value)?,
            "undefined_as_zero" => self.undefined_as_zero = boolean(value)?,
            "unaligned_tensors" => self.unaligned_tensors = boolean(value)?,
            "excess_precision" => self.excess_precision = boolean(value)?,
            "baked_subgroup_size" => self.baked_subgroup_size = boolean(value)?,
            "cache_dir" => self.cache_folder = (!value.is_empty()).then(|| PathBuf::from(value)),
            "cache_mb" => self.cache_mb = value.parse().ok()?,
            "time_limit_ms" => self.time_limit = Duration::from_millis(value.parse().ok()?),
            "max_instructions" => self.max_instructions = Some(value.parse().ok()?),
            "max_words" => self.max_words = value.parse().ok()?,
            "dump_dir" => self.dump = (!value.is_empty()).then(|| PathBuf::from(value)),
            "dump_all" => self.dump_all = boolean(value)?,
            "log" => return Level::parse(value).map(|_| ()),
            _ => {}
        }
        Some(())
    }
}

fn boolean(value: &str) -> Option<bool> {
    match value {
        "1" | "true" => Some(true),
        "0" | "false" => Some(false),
        _ => None,
    }
}

/// The file of settings of all layers: the one that a variable names, as a file or by its folder, that of the working directory, or
/// the user's.
fn settings_file() -> Option<PathBuf> {
    const NAME: &str = "vk_layer_settings.txt";
    let path = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let named = path("VK_LAYER_SETTINGS_PATH").map(|path| if path.is_dir() { path.join(NAME) } else { path });
    let data = path("XDG_DATA_HOME").or_else(|| Some(path("HOME")?.join(".local/share")));
    let of_user = data.map(|data| data.join("vulkan/settings.d").join(NAME));
    [named, Some(Path::new(NAME).to_owned()), of_user].into_iter().flatten().find(|path| path.is_file())
}

/// Returns the settings of this layer in the text of such a file: `coopmat_fallback.name = value`.
fn from_file(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let setting = |line: &str| {
        let (name, value) = line.split_once('=')?;
        Some((name.trim().strip_prefix("coopmat_fallback.")?.to_owned(), value.trim().to_owned()))
    };
    // The last word counts.
    let mut all: Vec<(String, String)> = lines.filter_map(setting).collect();
    all.reverse();
    all
}

/// Returns true if the program has rights that its user has not (setuid, setgid, capabilities): the kernel says so to
/// the dynamic linker.
fn is_privileged() -> bool {
    #[cfg(target_os = "linux")]
    {
        const AT_SECURE: std::ffi::c_ulong = 23;
        unsafe extern "C" {
            safe fn getauxval(kind: std::ffi::c_ulong) -> std::ffi::c_ulong;
        }
        getauxval(AT_SECURE) != 0
    }
    #[cfg(not(target_os = "linux"))]
    false
}

/// `VkLayerSettingEXT`.
#[repr(C)]
struct LayerSetting {
    layer: *const c_char,
    name: *const c_char,
    kind: i32,
    count: u32,
    values: *const c_void,
}

/// `VkLayerSettingsCreateInfoEXT`.
#[repr(C)]
struct LayerSettingsCreateInfo {
    s_type: i32,
    p_next: *const c_void,
    count: u32,
    settings: *const LayerSetting,
}

/// `VK_STRUCTURE_TYPE_LAYER_SETTINGS_CREATE_INFO_EXT`.
const LAYER_SETTINGS_CREATE_INFO: i32 = 1_000_496_000;

/// Returns the settings that an application gives this layer: names and values as text.
///
/// # Safety
///
/// As for [`Settings::read`].
unsafe fn from_chain(chain: *const c_void) -> Vec<(String, String)> {
    let mut found = Vec::new();
    // SAFETY: the caller's promise.
    for s in unsafe { crate::chain::structures(chain) } {
        // SAFETY: a structure of that number has that layout, its array the length it says, and its strings end in zero.
        unsafe {
            if (*s).s_type != LAYER_SETTINGS_CREATE_INFO {
                continue;
            }
            let info = &*s.cast::<LayerSettingsCreateInfo>();
            for index in 0..info.count as usize {
                let setting = &*info.settings.add(index);
                if CStr::from_ptr(setting.layer) == LAYER
                    && let Some(value) = setting_text(setting)
                {
                    found.push((CStr::from_ptr(setting.name).to_string_lossy().into_owned(), value));
                }
            }
        }
    }
    found
}

/// # Safety
///
/// The setting is valid: as many values as it counts, of its type.
unsafe fn setting_text(setting: &LayerSetting) -> Option<String> {
    let text = |index: usize| {
        let values = setting.values;
        // SAFETY: the caller's promise; the types are those of `VkLayerSettingTypeEXT`.
        unsafe {
            Some(match setting.kind {
                0 => (*values.cast::<vk::Bool32>().add(index)).to_string(),
                1 => (*values.cast::<i32>().add(index)).to_string(),
                2 => (*values.cast::<i64>().add(index)).to_string(),
                3 => (*values.cast::<u32>().add(index)).to_string(),
                4 => (*values.cast::<u64>().add(index)).to_string(),
                5 => (*values.cast::<f32>().add(index)).to_string(),
                6 => (*values.cast::<f64>().add(index)).to_string(),
                7 => CStr::from_ptr(*values.cast::<*const c_char>().add(index)).to_string_lossy().into_owned(),
                _ => return None,
            })
        }
    };
    let all: Option<Vec<String>> = (0..setting.count as usize).map(text).collect();
    Some(all?.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_has_every_setting() {
        let readme = include_str!("../README.md");
        for (name, _) in SETTINGS {
            assert!(readme.contains(&format!("| `{name}` |")), "{name} is not in layer/README.md");
        }
    }

    #[test]
    fn values_are_read_or_left() {
        let mut settings = Settings::default();
        assert_eq!(settings.set("extensions", "khr, bfloat16"), Some(()));
        assert_eq!(settings.extensions, [Group::Khr, Group::Bfloat16]);
        assert_eq!(settings.set("extensions", "khr,nv3"), None);
        assert_eq!(settings.extensions, [Group::Khr, Group::Bfloat16]);
        assert_eq!(settings.set("target", "scalar"), Some(()));
        assert_eq!(settings.target, Target::Scalar);
        assert_eq!((settings.set("time_limit_ms", "-1"), settings.set("dump_all", "yes")), (None, None));
        for (name, _) in SETTINGS {
            let known = ["all", "x", "0", "auto", "off"].iter().any(|value| settings.set(name, value).is_some());
            assert!(known, "{name}");
        }
    }

    #[test]
    fn files_have_settings_of_all_layers() {
        let text = "# of all\nkhronos_validation.log = x\ncoopmat_fallback.log = info # more\n  coopmat_fallback.target=scalar\n\
                    coopmat_fallback.log = debug\nnothing\n";
        let all = from_file(text);
        let log = all.iter().find(|(name, _)| name == "log").map(|(_, value)| value.as_str());
        assert_eq!(log, Some("debug"));
        assert!(all.contains(&("target".to_owned(), "scalar".to_owned())) && all.len() == 3, "{all:?}");
    }

    /// Set in the second process.
    #[cfg(target_os = "linux")]
    const CHILD: &str = "COOP_LAYER_SETUID_TEST";

    /// Runs in a process of its own: reads the variables that the test below sets.
    #[cfg(target_os = "linux")]
    #[test]
    fn variables_of_a_process() {
        let Some(child) = std::env::var_os(CHILD) else { return };
        // SAFETY: there is no chain.
        let settings = unsafe { Settings::read(std::ptr::null()) };
        if child == "setuid" {
            assert!(is_privileged(), "the kernel set no AT_SECURE: is the file system mounted with nosuid?");
            assert_eq!(settings.extensions, Settings::default().extensions);
            assert_eq!((settings.target, settings.dump), (Target::Auto, None));
            assert!(settings.cache.is_none());
        } else {
            assert!(!is_privileged());
            assert_eq!(settings.extensions, []);
            assert_eq!((settings.target, settings.dump), (Target::Scalar, Some(PathBuf::from("/nowhere"))));
            assert!(settings.cache.is_some());
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn setuid_programs_listen_to_no_variable() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

        const NOBODY: u32 = 65534;
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        if std::fs::metadata("/proc/self").unwrap().uid() != 0 || !status.contains("NoNewPrivs:\t0") {
            eprintln!("SKIPPED, only root can make a program that is another user's, where new rights are allowed");
            return;
        }
        let folder = std::env::temp_dir().join(format!("coopmat-setuid-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
        let file = folder.join("vk_layer_settings.txt");
        std::fs::write(&file, "coopmat_fallback.target = scalar\n").unwrap();
        // `current_exe` would name the linker that a driver's wrapper starts programs with.
        let program = folder.join("program");
        std::fs::copy(std::env::args_os().next().unwrap(), &program).unwrap();
        for (child, mode) in [("plain", 0o755), ("setuid", 0o4755)] {
            if child == "setuid" {
                chown(&program, Some(NOBODY), Some(NOBODY)).unwrap();
            }
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(mode)).unwrap();
            let mut command = std::process::Command::new(&program);
            command.args(["--exact", "settings::tests::variables_of_a_process"]).env(CHILD, child);
            command.env("COOPMAT_EXTENSIONS", "none").env("COOPMAT_DUMP_DIR", "/nowhere");
            command.env("COOPMAT_CACHE_DIR", folder.join("cache")).env("VK_LAYER_SETTINGS_PATH", &file);
            let output = command.output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && said.contains("1 passed"), "{child}: {said}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn an_application_has_the_first_word() {
        let value = c"khr".as_ptr();
        let setting = |layer: &'static CStr| LayerSetting {
            layer: layer.as_ptr(),
            name: c"extensions".as_ptr(),
            kind: 7,
            count: 1,
            values: (&raw const value).cast(),
        };
        let settings = [setting(c"VK_LAYER_KHRONOS_validation"), setting(LAYER)];
        let info = LayerSettingsCreateInfo {
            s_type: LAYER_SETTINGS_CREATE_INFO,
            p_next: std::ptr::null(),
            count: 2,
            settings: settings.as_ptr(),
        };
        // SAFETY: all of it is alive.
        let found = unsafe { from_chain((&raw const info).cast()) };
        assert_eq!(found, [("extensions".to_owned(), "khr".to_owned())]);
    }
}
