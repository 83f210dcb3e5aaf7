//! A sorted map by hash whose clones share what does not change.

use alloy_primitives::B256;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Parts of the map; the highest bits of the key choose one, so that the order of parts is the order of keys.
const SHARDS: usize = 64;

#[derive(Clone)]
pub(super) struct Sharded<V>(Vec<Arc<BTreeMap<B256, V>>>);

impl<V> Default for Sharded<V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<V: Clone + PartialEq> PartialEq for Sharded<V> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<V: Clone + Eq> Eq for Sharded<V> {}

impl<V: Clone + fmt::Debug> fmt::Debug for Sharded<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

fn shard(key: &B256) -> usize {
    usize::from(key[0]) * SHARDS / 256
}

impl<V: Clone> Sharded<V> {
    pub(super) fn get(&self, key: &B256) -> Option<&V> {
        self.0.get(shard(key))?.get(key)
    }

    pub(super) fn insert(&mut self, key: B256, value: V) {
        if self.0.is_empty() {
            self.0.resize_with(SHARDS, Arc::default);
        }
        if let Some(part) = self.0.get_mut(shard(&key)) {
            Arc::make_mut(part).insert(key, value);
        }
    }

    pub(super) fn remove(&mut self, key: &B256) {
        if let Some(part) = self.0.get_mut(shard(key))
            && part.contains_key(key)
        {
            Arc::make_mut(part).remove(key);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&B256, &V)> {
        self.0.iter().flat_map(|part| part.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::keccak256;

    #[test]
    fn sorted_and_apart_from_its_clones() {
        let mut map = Sharded::default();
        let keys: Vec<_> = (0..1000u32).map(|i| keccak256(i.to_be_bytes())).collect();
        for (i, key) in keys.iter().enumerate() {
            map.insert(*key, i);
        }
        let mut sorted = keys.clone();
        sorted.sort();
        assert!(map.iter().map(|(key, _)| *key).eq(sorted));
        let before = map.clone();
        map.insert(keys[3], 7);
        map.remove(&keys[4]);
        assert_eq!(
            (before.get(&keys[3]), map.get(&keys[3])),
            (Some(&3), Some(&7))
        );
        assert_eq!((before.get(&keys[4]), map.get(&keys[4])), (Some(&4), None));
        assert_eq!(map.iter().count(), 999);
        map.insert(keys[3], 3);
        map.insert(keys[4], 4);
        assert_eq!(map, before);
        keys.iter().for_each(|key| map.remove(key));
        assert_eq!(map, Sharded::default());
    }
}
