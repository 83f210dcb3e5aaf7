//! Changes of a blob that a loader must refuse, and some that it must accept (spec 4).

use int_engine::blob::{Entry, Header};
use int_engine::config::{Config, Scheme};

use crate::file::Edit;
use crate::target::{Models, Ops, ReferenceTarget};

/// Offsets in the record (spec 4.1).
const FORMAT_VERSION: u64 = 8;
const SPEC_VERSION: u64 = 12;
const SCHEME: u64 = 16;
const TOTAL_LEN: u64 = 17;
const MANIFEST_LEN: u64 = 25;
const DIMS: u64 = 29;
const QK_NORM: u64 = 65;
const TIED: u64 = 66;
const EPS: u64 = 67;
const TABLES: u64 = 75;
const TOKENIZER: u64 = 171;
const STOP_COUNT: u64 = 203;
const STOP_IDS: u64 = 207;

struct Edits<'a> {
    blob: &'a [u8],
    header: &'a Header,
    list: Vec<Edit>,
}

impl Edits<'_> {
    fn push(&mut self, name: &str, edit: Vec<(u64, Vec<u8>)>, length: Option<u64>) {
        let mut edit = Edit {
            name: name.into(),
            edit,
            length,
            commitment: None,
        };
        let bytes = crate::verify::edited(&edit, self.blob).expect("offsets are inside");
        if ReferenceTarget.load(&bytes).is_ok() {
            edit.commitment = Some(ReferenceTarget.commitment(&bytes));
        }
        self.list.push(edit);
    }

    fn bytes(&mut self, name: &str, offset: u64, bytes: &[u8]) {
        self.push(name, vec![(offset, bytes.to_vec())], None);
    }

    fn u32(&mut self, name: &str, offset: u64, v: u32) {
        self.bytes(name, offset, &v.to_le_bytes());
    }

    fn flip(&mut self, name: &str, offset: u64) {
        let old = self.blob[offset as usize];
        self.bytes(name, offset, &[old ^ 1]);
    }

    fn entry(&self, name: &str) -> Option<Entry> {
        self.header.entries.iter().find(|e| e.name == name).cloned()
    }

    /// Element `index` of a tensor, if the model has it.
    fn element(&mut self, tensor: &str, index: u64, v: i64) {
        let Some(entry) = self.entry(tensor) else {
            return;
        };
        let size = entry.dtype.size();
        let offset = entry.offset + index * size as u64;
        self.bytes(
            &format!("{tensor}[{index}] = {v}"),
            offset,
            &v.to_le_bytes()[..size],
        );
    }
}

fn record(e: &mut Edits<'_>, config: &Config) {
    let d = config.dims();
    e.flip("magic", 7);
    e.u32("format_version 0", FORMAT_VERSION, 0);
    e.u32("format_version 2", FORMAT_VERSION, 2);
    e.u32("spec_version 0", SPEC_VERSION, 0);
    e.u32("spec_version 2", SPEC_VERSION, 2);
    for scheme in [0, 3, 255] {
        e.bytes(&format!("scheme {scheme}"), SCHEME, &[scheme]);
    }
    let other = if d.scheme == Scheme::Dynamic { 2 } else { 1 };
    e.bytes("the other scheme", SCHEME, &[other]);
    let total = e.header.total_len;
    for (name, v) in [
        ("total_len less", total - 1),
        ("total_len more", total + 1),
        ("total_len largest", u64::MAX),
    ] {
        e.bytes(name, TOTAL_LEN, &v.to_le_bytes());
    }
    let manifest = e.header.manifest_len;
    for (name, v) in [
        ("manifest_len less", manifest - 1),
        ("manifest_len more", manifest + 1),
        ("manifest_len too large", (1 << 22) + 1),
        ("manifest_len largest", u32::MAX),
    ] {
        e.u32(name, MANIFEST_LEN, v);
    }
    let names = [
        "hidden",
        "layers",
        "heads",
        "kv_heads",
        "head_dim",
        "intermediate",
        "vocab",
        "accepted_ids",
        "max_context",
    ];
    let values = [
        d.hidden,
        d.layers,
        d.heads,
        d.kv_heads,
        d.head_dim,
        d.intermediate,
        d.vocab,
        d.accepted_ids,
        d.max_context,
    ];
    for (i, (name, value)) in names.into_iter().zip(values).enumerate() {
        let offset = DIMS + 4 * i as u64;
        for v in [0, value + 1, u32::MAX] {
            e.u32(&format!("{name} {v}"), offset, v);
        }
    }
    e.u32("accepted_ids past vocab", DIMS + 28, d.vocab + 1);
    e.u32("max_context 32768", DIMS + 32, 32768);
    e.u32("max_context 32769", DIMS + 32, 32769);
    e.bytes("qk_norm 2", QK_NORM, &[2]);
    e.flip("qk_norm, the other", QK_NORM);
    e.bytes("tied 2", TIED, &[2]);
    e.flip("tied, the other", TIED);
    e.bytes("eps 0", EPS, &0u64.to_le_bytes());
    e.bytes("eps 2^53 - 1", EPS, &((1u64 << 53) - 1).to_le_bytes());
    e.bytes("eps 2^53", EPS, &(1u64 << 53).to_le_bytes());
    for (i, table) in ["exp2", "sigmoid", "rope"].into_iter().enumerate() {
        e.flip(&format!("digest of {table}"), TABLES + 32 * i as u64 + 31);
    }
    e.flip("tokenizer_digest", TOKENIZER);
    let stops = |ids: &[u32]| -> Vec<u8> {
        let all = std::iter::once(ids.len() as u32).chain(ids.iter().copied());
        all.flat_map(u32::to_le_bytes).collect()
    };
    e.bytes("stop ids 1, 2", STOP_COUNT, &stops(&[1, 2]));
    e.bytes("stop ids 2, 2", STOP_COUNT, &stops(&[2, 2]));
    e.bytes("stop ids 2, 1", STOP_COUNT, &stops(&[2, 1]));
    e.bytes(
        "the last accepted id stops",
        STOP_COUNT,
        &stops(&[d.accepted_ids - 1]),
    );
    e.bytes(
        "the first padding id stops",
        STOP_COUNT,
        &stops(&[d.accepted_ids]),
    );
    e.bytes(
        "16 stop ids",
        STOP_COUNT,
        &stops(&(0..16).collect::<Vec<_>>()),
    );
    e.bytes(
        "17 stop ids",
        STOP_COUNT,
        &stops(&(0..17).collect::<Vec<_>>()),
    );
    e.u32("more stop ids than bytes", STOP_COUNT, u32::MAX);
    e.bytes("padding of the record, first", STOP_IDS, &[1]);
    e.bytes("padding of the record, last", 1023, &[1]);
}

fn manifest(e: &mut Edits<'_>) {
    let start = 1024;
    e.u32("a metadata pair that is not there", start, 1);
    e.u32("65 metadata pairs", start, 65);
    e.u32(
        "a tensor less",
        start + 4,
        e.header.entries.len() as u32 - 1,
    );
    e.u32(
        "a tensor more",
        start + 4,
        e.header.entries.len() as u32 + 1,
    );
    // The first entry: name of 12 bytes, type, rank, two sizes, offset, length.
    e.u32("length of the first name", start + 8, 13);
    e.flip("first name", start + 12);
    e.flip("type of the first tensor", start + 24);
    e.u32("rank of the first tensor", start + 25, 1);
    e.flip("rows of the first tensor", start + 29);
    e.flip("columns of the first tensor", start + 33);
    e.flip("offset of the first tensor", start + 37);
    e.flip("length of the first tensor", start + 45);
    let end = start + u64::from(e.header.manifest_len);
    e.flip("length of the last tensor", end - 8);
    let gap = e.header.entries.iter().zip(&e.header.entries[1..]);
    let gap = gap
        .map(|(a, b)| (a.offset + a.length, b.offset))
        .find(|(end, next)| end < next);
    if let Some((end, next)) = gap {
        e.bytes("first byte of a gap", end, &[1]);
        e.bytes("last byte of a gap", next - 1, &[128]);
    }
    let total = e.header.total_len;
    for (name, length) in [
        ("no bytes", 0),
        ("a record less a byte", 1023),
        ("a record alone", 1024),
        ("a byte less", total - 1),
        ("a byte more", total + 1),
    ] {
        e.push(name, Vec::new(), Some(length));
    }
    e.push(
        "a byte more, and said so",
        vec![(TOTAL_LEN, (total + 1).to_le_bytes().to_vec())],
        Some(total + 1),
    );
    e.push(
        "a byte less, and said so",
        vec![(TOTAL_LEN, (total - 1).to_le_bytes().to_vec())],
        Some(total - 1),
    );
}

fn values(e: &mut Edits<'_>) {
    let (mult, i31) = (1i64 << 30, (1i64 << 31) - 1);
    for tensor in [
        "embed.weight",
        "layers.0.q.weight",
        "layers.1.down.weight",
        "head.weight",
    ] {
        e.element(tensor, 3, -128);
        e.element(tensor, 3, -127);
    }
    for tensor in ["embed", "layers.0.k", "layers.1.o", "head"] {
        for v in [mult - 1, mult, i31, -1, -(1 << 31)] {
            e.element(&format!("{tensor}.mult"), 2, v);
        }
        for v in [-65, -64, 64, 65, 127, -128] {
            e.element(&format!("{tensor}.shift"), 4, v);
        }
    }
    // psh of q, k, v, o, gate, up, down, then the constants of the scores.
    for i in 0..7 {
        e.element("layers.1.consts", i, -4);
    }
    e.element("layers.0.consts", 0, -6);
    e.element("layers.0.consts", 6, 0);
    for v in [mult - 1, mult, i31, -1] {
        e.element("layers.1.consts", 7, v);
    }
    for v in [-1, 0, 61, 62] {
        e.element("layers.1.consts", 8, v);
    }
    for v in [-4, -6, 0, 1] {
        e.element("head.consts", 0, v);
    }
    let gain = 32767i64 << 15;
    for v in [gain, gain + 1, -gain, -gain - 1] {
        e.element("layers.0.q_norm.gain", 1, v);
        e.element("layers.1.k_norm.gain", 15, v);
    }
    for v in [32767, -32767, -32768] {
        e.element("final_norm.gain", 0, v);
    }
    e.element("rope.phase", 1, -1);
    let ranges = [(1, 1 << 16), (1, 1 << 16), (1, i31), (0, 39), (1, i31)];
    for (i, (low, high)) in (0..).zip(ranges) {
        for v in [low - 1, low, high, high + 1] {
            e.element("layers.1.static", i, v);
        }
    }
    if let Some(entry) = e.entry("final_norm.gain") {
        let rows = entry.shape[0] as usize;
        e.bytes("no final gain", entry.offset, &vec![0; 2 * rows]);
    }
}

/// The manifest's metadata as other pairs of the same length: the last value is filled up.
fn metadata_pairs(e: &mut Edits<'_>, name: &str, pairs: &[(&[u8], &[u8])]) {
    let text = |t: &[u8]| [&(t.len() as u32).to_le_bytes()[..], t].concat();
    let old: usize = e
        .header
        .metadata
        .iter()
        .map(|(k, v)| 8 + k.len() + v.len())
        .sum();
    let mut bytes = (pairs.len() as u32).to_le_bytes().to_vec();
    let (last, rest) = pairs.split_last().expect("at least one pair");
    for (key, value) in rest {
        bytes.extend([text(key), text(value)].concat());
    }
    bytes.extend(text(last.0));
    let room = 4 + old - bytes.len() - 4;
    let filled: Vec<u8> = last
        .1
        .iter()
        .copied()
        .chain(std::iter::repeat(b'.'))
        .take(room)
        .collect();
    bytes.extend(text(&filled));
    e.bytes(name, 1024, &bytes);
}

/// Edits of the metadata of a blob that has some.
pub(super) fn metadata(header: &Header, blob: &[u8]) -> Vec<Edit> {
    let mut e = Edits {
        blob,
        header,
        list: Vec::new(),
    };
    metadata_pairs(&mut e, "keys ascend", &[(b"a", b"1"), (b"b", b"2")]);
    metadata_pairs(&mut e, "equal keys", &[(b"a", b"1"), (b"a", b"2")]);
    metadata_pairs(&mut e, "keys descend", &[(b"b", b"1"), (b"a", b"2")]);
    metadata_pairs(
        &mut e,
        "a key and its beginning",
        &[(b"ab", b"1"), (b"a", b"2")],
    );
    metadata_pairs(&mut e, "an empty key", &[(b"", b"1"), (b"a", b"2")]);
    metadata_pairs(&mut e, "an empty value", &[(b"a", b""), (b"b", b"2")]);
    metadata_pairs(&mut e, "a key of 64 bytes", &[(&[b'k'; 64], b"1")]);
    metadata_pairs(&mut e, "a key of 65 bytes", &[(&[b'k'; 65], b"1")]);
    metadata_pairs(&mut e, "a key that is not UTF-8", &[(b"a\xff", b"1")]);
    metadata_pairs(
        &mut e,
        "a value that is not UTF-8",
        &[(b"a", b"\xc0\x80"), (b"b", b"2")],
    );
    metadata_pairs(
        &mut e,
        "a value of two-byte letters",
        &[(b"a", "\u{e9}\u{fc}".as_bytes()), (b"b", b"2")],
    );
    e.list
}

/// The edits of a recipe blob of two layers.
pub(super) fn edits(config: &Config, blob: &[u8]) -> Vec<Edit> {
    let header = crate::blob::header(config);
    let mut e = Edits {
        blob,
        header: &header,
        list: Vec::new(),
    };
    record(&mut e, config);
    manifest(&mut e);
    values(&mut e);
    e.list
}
