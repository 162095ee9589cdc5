//! The command as a program that needs no Python.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: kubist_memory::Allocator = kubist_memory::Allocator;

fn main() -> ExitCode {
    kubist_memory::keep();
    ExitCode::from(kubist_cli::main(std::env::args_os().collect(), None))
}
