//! `cooprun`: runs SPIR-V modules on devices and in the reference interpreter.
fn main() -> std::process::ExitCode {
    coop_cli::run("cooprun", coop_cli::cooprun::main)
}
