//! `coopcheck`: checks the cooperative matrices of SPIR-V modules.
fn main() -> std::process::ExitCode {
    coop_cli::run("coopcheck", coop_cli::check::main)
}
