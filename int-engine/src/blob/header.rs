//! Record and manifest together: everything before the tensors (spec 4.1 to 4.3).

use super::decode::Decoder;
use super::directory::lay_out;
use super::{
    BlobError, Entry, MAX_KEY_LEN, MAX_MANIFEST_LEN, MAX_METADATA, MAX_VALUE_LEN, RECORD_LEN,
    Record,
};
use crate::config::Config;
use borsh::BorshSerialize;

/// What a blob says about itself before its tensors.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// The configuration.
    pub config: Config,
    /// Keccak-256 of the tokenizer file; zeros if none.
    pub tokenizer_digest: [u8; 32],
    /// Lineage for people, keys strictly ascending.
    pub metadata: Vec<(String, String)>,
    /// The tensors in the order of the file.
    pub entries: Vec<Entry>,
    /// Length of the file in bytes.
    pub total_len: u64,
    /// Length of the manifest in bytes.
    pub manifest_len: u32,
}

#[derive(BorshSerialize)]
struct Manifest<'a> {
    metadata: &'a [(String, String)],
    tensors: &'a [Entry],
}

fn encode(metadata: &[(String, String)], tensors: &[Entry]) -> Vec<u8> {
    borsh::to_vec(&Manifest { metadata, tensors }).expect("memory is a writer that does not fail")
}

impl Header {
    /// The header of the blob with this content.
    ///
    /// # Errors
    /// The metadata rule that fails (spec 4.2).
    pub fn new(
        config: &Config,
        tokenizer_digest: [u8; 32],
        metadata: Vec<(String, String)>,
    ) -> Result<Self, BlobError> {
        check_metadata(&metadata)?;
        // The manifest's length does not depend on the offsets in it.
        let len = encode(&metadata, &lay_out(config, 0).0).len();
        let manifest_len = u32::try_from(len)
            .ok()
            .filter(|&len| len <= MAX_MANIFEST_LEN)
            .ok_or(BlobError::ManifestLen {
                found: u32::try_from(len).unwrap_or(u32::MAX),
            })?;
        let (entries, total_len) = lay_out(config, manifest_len);
        Ok(Self {
            config: config.clone(),
            tokenizer_digest,
            metadata,
            entries,
            total_len,
            manifest_len,
        })
    }

    /// Reads the header from the beginning of a file; later bytes are not read.
    ///
    /// # Errors
    /// [`BlobError::Truncated`] with the number of bytes needed when `prefix` is too short, else the first rule of
    /// spec 4.1 to 4.3 that fails.
    pub fn parse(prefix: &[u8]) -> Result<Self, BlobError> {
        let (record, entries) = plan(prefix)?;
        let expected = prefix_len(record.manifest_len);
        let manifest = usize::try_from(expected)
            .ok()
            .and_then(|end| prefix.get(RECORD_LEN..end));
        let manifest = manifest.ok_or(BlobError::Truncated {
            expected,
            found: prefix.len() as u64,
        })?;
        Self::from_parts(record, entries, manifest)
    }

    /// Reads the manifest that belongs to a record and its planned directory.
    pub(super) fn from_parts(
        record: Record,
        entries: Vec<Entry>,
        manifest: &[u8],
    ) -> Result<Self, BlobError> {
        let metadata = parse_manifest(manifest, &entries)?;
        let Record {
            config,
            tokenizer_digest,
            total_len,
            manifest_len,
        } = record;
        Ok(Self {
            config,
            tokenizer_digest,
            metadata,
            entries,
            total_len,
            manifest_len,
        })
    }

    /// Length of record and manifest.
    #[must_use]
    pub fn prefix_len(&self) -> u64 {
        prefix_len(self.manifest_len)
    }

    /// Record and manifest as they stand in the file.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let record = Record {
            config: self.config.clone(),
            tokenizer_digest: self.tokenizer_digest,
            total_len: self.total_len,
            manifest_len: self.manifest_len,
        };
        let mut bytes = record.to_bytes().to_vec();
        bytes.extend(encode(&self.metadata, &self.entries));
        bytes
    }
}

fn prefix_len(manifest_len: u32) -> u64 {
    RECORD_LEN as u64 + u64::from(manifest_len)
}

/// Reads the record and derives the directory; checks that both imply the same length of the file.
pub(super) fn plan(record: &[u8]) -> Result<(Record, Vec<Entry>), BlobError> {
    let record = Record::parse(record)?;
    let (entries, expected) = lay_out(&record.config, record.manifest_len);
    if record.total_len != expected {
        return Err(BlobError::TotalLen {
            declared: record.total_len,
            expected,
        });
    }
    Ok((record, entries))
}

fn check_metadata(metadata: &[(String, String)]) -> Result<(), BlobError> {
    if metadata.len() > MAX_METADATA {
        return Err(BlobError::MetadataCount {
            found: metadata.len(),
        });
    }
    for (index, (key, value)) in metadata.iter().enumerate() {
        check_pair(index, key, value)?;
        if index > 0 {
            check_order(index, &metadata[index - 1].0, key)?;
        }
    }
    Ok(())
}

fn check_pair(index: usize, key: &str, value: &str) -> Result<(), BlobError> {
    if key.is_empty() || key.len() > MAX_KEY_LEN {
        return Err(BlobError::MetadataKeyLen {
            index,
            found: key.len(),
        });
    }
    if value.len() > MAX_VALUE_LEN {
        return Err(BlobError::MetadataValueLen {
            index,
            found: value.len(),
        });
    }
    Ok(())
}

fn check_order(index: usize, last: &str, key: &str) -> Result<(), BlobError> {
    if last >= key {
        return Err(BlobError::MetadataOrder {
            index,
            key: key.into(),
        });
    }
    Ok(())
}

/// The metadata of a manifest whose directory equals `entries`.
fn parse_manifest(bytes: &[u8], entries: &[Entry]) -> Result<Vec<(String, String)>, BlobError> {
    let short = |field| BlobError::ManifestShort {
        field,
        len: bytes.len(),
    };
    let mut d = Decoder::new(bytes);
    let count = d.u32().ok_or(short("the number of metadata pairs"))? as usize;
    if count > MAX_METADATA {
        return Err(BlobError::MetadataCount { found: count });
    }
    let mut metadata: Vec<(String, String)> = Vec::with_capacity(count);
    for index in 0..count {
        let found = d.u32().ok_or(short("a metadata key"))? as usize;
        if found == 0 || found > MAX_KEY_LEN {
            return Err(BlobError::MetadataKeyLen { index, found });
        }
        let key = d.take(found).ok_or(short("a metadata key"))?;
        let found = d.u32().ok_or(short("a metadata value"))? as usize;
        if found > MAX_VALUE_LEN {
            return Err(BlobError::MetadataValueLen { index, found });
        }
        let value = d.take(found).ok_or(short("a metadata value"))?;
        let text = |bytes: &[u8], what| {
            std::str::from_utf8(bytes)
                .map(str::to_owned)
                .map_err(|_| BlobError::MetadataUtf8 { index, what })
        };
        let (key, value) = (text(key, "key")?, text(value, "value")?);
        if let Some((last, _)) = metadata.last() {
            check_order(index, last, &key)?;
        }
        metadata.push((key, value));
    }
    let found = d.u32().ok_or(short("the number of tensors"))?;
    if found as usize != entries.len() {
        return Err(BlobError::DirectoryLen {
            expected: entries.len(),
            found,
        });
    }
    for (index, entry) in entries.iter().enumerate() {
        let differs = |field, expected: &dyn std::fmt::Display, found: &dyn std::fmt::Display| {
            let (expected, found) = (expected.to_string(), found.to_string());
            BlobError::DirectoryEntry {
                index,
                tensor: entry.name.clone(),
                field,
                expected,
                found,
            }
        };
        let length = d.u32().ok_or(short("a tensor name"))?;
        if length as usize != entry.name.len() {
            return Err(differs("length of the name", &entry.name.len(), &length));
        }
        let name = d.take(entry.name.len()).ok_or(short("a tensor name"))?;
        if name != entry.name.as_bytes() {
            return Err(differs("name", &entry.name, &String::from_utf8_lossy(name)));
        }
        let dtype = d.u8().ok_or(short("a dtype"))?;
        if dtype != entry.dtype.code() {
            return Err(differs("dtype", &entry.dtype.code(), &dtype));
        }
        let rank = d.u32().ok_or(short("a shape"))?;
        if rank as usize != entry.shape.len() {
            return Err(differs("rank", &entry.shape.len(), &rank));
        }
        for dim in &entry.shape {
            let found = d.u32().ok_or(short("a shape"))?;
            if found != *dim {
                return Err(differs("dimension", dim, &found));
            }
        }
        for (field, expected) in [("offset", entry.offset), ("length", entry.length)] {
            let found = d.u64().ok_or(short(field))?;
            if found != expected {
                return Err(differs(field, &expected, &found));
            }
        }
    }
    if d.at() != bytes.len() {
        return Err(BlobError::ManifestLong {
            used: d.at(),
            len: bytes.len(),
        });
    }
    Ok(metadata)
}
