//! The record: the first 1024 bytes of a blob, provable alone as leaf 0 of the commitment (spec 4.1).

use super::decode::Decoder;
use super::{BlobError, MAX_MANIFEST_LEN, RECORD_LEN};
use crate::commitment::Commitment;
use crate::config::{Config, Dims, MAX_STOP_IDS, Scheme};
use crate::tables::{EXP2_DIGEST, ROPE_DIGEST, SIGMOID_DIGEST};
use borsh::BorshSerialize;

const MAGIC: [u8; 8] = *b"BLUEBLOB";
const FORMAT_VERSION: u32 = 1;
const SPEC_VERSION: u32 = 1;

/// What the record says. The versions and the table digests have one accepted value each and are implied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The configuration.
    pub config: Config,
    /// Keccak-256 of the tokenizer file; zeros if none.
    pub tokenizer_digest: [u8; 32],
    /// Length of the file in bytes.
    pub total_len: u64,
    /// Length of the manifest in bytes, at most 2^22.
    pub manifest_len: u32,
}

#[derive(BorshSerialize)]
struct Stored<'a> {
    magic: [u8; 8],
    format_version: u32,
    spec_version: u32,
    scheme: u8,
    total_len: u64,
    manifest_len: u32,
    /// hidden, layers, heads, kv_heads, head_dim, intermediate, vocab, accepted_ids, max_context.
    sizes: [u32; 9],
    qk_norm: bool,
    tied: bool,
    eps: u64,
    table_digests: [[u8; 32]; 3],
    tokenizer_digest: [u8; 32],
    stop_ids: &'a [u32],
}

impl Record {
    /// Reads a record. Does not check `total_len`: see [`Header::parse`](super::Header::parse).
    ///
    /// # Errors
    /// The first field that is not as spec 4.1 and 3.1 say; [`BlobError::Truncated`] for fewer than 1024 bytes. Bytes
    /// after the first 1024 are not read.
    pub fn parse(bytes: &[u8]) -> Result<Self, BlobError> {
        let short = BlobError::Truncated {
            expected: RECORD_LEN as u64,
            found: bytes.len() as u64,
        };
        let bytes = bytes.get(..RECORD_LEN).ok_or(short.clone())?;
        // The fields with 16 stop ids take fewer than 1024 bytes, so `short` is not reached below.
        let mut d = Decoder::new(bytes);
        let mut read = || -> Option<Result<Self, BlobError>> {
            let found = d.array()?;
            if found != MAGIC {
                return Some(Err(BlobError::Magic { found }));
            }
            let found = d.u32()?;
            if found != FORMAT_VERSION {
                return Some(Err(BlobError::FormatVersion { found }));
            }
            let found = d.u32()?;
            if found != SPEC_VERSION {
                return Some(Err(BlobError::SpecVersion { found }));
            }
            let found = d.u8()?;
            let Some(scheme) = Scheme::from_code(found) else {
                return Some(Err(BlobError::Scheme { found }));
            };
            let (total_len, manifest_len) = (d.u64()?, d.u32()?);
            if manifest_len > MAX_MANIFEST_LEN {
                return Some(Err(BlobError::ManifestLen {
                    found: manifest_len,
                }));
            }
            let mut dims = Dims {
                scheme,
                hidden: d.u32()?,
                layers: d.u32()?,
                heads: d.u32()?,
                kv_heads: d.u32()?,
                head_dim: d.u32()?,
                intermediate: d.u32()?,
                vocab: d.u32()?,
                accepted_ids: d.u32()?,
                max_context: d.u32()?,
                qk_norm: false,
                tied: false,
                eps: 0,
                stop_ids: Vec::new(),
            };
            for (field, flag) in [("qk_norm", &mut dims.qk_norm), ("tied", &mut dims.tied)] {
                *flag = match d.u8()? {
                    0 => false,
                    1 => true,
                    found => return Some(Err(BlobError::Flag { field, found })),
                };
            }
            dims.eps = d.u64()?;
            for (table, expected) in [
                ("EXP2", EXP2_DIGEST),
                ("SIGMOID", SIGMOID_DIGEST),
                ("ROPE", ROPE_DIGEST),
            ] {
                let found = d.array()?;
                if found != expected {
                    let (expected, found) = (Commitment(expected), Commitment(found));
                    return Some(Err(BlobError::TableDigest {
                        table,
                        expected,
                        found,
                    }));
                }
            }
            let tokenizer_digest = d.array()?;
            let found = d.u32()?;
            if found as usize > MAX_STOP_IDS {
                return Some(Err(BlobError::StopIdCount { found }));
            }
            for _ in 0..found {
                dims.stop_ids.push(d.u32()?);
            }
            Some(
                Config::new(dims)
                    .map_err(BlobError::from)
                    .map(|config| Self {
                        config,
                        tokenizer_digest,
                        total_len,
                        manifest_len,
                    }),
            )
        };
        let record = read().unwrap_or(Err(short))?;
        if let Some(offset) = (d.at()..RECORD_LEN).find(|&i| bytes[i] != 0) {
            return Err(BlobError::RecordPadding {
                offset,
                found: bytes[offset],
            });
        }
        Ok(record)
    }

    /// The length of a file with this configuration and manifest: what `total_len` is in every blob (spec 4.3).
    #[must_use]
    pub fn implied_len(&self) -> u64 {
        super::directory::lay_out(&self.config, self.manifest_len).1
    }

    /// The record's bytes: the one encoding that [`Record::parse`] accepts for these values.
    ///
    /// # Panics
    /// Never: the fields with 16 stop ids take fewer than 1024 bytes and memory is a writer that does not fail.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; RECORD_LEN] {
        let d = self.config.dims();
        let stored = Stored {
            magic: MAGIC,
            format_version: FORMAT_VERSION,
            spec_version: SPEC_VERSION,
            scheme: d.scheme.code(),
            total_len: self.total_len,
            manifest_len: self.manifest_len,
            sizes: [
                d.hidden,
                d.layers,
                d.heads,
                d.kv_heads,
                d.head_dim,
                d.intermediate,
                d.vocab,
                d.accepted_ids,
                d.max_context,
            ],
            qk_norm: d.qk_norm,
            tied: d.tied,
            eps: d.eps,
            table_digests: [EXP2_DIGEST, SIGMOID_DIGEST, ROPE_DIGEST],
            tokenizer_digest: self.tokenizer_digest,
            stop_ids: &d.stop_ids,
        };
        let mut bytes = [0; RECORD_LEN];
        stored
            .serialize(&mut &mut bytes[..])
            .expect("a record with 16 stop ids fits 1024 bytes");
        bytes
    }
}
