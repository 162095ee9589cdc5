//! `kubist pack` and `kubist unpack`: a table as one sealed file, and back.

use kubist::{Cancel, CopyOptions, Table};

use crate::args;
use crate::failure::Result;
use crate::human;
use crate::output::{print_json, remark};
use crate::progress::Progress;

pub fn pack(command: &args::Pack, cancel: &Cancel) -> Result<()> {
    let mut snapshot = Table::open(&command.table)?.snapshot()?;
    if let Some(step) = command.step {
        snapshot = snapshot.at_step(step)?;
    }
    let options = CopyOptions { memory_bytes: command.memory, cancel: cancel.clone(), ..CopyOptions::default() };
    let packed = with_progress(|tell| Ok(snapshot.pack(&command.file, &options, tell)?))?;
    if command.json {
        return print_json(&packed);
    }
    remark(&format!(
        "{}: {} from {} in {}, {}",
        command.file.display(),
        human::counted(packed.rows, "record"),
        command.table,
        human::duration(packed.seconds),
        human::bytes(packed.bytes)
    ));
    Ok(())
}

pub fn unpack(command: &args::Unpack, cancel: &Cancel) -> Result<()> {
    let options = CopyOptions { memory_bytes: command.memory, cancel: cancel.clone(), ..CopyOptions::default() };
    let copied = with_progress(|tell| Ok(Table::unpack(&command.file, &command.table, &options, tell)?))?;
    if command.json {
        return print_json(&copied);
    }
    remark(&format!(
        "{}: {} from {} in {}, {} written",
        command.table,
        human::counted(copied.rows, "record"),
        command.file.display(),
        human::duration(copied.seconds),
        human::bytes(copied.bytes_written)
    ));
    Ok(())
}

fn with_progress<T>(work: impl FnOnce(&mut dyn FnMut(u64, u64)) -> Result<T>) -> Result<T> {
    let mut progress = Progress::new();
    work(&mut |done, all| {
        progress.show(done, all, |seconds| {
            format!("{} records read, {}/s", human::count(done), human::rate(done as f64 / seconds))
        });
    })
}
