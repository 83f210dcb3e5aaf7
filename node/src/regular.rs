//! Regular files, opened whatever else may have their name.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

/// Opens a file for reading and tells its length in bytes. Links are followed; what is opened is looked at before it is
/// read, and a pipe without another end is not waited for.
///
/// # Errors
/// What the system says, and an error that says so when it is no regular file.
pub(crate) fn open(path: &Path) -> io::Result<(File, u64)> {
    with(OpenOptions::new().read(true), path, true)
}

/// Opens a file for reading and writing, made empty when it is not there. A link is not followed: what is written stays in
/// the folder.
///
/// # Errors
/// As [`open`].
pub(crate) fn open_or_create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    Ok(with(&mut options, path, false)?.0)
}

#[cfg_attr(not(unix), allow(unused_variables))]
fn with(options: &mut OpenOptions, path: &Path, follow: bool) -> io::Result<(File, u64)> {
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt;
        let mut flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        flags.set(OFlags::NOFOLLOW, !follow);
        options.custom_flags(flags.bits() as i32);
    }
    let file = options.open(path).map_err(|e| match e.raw_os_error() {
        #[cfg(unix)]
        Some(code) if !follow && code == rustix::io::Errno::LOOP.raw_os_error() => irregular(),
        _ => e,
    })?;
    let facts = file.metadata()?;
    match facts.is_file() {
        true => Ok((file, facts.len())),
        false => Err(irregular()),
    }
}

fn irregular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn nothing_but_files() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("file"), "seven b").unwrap();
        symlink(at("file"), at("link")).unwrap();
        symlink("/dev/zero", at("zeros")).unwrap();
        symlink(at("nothing"), at("dangling")).unwrap();
        std::fs::create_dir(at("folder")).unwrap();
        let pipe = std::process::Command::new("mkfifo")
            .arg(at("pipe"))
            .status();
        assert!(pipe.unwrap().success());
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();

        assert_eq!(open(&at("file")).unwrap().1, 7);
        assert_eq!(open(&at("link")).unwrap().1, 7);
        for name in ["zeros", "folder", "pipe", "socket"] {
            // A socket cannot even be opened.
            assert!(open(&at(name)).is_err(), "{name}");
        }
        for name in ["nothing", "dangling"] {
            let error = open(&at(name)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
        }
        for name in ["link", "zeros", "dangling", "folder", "pipe", "socket"] {
            assert!(open_or_create(&at(name)).is_err(), "{name}");
        }
        assert!(!at("nothing").exists());
        open_or_create(&at("file")).unwrap();
        open_or_create(&at("new")).unwrap();
        assert_eq!(std::fs::read(at("file")).unwrap(), b"seven b");
        assert_eq!(open(&at("new")).unwrap().1, 0);
    }
}
