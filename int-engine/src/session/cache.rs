//! The KV cache of one session (spec 3.2), in pages that sessions may share.
//!
//! A page holds [`PAGE`] consecutive positions of every layer and kv head. What belongs to a layer and head stands
//! together, in the order in which attention reads it: sums of keys and scales, keys in tiles ([`crate::tiles`]), values
//! in groups of four positions, `[PAGE / 4][head_dim][4]`. A page that another owner holds too is copied before it is
//! written, so what is shared never changes.

use crate::buffer::{Arena, Buffer, HUGE, Pages, words, words_mut};
use crate::config::Config;
use crate::halt::Fault;
pub(super) use crate::kernels::operands::PAGE;
use crate::kernels::prefetch;
use crate::tiles::{self, GROUP, LINE, TILE, View};
use std::sync::Arc;

// Whole tiles of keys and whole groups of values.
const _: () = assert!(PAGE % TILE == 0 && PAGE % GROUP == 0);

/// Bytes of the sums of a head's keys, `[PAGE]` int32, and of the scales, `[PAGE]` of mk and 2^16 mv, each 0 ..= 32767.
const SIDE: usize = 2 * PAGE * size_of::<i32>();

/// What the sizes of a page depend on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Shape {
    layers: usize,
    kv_heads: usize,
    head_dim: usize,
}

impl Shape {
    fn slots(self) -> usize {
        self.layers * self.kv_heads
    }

    /// Bytes of the keys of one layer and head.
    fn keys(self) -> usize {
        PAGE * self.head_dim.next_multiple_of(GROUP)
    }

    /// Bytes of its values.
    fn values(self) -> usize {
        PAGE * self.head_dim
    }

    /// Bytes of a layer and head.
    fn slot(self) -> usize {
        SIDE + self.keys() + self.values()
    }

    /// Bytes of a page.
    fn bytes(self) -> usize {
        self.slots() * self.slot()
    }

    /// Sums and scales, keys, and values of a layer and head.
    fn parts(self, slot: &[i8]) -> [&[i8]; 3] {
        let (side, codes) = slot.split_at(SIDE);
        let (keys, values) = codes.split_at(self.keys());
        [side, keys, values]
    }

    /// As [`Shape::parts`].
    fn parts_mut(self, slot: &mut [i8]) -> [&mut [i8]; 3] {
        let (side, codes) = slot.split_at_mut(SIDE);
        let (keys, values) = codes.split_at_mut(self.keys());
        [side, keys, values]
    }
}

/// [`PAGE`] positions.
#[derive(Debug)]
pub(crate) struct Page {
    shape: Shape,
    /// `[layers][kv_heads]` of [`Shape::slot`] bytes.
    slots: Buffer,
}

/// What [`HeadMut::append`] takes of one token.
pub(super) struct Entry<'a> {
    /// `[head_dim]`.
    pub(super) k8: &'a [i8],
    /// `[head_dim]`.
    pub(super) v8: &'a [i8],
    pub(super) mk: u16,
    pub(super) mv: u16,
}

/// One layer and kv head of a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head<'a> {
    head_dim: usize,
    /// Sums and scales.
    side: &'a [i8],
    /// Tiles of all keys of the page.
    pub(super) keys: &'a [i8],
    /// All values of the page, `[PAGE / 4][head_dim][4]`.
    pub(super) values: &'a [i8],
}

impl<'a> Head<'a> {
    fn new(shape: Shape, slot: &'a [i8]) -> Self {
        let [side, keys, values] = shape.parts(slot);
        Self {
            head_dim: shape.head_dim,
            side,
            keys,
            values,
        }
    }

    /// The first `len` keys as a matrix.
    pub(super) fn keys(self, len: usize) -> View<'a> {
        View::new(len, self.head_dim, self.keys, &words(self.side)[..PAGE])
    }

    /// The scales of the first positions, as many as the destinations are long.
    pub(super) fn scales(self, mk: &mut [u16], mv: &mut [u16]) {
        let scales = &words(self.side)[PAGE..];
        for ((mk, mv), &both) in mk.iter_mut().zip(mv).zip(scales) {
            (*mk, *mv) = (both as u16, (both >> 16) as u16);
        }
    }

    /// Asks for keys, their sums and the scales to be brought near.
    pub(super) fn prefetch(&self) {
        self.prefetch_scales();
        prefetch(self.keys);
    }

    /// Asks for the sums of the keys and the scales to be brought near.
    pub(super) fn prefetch_scales(&self) {
        prefetch(self.side);
    }
}

/// As [`Head`], to write.
pub(super) struct HeadMut<'a> {
    shape: Shape,
    slot: &'a mut [i8],
}

impl HeadMut<'_> {
    /// The same to read.
    pub(super) fn head(&self) -> Head<'_> {
        Head::new(self.shape, self.slot)
    }

    /// Asks for what [`HeadMut::append`] writes to be brought near, and with `all` for the earlier keys of the page.
    pub(super) fn prefetch(&self, at: usize, all: bool) {
        let [side, keys, values] = self.shape.parts(self.slot);
        for word in [at, PAGE + at] {
            prefetch(&side[word * size_of::<i32>()..][..1]);
        }
        let (tile, len) = (at / TILE, keys.len() / (PAGE / TILE));
        let first = if all { 0 } else { tile };
        prefetch(&keys[first * len..(tile + 1) * len]);
        let group = GROUP * self.shape.head_dim;
        prefetch(&values[at / GROUP * group..][..group]);
    }

    /// Writes position `at` of the page.
    pub(super) fn append(&mut self, at: usize, entry: &Entry<'_>) {
        let [side, keys, values] = self.shape.parts_mut(self.slot);
        let hd = self.shape.head_dim;
        let mut groups = keys[tiles::index(at, 0, hd)..].chunks_mut(LINE);
        let mut whole = entry.k8.chunks_exact(GROUP);
        for (k, group) in whole.by_ref().zip(groups.by_ref()) {
            group[..GROUP].copy_from_slice(k);
        }
        if let Some(group) = groups.next() {
            let rest = whole.remainder();
            group[..rest.len()].copy_from_slice(rest);
        }
        let (group, lane) = (GROUP * hd, at % GROUP);
        let values = &mut values[at / GROUP * group..][..group];
        for (group, &v) in values.chunks_exact_mut(GROUP).zip(entry.v8) {
            group[lane] = v;
        }
        let side = words_mut(side);
        // At most 256 codes of magnitude at most 127.
        side[at] = entry.k8.iter().map(|&k| i32::from(k)).sum();
        side[PAGE + at] = i32::from(entry.mk) | i32::from(entry.mv) << 16;
    }
}

impl Page {
    fn new(shape: Shape, arena: &mut Arena) -> Result<Self, Fault> {
        let slots = arena.buffer(shape.bytes(), "the KV cache")?;
        Ok(Self { shape, slots })
    }

    /// Bytes of its buffer.
    pub(super) fn bytes(&self) -> usize {
        self.slots.bytes().len()
    }

    /// A copy, or the report that the allocator refused.
    fn try_clone(&self, arena: &mut Arena) -> Result<Self, Fault> {
        let mut page = Self::new(self.shape, arena)?;
        page.slots.bytes_mut().copy_from_slice(self.slots.bytes());
        Ok(page)
    }

    pub(super) fn head(&self, layer: usize, kv_head: usize) -> Head<'_> {
        let slot = layer * self.shape.kv_heads + kv_head;
        let len = self.shape.slot();
        Head::new(self.shape, &self.slots.bytes()[slot * len..][..len])
    }

    /// The heads of a layer.
    pub(super) fn layer_mut(&mut self, layer: usize) -> impl Iterator<Item = HeadMut<'_>> {
        let shape = self.shape;
        let (len, heads) = (shape.slot(), shape.kv_heads);
        let slots = &mut self.slots.bytes_mut()[layer * heads * len..][..heads * len];
        let slots = slots.chunks_exact_mut(len);
        slots.map(move |slot| HeadMut { shape, slot })
    }
}

/// The cache of every layer. Its owner knows how many positions it holds.
#[derive(Debug)]
pub(crate) struct KvCache {
    shape: Shape,
    pages: Vec<Arc<Page>>,
    room: Room,
}

/// Address space for pages to come, side by side, so that huge pages of memory cover them.
#[derive(Debug, Default)]
struct Room {
    arena: Arena,
    /// Pages that it has room for.
    pages: usize,
    /// Pages that room was made for last.
    made: usize,
}

impl Room {
    /// Most pages of which room is made at once.
    const TOGETHER: usize = 64;

    /// Room for at least one page: for twice as many as last time, at most [`Room::TOGETHER`]. Pages that are much
    /// smaller than a huge one have memory of their own: alone, they would take whole huge pages.
    fn arena(&mut self, shape: Shape) -> &mut Arena {
        if self.pages == 0 && shape.bytes() >= HUGE / 2 {
            self.made = (2 * self.made).clamp(4, Self::TOGETHER);
            let sizes = std::iter::repeat_n(shape.bytes(), self.made);
            self.arena = Arena::reserve(sizes, Pages::default());
            self.pages = self.made;
        }
        self.pages = self.pages.saturating_sub(1);
        &mut self.arena
    }
}

impl KvCache {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            shape: Shape {
                layers: config.layers(),
                kv_heads: config.kv_heads(),
                head_dim: config.head_dim(),
            },
            pages: Vec::new(),
            room: Room::default(),
        }
    }

    /// Makes the positions from `first` on up to `end` writable.
    pub(super) fn reserve(&mut self, first: usize, end: usize) -> Result<(), Fault> {
        for page in self.pages.iter_mut().skip(first / PAGE) {
            if Arc::get_mut(page).is_none() {
                *page = Arc::new(page.try_clone(self.room.arena(self.shape))?);
            }
        }
        let pages = end.div_ceil(PAGE);
        crate::halt::try_reserve(&mut self.pages, pages, "the KV cache")?;
        while self.pages.len() < pages {
            let arena = self.room.arena(self.shape);
            self.pages.push(Arc::new(Page::new(self.shape, arena)?));
        }
        Ok(())
    }

    /// One layer and kv head of a page.
    pub(super) fn head(&self, page: usize, layer: usize, kv_head: usize) -> Head<'_> {
        self.pages[page].head(layer, kv_head)
    }

    /// The page that holds `position`, which [`KvCache::reserve`] has made writable, and the pages before it.
    pub(super) fn writable(&mut self, position: usize) -> (&[Arc<Page>], &mut Page) {
        let (earlier, rest) = self.pages.split_at_mut(position / PAGE);
        let page = Arc::get_mut(&mut rest[0]).expect("a writable page");
        (earlier, page)
    }

    /// Pages that hold positions below `len` only.
    pub(super) fn whole_pages(&self, len: usize) -> &[Arc<Page>] {
        &self.pages[..len / PAGE]
    }

    /// A cache of the same shape that begins with pages of another one.
    pub(super) fn sharing(&self, pages: Vec<Arc<Page>>) -> Self {
        Self {
            shape: self.shape,
            pages,
            room: Room::default(),
        }
    }

    /// Lets go of the pages that hold no position below `len` and are shared; keeps the memory of the others.
    pub(super) fn truncate(&mut self, len: usize) {
        let first = len.div_ceil(PAGE);
        let mut i = 0;
        self.pages.retain_mut(|page| {
            i += 1;
            i <= first || Arc::get_mut(page).is_some()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeded::Rng;

    #[test]
    fn a_page_holds_what_was_appended() {
        let mut rng = Rng(11);
        for head_dim in [2, 10, 14, 20, 64, 128, 256] {
            let shape = Shape {
                layers: 2,
                kv_heads: 3,
                head_dim,
            };
            let mut page = Page::new(shape, &mut Arena::default()).unwrap();
            // [layer][kv head][position]: key, value, mk, mv.
            let mut rows = Vec::new();
            for layer in 0..2 {
                for mut head in page.layer_mut(layer) {
                    for at in 0..PAGE {
                        let (k8, v8) = (rng.bytes(head_dim), rng.bytes(head_dim));
                        let mk = [0, 1, 32767, 300][at % 4];
                        let mv = [32767, 0, 1, 77, 5][at % 5];
                        let (k, v) = (&k8, &v8);
                        head.append(
                            at,
                            &Entry {
                                k8: k,
                                v8: v,
                                mk,
                                mv,
                            },
                        );
                        rows.push((k8, v8, mk, mv));
                    }
                }
            }
            for (i, rows) in rows.chunks_exact(PAGE).enumerate() {
                let head = page.head(i / 3, i % 3);
                let (mut mk, mut mv) = ([9; PAGE], [9; PAGE]);
                head.scales(&mut mk, &mut mv);
                let keys = head.keys(PAGE);
                for (at, (k8, v8, want_mk, want_mv)) in rows.iter().enumerate() {
                    let found: Vec<i8> = (0..head_dim)
                        .map(|c| keys.data()[tiles::index(at, c, head_dim)])
                        .collect();
                    assert_eq!(found, *k8, "{head_dim} {i} {at}");
                    let sum: i32 = k8.iter().map(|&k| i32::from(k)).sum();
                    assert_eq!(keys.sums()[at], sum);
                    let group = &head.values[at / GROUP * GROUP * head_dim..];
                    let found: Vec<i8> = (0..head_dim)
                        .map(|c| group[c * GROUP + at % GROUP])
                        .collect();
                    assert_eq!(found, *v8, "{head_dim} {i} {at}");
                    assert_eq!((mk[at], mv[at]), (*want_mk, *want_mv));
                }
                // Columns that fill a group up are zero.
                let padded: i32 = keys.data().iter().map(|&k| i32::from(k)).sum();
                assert_eq!(padded, keys.sums().iter().sum::<i32>());
            }
        }
    }

    #[test]
    fn a_copy_is_the_page() {
        let shape = Shape {
            layers: 2,
            kv_heads: 3,
            head_dim: 10,
        };
        let mut page = Page::new(shape, &mut Arena::default()).unwrap();
        let bytes = Rng(12).bytes(page.slots.bytes().len());
        page.slots.bytes_mut().copy_from_slice(&bytes);
        let copy = page.try_clone(&mut Arena::default()).unwrap();
        assert!(copy.slots.bytes() == bytes && page.slots.bytes() == bytes);
    }
}
