//! `cooprun`: SPIR-V modules on a Vulkan device.
fn main() -> std::process::ExitCode {
    coop_cli::run("cooprun", coop_cli::cooprun::main)
}
