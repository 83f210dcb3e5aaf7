//! The frozen tables (spec 2): decoded at compile time from the only copy of their bytes.

/// Bytes of `exp2.bin`.
pub const EXP2_BYTES: &[u8; 512] = include_bytes!("../tables/exp2.bin");
/// Bytes of `sigmoid.bin`.
pub const SIGMOID_BYTES: &[u8; 4100] = include_bytes!("../tables/sigmoid.bin");
/// Bytes of `rope.bin`.
pub const ROPE_BYTES: &[u8; 10240] = include_bytes!("../tables/rope.bin");

/// Keccak-256 of `exp2.bin`, as a record names it.
pub const EXP2_DIGEST: [u8; 32] =
    digest(b"8da51de79047aacee79721349cb001def560f23a9aca96037d5ca2b8ba1c7b5f");
/// Keccak-256 of `sigmoid.bin`, as a record names it.
pub const SIGMOID_DIGEST: [u8; 32] =
    digest(b"6458519d667f356a6644e6a75c98069bc7457e55c76dafd1dfb748dbb281fcea");
/// Keccak-256 of `rope.bin`, as a record names it.
pub const ROPE_DIGEST: [u8; 32] =
    digest(b"1523853c1a6fd045f5e78c5e6e45f8522cd338a975a1376ab50f5977042e9d0e");

/// round(2^15 * 2^(-i/256)), Q15.
pub static EXP2: [u16; 256] = exp2();
/// round(2^24 / (1 + exp(-i/64))), Q24.
pub static SIGMOID: [u32; 1025] = sigmoid();
/// (cos, sin) of h / 2^8 turns, Q30.
pub static ROPE_COARSE: [(i32, i32); 256] = rope(0);
/// (cos, sin) of l / 2^18 turns, Q30.
pub static ROPE_FINE: [(i32, i32); 1024] = rope(256);

const fn word(b: &[u8], index: usize) -> u32 {
    let o = 4 * index;
    u32::from_le_bytes([b[o], b[o + 1], b[o + 2], b[o + 3]])
}

const fn exp2() -> [u16; 256] {
    let mut t = [0; 256];
    let mut i = 0;
    while i < t.len() {
        t[i] = u16::from_le_bytes([EXP2_BYTES[2 * i], EXP2_BYTES[2 * i + 1]]);
        i += 1;
    }
    t
}

const fn sigmoid() -> [u32; 1025] {
    let mut t = [0; 1025];
    let mut i = 0;
    while i < t.len() {
        t[i] = word(SIGMOID_BYTES, i);
        i += 1;
    }
    t
}

const fn rope<const N: usize>(first: usize) -> [(i32, i32); N] {
    let mut t = [(0, 0); N];
    let mut i = 0;
    while i < N {
        let at = 2 * (first + i);
        t[i] = (word(ROPE_BYTES, at) as i32, word(ROPE_BYTES, at + 1) as i32);
        i += 1;
    }
    t
}

const fn digest(hex: &[u8; 64]) -> [u8; 32] {
    const fn nibble(c: u8) -> u8 {
        match c {
            b'0'..=b'9' => c - b'0',
            b'a'..=b'f' => c - b'a' + 10,
            _ => panic!("a digest is lowercase hexadecimal"),
        }
    }
    let mut d = [0; 32];
    let mut i = 0;
    while i < 32 {
        d[i] = nibble(hex[2 * i]) << 4 | nibble(hex[2 * i + 1]);
        i += 1;
    }
    d
}
