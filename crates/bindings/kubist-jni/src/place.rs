//! Exchanges two tables: the file system renames both folders in one atomic step, so a reader always finds a
//! table at the location.

use jni_sys::jbyteArray;
use kubist::ErrorKind;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::jvm::{Class, Env, Failure, ended, text};

#[unsafe(no_mangle)]
pub extern "system" fn Java_org_kubist_Native_exchange(env: Env, _: Class, one: jbyteArray, other: jbyteArray) {
    ended(env, (), || {
        // SAFETY: see lib.rs.
        let (one, other) = unsafe { (text(env, "location", one)?, text(env, "location", other)?) };
        renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).map_err(|errno| {
            let error = std::io::Error::from(errno);
            let cannot = matches!(errno, rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::XDEV);
            let kind = if cannot { ErrorKind::Unsupported } else { ErrorKind::of_io(&error) };
            Failure::new(kind, format!("cannot exchange {one} and {other}: {error}"))
        })
    });
}
