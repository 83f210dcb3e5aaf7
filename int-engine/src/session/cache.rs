//! The KV cache of one session (spec 3.2), in pages that sessions may share.
//!
//! A page holds [`PAGE`] consecutive positions of every layer and kv head: keys in tiles ([`crate::tiles`]), values in
//! groups of four positions, `[PAGE / 4][head_dim][4]`. A page that another owner holds too is copied before it is
//! written, so what is shared never changes.

use crate::buffer::{Arena, Buffer, HUGE, Pages};
use crate::config::Config;
use crate::halt::{Fault, try_resize};
pub(super) use crate::kernels::operands::PAGE;
use crate::kernels::prefetch;
use crate::tiles::{self, GROUP, TILE, View};
use std::sync::Arc;

// Whole tiles of keys and whole groups of values.
const _: () = assert!(PAGE % TILE == 0 && PAGE % GROUP == 0);

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

    /// Bytes of the keys and values of a page.
    fn codes(self) -> usize {
        self.slots() * (self.keys() + self.values())
    }
}

/// The keys and values of [`PAGE`] positions. Each field is `[layers][kv_heads]` of what it says.
#[derive(Debug)]
pub(crate) struct Page {
    shape: Shape,
    /// Tiles of `[PAGE]` keys of every layer and head, and then values, `[PAGE / 4][head_dim][4]`, of every one.
    codes: Buffer,
    /// `[PAGE]`: the sum of each key's codes.
    sums: Vec<i32>,
    /// `[PAGE]`, 0 ..= 32767.
    mk: Vec<u16>,
    /// `[PAGE]`, 0 ..= 32767.
    mv: Vec<u16>,
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
    /// Tiles of all keys of the page.
    pub(super) keys: &'a [i8],
    /// All values of the page, `[PAGE / 4][head_dim][4]`.
    pub(super) values: &'a [i8],
    sums: &'a [i32],
    pub(super) mk: &'a [u16],
    pub(super) mv: &'a [u16],
}

impl<'a> Head<'a> {
    /// The first `len` keys as a matrix.
    pub(super) fn keys(self, len: usize) -> View<'a> {
        View::new(len, self.head_dim, self.keys, self.sums)
    }

    /// Asks for the sums of the keys and the scales to be brought near.
    pub(super) fn prefetch_scales(&self) {
        prefetch(self.sums);
        prefetch(self.mk);
        prefetch(self.mv);
    }
}

/// As [`Head`], to write.
pub(super) struct HeadMut<'a> {
    head_dim: usize,
    keys: &'a mut [i8],
    values: &'a mut [i8],
    sums: &'a mut [i32],
    mk: &'a mut [u16],
    mv: &'a mut [u16],
}

impl HeadMut<'_> {
    /// Writes position `at` of the page.
    pub(super) fn append(&mut self, at: usize, entry: &Entry<'_>) {
        let base = tiles::index(at, 0, self.head_dim);
        for (group, k) in entry.k8.chunks(GROUP).enumerate() {
            self.keys[base + group * TILE * GROUP..][..k.len()].copy_from_slice(k);
        }
        let values = &mut self.values[at / GROUP * GROUP * self.head_dim..];
        for (group, &v) in values.chunks_exact_mut(GROUP).zip(entry.v8) {
            group[at % GROUP] = v;
        }
        // At most 256 codes of magnitude at most 127.
        self.sums[at] = entry.k8.iter().map(|&k| i32::from(k)).sum();
        (self.mk[at], self.mv[at]) = (entry.mk, entry.mv);
    }
}

impl Page {
    fn new(shape: Shape, arena: &mut Arena) -> Result<Self, Fault> {
        let what = "the KV cache";
        let mut page = Self {
            shape,
            codes: arena.buffer(shape.codes(), what)?,
            sums: Vec::new(),
            mk: Vec::new(),
            mv: Vec::new(),
        };
        let len = shape.slots() * PAGE;
        try_resize(&mut page.sums, len, 0, what)?;
        try_resize(&mut page.mk, len, 0, what)?;
        try_resize(&mut page.mv, len, 0, what)?;
        Ok(page)
    }

    /// Bytes of its keys and values.
    pub(super) fn bytes(&self) -> usize {
        let heads = self.shape.slots() * PAGE * (size_of::<i32>() + 2 * size_of::<u16>());
        self.codes.bytes().len() + heads
    }

    /// A copy, or the report that the allocator refused.
    fn try_clone(&self, arena: &mut Arena) -> Result<Self, Fault> {
        let mut page = Self::new(self.shape, arena)?;
        page.codes.bytes_mut().copy_from_slice(self.codes.bytes());
        page.sums.copy_from_slice(&self.sums);
        page.mk.copy_from_slice(&self.mk);
        page.mv.copy_from_slice(&self.mv);
        Ok(page)
    }

    fn head(&self, layer: usize, kv_head: usize) -> Head<'_> {
        let s = self.shape;
        let slot = layer * s.kv_heads + kv_head;
        let positions = slot * PAGE..(slot + 1) * PAGE;
        let (keys, values) = self.codes.bytes().split_at(s.slots() * s.keys());
        Head {
            head_dim: s.head_dim,
            keys: &keys[slot * s.keys()..][..s.keys()],
            values: &values[slot * s.values()..][..s.values()],
            sums: &self.sums[positions.clone()],
            mk: &self.mk[positions.clone()],
            mv: &self.mv[positions],
        }
    }

    /// The heads of a layer.
    fn layer_mut(&mut self, layer: usize) -> impl Iterator<Item = HeadMut<'_>> {
        let s = self.shape;
        let first = layer * s.kv_heads;
        let (keys, values) = self.codes.bytes_mut().split_at_mut(s.slots() * s.keys());
        let keys = keys[first * s.keys()..].chunks_exact_mut(s.keys());
        let values = values[first * s.values()..].chunks_exact_mut(s.values());
        let sums = self.sums[first * PAGE..].chunks_exact_mut(PAGE);
        let mk = self.mk[first * PAGE..].chunks_exact_mut(PAGE);
        let mv = self.mv[first * PAGE..].chunks_exact_mut(PAGE);
        let heads = keys.zip(values).zip(sums).zip(mk.zip(mv));
        heads
            .take(s.kv_heads)
            .map(move |(((keys, values), sums), (mk, mv))| HeadMut {
                head_dim: s.head_dim,
                keys,
                values,
                sums,
                mk,
                mv,
            })
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
        if self.pages == 0 && shape.codes() >= HUGE / 2 {
            self.made = (2 * self.made).clamp(4, Self::TOGETHER);
            let sizes = std::iter::repeat_n(shape.codes(), self.made);
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

    /// One layer and kv head of every page that holds one of the first `len` positions, in order, each with how many
    /// it holds.
    pub(super) fn head(
        &self,
        layer: usize,
        kv_head: usize,
        len: usize,
    ) -> impl Iterator<Item = (usize, Head<'_>)> {
        let pages = self.pages.iter().take(len.div_ceil(PAGE)).enumerate();
        pages.map(move |(i, page)| (PAGE.min(len - i * PAGE), page.head(layer, kv_head)))
    }

    /// The heads of a layer in the page that holds `position`, which [`KvCache::reserve`] has made writable.
    pub(super) fn layer_mut(
        &mut self,
        layer: usize,
        position: usize,
    ) -> impl Iterator<Item = HeadMut<'_>> {
        let page = Arc::get_mut(&mut self.pages[position / PAGE]);
        page.expect("a writable page").layer_mut(layer)
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
