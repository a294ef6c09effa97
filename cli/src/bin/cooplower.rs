//! `cooplower`: lowers the cooperative matrices of SPIR-V modules.

fn main() -> std::process::ExitCode {
    coop_cli::run("cooplower", coop_cli::lower::main)
}
