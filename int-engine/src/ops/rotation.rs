//! A q or k head between its projection and the attention (`rotate_head` of spec 3.3).

use super::fixed::{I16, I31};
use super::hadamard::Hadamard;
use super::rope::CosSin;

/// What turns the projected heads of one token into codes.
#[derive(Clone, Copy, Debug)]
pub struct HeadRotation<'a> {
    /// Gains of the head norm, one per channel; none without q/k norm, where the values are at most 2^22.
    pub gain: Option<&'a [i32]>,
    /// Angles of the token's position, one per pair of channels.
    pub angles: &'a [CosSin],
    /// The rotation of a head: of its channels, or of blocks that divide them.
    pub hadamard: &'a Hadamard,
    /// The right shift after the rotation.
    pub shift: u32,
}

impl HeadRotation<'_> {
    /// Channels of a head.
    #[inline]
    pub fn channels(&self) -> usize {
        2 * self.angles.len()
    }

    /// Where the rotary embedding saturates.
    #[inline]
    pub fn rope_limit(&self) -> i32 {
        if self.gain.is_some() { I16 } else { I31 }
    }

    /// The number of heads of rows that fit together.
    ///
    /// # Panics
    /// When the rows do not fit together, or the gains are not those of a head.
    #[inline]
    pub fn heads(&self, row: &[i32], codes: &[i8], largest: &[u16]) -> usize {
        let heads = largest.len();
        assert!(
            row.len() == heads * self.channels() && codes.len() == row.len(),
            "one code per value, one magnitude per head"
        );
        assert!(
            self.gain.is_none_or(|gain| gain.len() == self.channels()),
            "one gain per channel"
        );
        heads
    }
}
