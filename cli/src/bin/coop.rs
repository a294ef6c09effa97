//! `coop`: one tool for SPIR-V modules, with what the others do and more for who writes compilers.
fn main() -> std::process::ExitCode {
    coop_cli::run("coop", coop_cli::coop::main)
}
