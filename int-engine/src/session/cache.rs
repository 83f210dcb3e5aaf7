//! The KV cache of one session (spec 3.2).

use crate::config::Config;
use crate::halt::{Fault, try_reserve};

/// Keys and values of one layer and kv head, consecutive positions.
#[derive(Debug, Default)]
pub(super) struct HeadCache {
    /// `[positions][head_dim]`.
    pub(super) k8: Vec<i8>,
    /// `[positions]`, 0 ..= 32767.
    pub(super) mk: Vec<u16>,
    /// `[positions][head_dim]`.
    pub(super) v8: Vec<i8>,
    /// `[positions]`, 0 ..= 32767.
    pub(super) mv: Vec<u16>,
}

/// The cache of every layer; grows geometrically, never beyond the context.
#[derive(Debug)]
pub(super) struct KvCache {
    /// `[layers][kv_heads]`.
    layers: Vec<Vec<HeadCache>>,
    head_dim: usize,
    max_context: usize,
    capacity: usize,
}

/// Positions of the first allocation.
const FIRST: usize = 64;

impl KvCache {
    pub(super) fn new(config: &Config) -> Self {
        let heads = || {
            (0..config.kv_heads())
                .map(|_| HeadCache::default())
                .collect()
        };
        Self {
            layers: (0..config.layers()).map(|_| heads()).collect(),
            head_dim: config.head_dim(),
            max_context: config.max_context(),
            capacity: 0,
        }
    }

    /// Positions that fit without another allocation.
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Makes room for `len` positions in all, `len` at most the context.
    pub(super) fn reserve(&mut self, len: usize) -> Result<(), Fault> {
        if len <= self.capacity {
            return Ok(());
        }
        let capacity = len.max(2 * self.capacity).max(FIRST).min(self.max_context);
        for head in self.layers.iter_mut().flatten() {
            try_reserve(&mut head.k8, capacity * self.head_dim, "the KV cache")?;
            try_reserve(&mut head.v8, capacity * self.head_dim, "the KV cache")?;
            try_reserve(&mut head.mk, capacity, "the KV cache")?;
            try_reserve(&mut head.mv, capacity, "the KV cache")?;
        }
        self.capacity = capacity;
        Ok(())
    }

    pub(super) fn layer(&self, layer: usize) -> &[HeadCache] {
        &self.layers[layer]
    }

    pub(super) fn layer_mut(&mut self, layer: usize) -> &mut [HeadCache] {
        &mut self.layers[layer]
    }

    /// Forgets the positions from `len` on and keeps the memory.
    pub(super) fn truncate(&mut self, len: usize) {
        for head in self.layers.iter_mut().flatten() {
            head.k8.truncate(len * self.head_dim);
            head.v8.truncate(len * self.head_dim);
            head.mk.truncate(len);
            head.mv.truncate(len);
        }
    }
}
