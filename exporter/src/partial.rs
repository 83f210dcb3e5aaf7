//! The work folder of an export that can be interrupted and resumed.
//!
//! Each finished piece is one file that carries the key of its export (checkpoint, calibration, revision of the arithmetic) and a
//! SHA-256 over everything before it. A file that is stale, cut short or damaged in any bit reads as absent.

use crate::error::ExportError;
use crate::gptq::Quantized;
use sha2::{Digest, Sha256};
use std::fs::{File, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"BLUEPART";
const HEADER: usize = 8 + 32 + 8;

/// The file whose lock one running export holds.
const LOCK: &str = "lock";

/// A work folder, locked against other exports to the same output.
pub(crate) struct Partial {
    folder: PathBuf,
    key: [u8; 32],
    /// Held, not read: the lock ends with the file.
    _lock: File,
}

impl Partial {
    /// The folder beside `out`, made if need be.
    pub(crate) fn open(out: &Path, key: [u8; 32]) -> Result<Self, ExportError> {
        let mut name = out.as_os_str().to_owned();
        name.push(".partial");
        let folder = PathBuf::from(name);
        std::fs::create_dir_all(&folder).map_err(ExportError::io(&folder))?;
        let path = folder.join(LOCK);
        let lock = File::create(&path).map_err(ExportError::io(&path))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self {
                folder,
                key,
                _lock: lock,
            }),
            Err(TryLockError::WouldBlock) => Err(ExportError::Busy { folder }),
            Err(TryLockError::Error(e)) => Err(ExportError::io(&path)(e)),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Stores a piece: beside its place, synced, then renamed. `index` is a number that the piece depends on.
    pub(crate) fn store(&self, name: &str, index: u64, payload: &[u8]) -> Result<(), ExportError> {
        let (path, beside) = (self.path(name), self.path(&format!("{name}.tmp")));
        let mut hash = Sha256::new();
        let write = || -> std::io::Result<()> {
            let mut file = File::create(&beside)?;
            for part in [&MAGIC[..], &self.key, &index.to_le_bytes(), payload] {
                hash.update(part);
                file.write_all(part)?;
            }
            file.write_all(&hash.finalize())?;
            file.sync_all()?;
            std::fs::rename(&beside, &path)?;
            sync_folder(&self.folder)
        };
        write().map_err(ExportError::io(&path))
    }

    /// The index and payload of a piece; `None` unless every bit of it is as this export stored it.
    pub(crate) fn load(&self, name: &str) -> Option<(u64, Vec<u8>)> {
        let mut bytes = std::fs::read(self.path(name)).ok()?;
        let body = bytes.len().checked_sub(32)?;
        let index = u64::from_le_bytes(bytes.get(40..HEADER)?.try_into().ok()?);
        let good = body >= HEADER
            && bytes[..8] == *MAGIC
            && bytes[8..40] == self.key
            && Sha256::digest(&bytes[..body])[..] == bytes[body..];
        bytes.truncate(body);
        good.then(|| (index, bytes.split_off(HEADER)))
    }

    /// Removes the pieces, of this export or an earlier one, and the folder unless something else is in it.
    pub(crate) fn remove(self) -> Result<(), ExportError> {
        let remove = || -> std::io::Result<()> {
            for entry in std::fs::read_dir(&self.folder)? {
                let path = entry?.path();
                if path.file_name().is_some_and(|name| name == LOCK) || is_piece(&path) {
                    std::fs::remove_file(&path)?;
                }
            }
            match std::fs::remove_dir(&self.folder) {
                Err(e) if e.kind() != std::io::ErrorKind::DirectoryNotEmpty => Err(e),
                _ => Ok(()),
            }
        };
        remove().map_err(ExportError::io(&self.folder))
    }
}

/// Whether a file is a piece, whole or cut short.
fn is_piece(path: &Path) -> bool {
    let mut start = [0; MAGIC.len()];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
    path.is_file() && read.is_ok() && start == *MAGIC
}

/// Makes renames in a folder durable, where folders can be synced.
pub(crate) fn sync_folder(folder: &Path) -> std::io::Result<()> {
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    if cfg!(unix) {
        File::open(folder)?.sync_all()
    } else {
        Ok(())
    }
}

/// Appends values in a fixed little-endian form.
#[derive(Default)]
pub(crate) struct Encoder(pub(crate) Vec<u8>);

impl Encoder {
    pub(crate) fn uint(&mut self, v: u64) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }

    pub(crate) fn float(&mut self, v: f64) {
        self.uint(v.to_bits());
    }

    pub(crate) fn floats(&mut self, v: &[f64]) {
        self.uint(v.len() as u64);
        v.iter().for_each(|&v| self.float(v));
    }

    pub(crate) fn bytes(&mut self, v: &[u8]) {
        self.uint(v.len() as u64);
        self.0.extend_from_slice(v);
    }

    /// Codes and scales; what rounding did is in the report.
    pub(crate) fn matrix(&mut self, q: &Quantized) {
        self.uint(q.rows as u64);
        self.uint(q.cols as u64);
        self.0.extend(q.codes.iter().map(|&c| c as u8));
        q.scales.iter().for_each(|&v| self.float(v));
    }
}

/// Reads what [`Encoder`] wrote; `None` past the end.
pub(crate) struct Decoder<'a>(pub(crate) &'a [u8]);

impl<'a> Decoder<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(n)?;
        self.0 = tail;
        Some(head)
    }

    pub(crate) fn uint(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    pub(crate) fn float(&mut self) -> Option<f64> {
        self.uint().map(f64::from_bits)
    }

    pub(crate) fn floats(&mut self) -> Option<Vec<f64>> {
        let n = usize::try_from(self.uint()?).ok()?;
        self.exact_floats(n)
    }

    fn exact_floats(&mut self, n: usize) -> Option<Vec<f64>> {
        let bytes = self.take(n.checked_mul(8)?)?;
        let float = |b: &[u8]| Some(f64::from_bits(u64::from_le_bytes(b.try_into().ok()?)));
        bytes.chunks_exact(8).map(float).collect()
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let n = usize::try_from(self.uint()?).ok()?;
        self.take(n)
    }

    pub(crate) fn matrix(&mut self) -> Option<Quantized> {
        let rows = usize::try_from(self.uint()?).ok()?;
        let cols = usize::try_from(self.uint()?).ok()?;
        let codes = self
            .take(rows.checked_mul(cols)?)?
            .iter()
            .map(|&b| b as i8)
            .collect();
        let scales = self.exact_floats(rows)?;
        Some(Quantized {
            rows,
            cols,
            codes,
            scales,
            errors: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_damage_reads_as_absent() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("model.blob");
        let part = Partial::open(&out, [7; 32]).unwrap();
        part.store("piece", 3, b"payload").unwrap();
        assert_eq!(part.load("piece"), Some((3, b"payload".to_vec())));
        assert_eq!(part.load("other"), None);
        let path = part.path("piece");
        let good = std::fs::read(&path).unwrap();
        for i in 0..good.len() {
            let mut bad = good.clone();
            bad[i] ^= 1;
            std::fs::write(&path, &bad).unwrap();
            assert_eq!(part.load("piece"), None, "byte {i}");
            std::fs::write(&path, &good[..i]).unwrap();
            assert_eq!(part.load("piece"), None, "cut at {i}");
        }
        std::fs::write(&path, &good).unwrap();
        assert!(part.load("piece").is_some());
        drop(part);
        let other = Partial::open(&out, [8; 32]).unwrap();
        assert_eq!(other.load("piece"), None);
        other.remove().unwrap();
        assert!(!dir.path().join("model.blob.partial").exists());
    }

    #[test]
    fn one_export_at_a_time_and_only_its_own_files_go() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("model.blob");
        let part = Partial::open(&out, [7; 32]).unwrap();
        assert!(matches!(
            Partial::open(&out, [7; 32]),
            Err(ExportError::Busy { .. })
        ));
        part.store("piece", 3, b"payload").unwrap();
        let foreign = dir.path().join("model.blob.partial/mine.txt");
        std::fs::write(&foreign, "kept").unwrap();
        part.remove().unwrap();
        assert_eq!(std::fs::read_to_string(&foreign).unwrap(), "kept");
        assert!(!dir.path().join("model.blob.partial/piece").exists());
    }
}
