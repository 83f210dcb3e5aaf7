//! The validated configuration (spec 3.1) and the block sizes of the Hadamard rotations (spec 2.4).

/// How the inputs of matrix products are quantised to int8 (spec 3.3). The discriminant is the stored byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Scheme {
    /// Every row by its own largest magnitude.
    #[default]
    Dynamic = 1,
    /// The residual's norms and the inputs of the o and down projections by constants of the blob; the rest as in
    /// `Dynamic`.
    Static = 2,
}

impl Scheme {
    /// The scheme of a stored byte.
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Dynamic),
            2 => Some(Self::Static),
            _ => None,
        }
    }

    /// The stored byte.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }
}

impl std::fmt::Display for Scheme {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Dynamic => "dynamic",
            Self::Static => "static",
        })
    }
}

/// The fields of a configuration, unchecked; [`Config::new`] checks them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dims {
    /// Activation scheme.
    pub scheme: Scheme,
    /// Width of the residual stream, 1 ..= 8192.
    pub hidden: u32,
    /// Number of layers, 1 ..= 256.
    pub layers: u32,
    /// Query heads, 1 ..= 256.
    pub heads: u32,
    /// Key/value heads, 1 ..= heads and a divisor of it.
    pub kv_heads: u32,
    /// Width of one head, even, 2 ..= 256; heads * head_dim is at most 16384.
    pub head_dim: u32,
    /// Width of the MLP, 1 ..= 65536.
    pub intermediate: u32,
    /// Rows of the embedding table, 1 ..= 2^20.
    pub vocab: u32,
    /// Ids that the tokenizer can produce, 1 ..= vocab. Later rows are padding.
    pub accepted_ids: u32,
    /// Most tokens of prompt and output together, 1 ..= 32768.
    pub max_context: u32,
    /// Whether q and k heads are normalised.
    pub qk_norm: bool,
    /// Whether the head reads the embedding table's weights.
    pub tied: bool,
    /// Addend of the sums of squares, in squared residual units, below 2^53.
    pub eps: u64,
    /// Ids that end generation: at most 16, strictly ascending, each below `accepted_ids`.
    pub stop_ids: Vec<u32>,
}

/// Largest number of stop ids.
pub const MAX_STOP_IDS: usize = 16;
/// Largest heads * head_dim.
pub const MAX_Q_WIDTH: u32 = 16384;

/// What is wrong with a configuration (spec 3.1).
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigError {
    /// A field lies outside its range.
    #[error("{field} is {value}, must be in {min} ..= {max}")]
    Range {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// Smallest accepted value.
        min: u64,
        /// Largest accepted value.
        max: u64,
    },
    /// head_dim is odd, so rotary pairs do not exist.
    #[error("head_dim is {0}, must be even")]
    OddHeadDim(u32),
    /// kv_heads does not divide heads.
    #[error("heads is {heads}, must be a multiple of kv_heads {kv_heads}")]
    HeadGroups {
        /// Query heads.
        heads: u32,
        /// Key/value heads.
        kv_heads: u32,
    },
    /// heads * head_dim is too large.
    #[error("heads {heads} * head_dim {head_dim} must be at most 16384")]
    QueryWidth {
        /// Query heads.
        heads: u32,
        /// Width of a head.
        head_dim: u32,
    },
    /// Too many stop ids.
    #[error("{0} stop ids, must be at most 16")]
    StopIdCount(usize),
    /// A stop id is not larger than the one before it.
    #[error("stop_ids[{index}] is {id}, must be larger than the id before it")]
    StopIdOrder {
        /// Position in the list.
        index: usize,
        /// The id found there.
        id: u32,
    },
    /// A stop id is not an accepted id.
    #[error("stop_ids[{index}] is {id}, must be below accepted_ids {accepted_ids}")]
    StopIdRange {
        /// Position in the list.
        index: usize,
        /// The id found there.
        id: u32,
        /// The configuration's `accepted_ids`.
        accepted_ids: u32,
    },
}

/// A configuration that satisfies every rule of spec 3.1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config(Dims);

macro_rules! getters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        $($(#[$doc])* #[must_use] pub fn $name(&self) -> usize { self.0.$name as usize })*
    };
}

impl Config {
    /// Checks the fields against spec 3.1.
    ///
    /// # Errors
    /// The first rule that fails.
    pub fn new(d: Dims) -> Result<Self, ConfigError> {
        let ranges: [(&'static str, u64, u64, u64); 10] = [
            ("hidden", d.hidden.into(), 1, 8192),
            ("layers", d.layers.into(), 1, 256),
            ("heads", d.heads.into(), 1, 256),
            ("kv_heads", d.kv_heads.into(), 1, d.heads.into()),
            ("head_dim", d.head_dim.into(), 2, 256),
            ("intermediate", d.intermediate.into(), 1, 65536),
            ("vocab", d.vocab.into(), 1, 1 << 20),
            ("accepted_ids", d.accepted_ids.into(), 1, d.vocab.into()),
            ("max_context", d.max_context.into(), 1, 32768),
            ("eps", d.eps, 0, (1 << 53) - 1),
        ];
        for (field, value, min, max) in ranges {
            if value < min || value > max {
                return Err(ConfigError::Range {
                    field,
                    value,
                    min,
                    max,
                });
            }
        }
        if d.head_dim % 2 != 0 {
            return Err(ConfigError::OddHeadDim(d.head_dim));
        }
        if d.heads % d.kv_heads != 0 {
            return Err(ConfigError::HeadGroups {
                heads: d.heads,
                kv_heads: d.kv_heads,
            });
        }
        // At most 256 * 256 = 2^16: no overflow.
        if d.heads * d.head_dim > MAX_Q_WIDTH {
            return Err(ConfigError::QueryWidth {
                heads: d.heads,
                head_dim: d.head_dim,
            });
        }
        if d.stop_ids.len() > MAX_STOP_IDS {
            return Err(ConfigError::StopIdCount(d.stop_ids.len()));
        }
        let mut last = None;
        for (index, &id) in d.stop_ids.iter().enumerate() {
            if last.is_some_and(|last| id <= last) {
                return Err(ConfigError::StopIdOrder { index, id });
            }
            if id >= d.accepted_ids {
                return Err(ConfigError::StopIdRange {
                    index,
                    id,
                    accepted_ids: d.accepted_ids,
                });
            }
            last = Some(id);
        }
        Ok(Self(d))
    }

    /// The fields as stored.
    #[must_use]
    pub fn dims(&self) -> &Dims {
        &self.0
    }

    getters! {
        /// Width of the residual stream.
        hidden,
        /// Number of layers.
        layers,
        /// Query heads.
        heads,
        /// Key/value heads.
        kv_heads,
        /// Width of one head.
        head_dim,
        /// Width of the MLP.
        intermediate,
        /// Rows of the embedding table.
        vocab,
        /// Ids that a prompt may hold and generation may return.
        accepted_ids,
        /// Most tokens of prompt and output together.
        max_context,
    }

    /// Activation scheme.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        self.0.scheme
    }

    /// Whether q and k heads are normalised (spec 1.11).
    #[must_use]
    pub fn qk_norm(&self) -> bool {
        self.0.qk_norm
    }

    /// Whether the head reads the embedding table's weights.
    #[must_use]
    pub fn tied(&self) -> bool {
        self.0.tied
    }

    /// Addend of the residual's sums of squares (spec 1.6).
    #[must_use]
    pub fn eps(&self) -> u64 {
        self.0.eps
    }

    /// Ids that end generation, strictly ascending.
    #[must_use]
    pub fn stop_ids(&self) -> &[u32] {
        &self.0.stop_ids
    }

    /// Width of all query heads: heads * head_dim.
    #[must_use]
    pub fn q_width(&self) -> usize {
        self.heads() * self.head_dim()
    }

    /// Width of all key (or value) heads: kv_heads * head_dim.
    #[must_use]
    pub fn kv_width(&self) -> usize {
        self.kv_heads() * self.head_dim()
    }

    /// Query heads that share one key/value head.
    #[must_use]
    pub fn group(&self) -> usize {
        self.heads() / self.kv_heads()
    }

    /// Block of the residual's rotation: `had_block(hidden)`.
    #[must_use]
    pub fn hidden_block(&self) -> usize {
        had_block(self.hidden())
    }

    /// Block of the q and k rotation: `had_block(head_dim)`.
    #[must_use]
    pub fn head_block(&self) -> usize {
        had_block(self.head_dim())
    }

    /// Block of the rotation before the down projection: `pow2_block(intermediate)`, in the static scheme
    /// `had_block(intermediate)`.
    #[must_use]
    pub fn mlp_block(&self) -> usize {
        match self.scheme() {
            Scheme::Dynamic => pow2_block(self.intermediate()),
            Scheme::Static => had_block(self.intermediate()),
        }
    }
}

/// The Kronecker factors of H_n (spec 2.4): the primes p of its Paley factors H_{p+1}, leftmost (slowest) first, and
/// the order of the remaining power-of-two factor. `None` when n has no such matrix.
#[must_use]
pub const fn had_factors(n: usize) -> Option<(&'static [usize], usize)> {
    if n == 0 {
        return None;
    }
    let k = n.trailing_zeros() as usize;
    let primes: &'static [usize] = match n >> k {
        1 => &[],
        3 => &[11],
        5 => &[19],
        9 => &[11, 11],
        15 => &[11, 19],
        25 => &[19, 19],
        _ => return None,
    };
    if k < 2 * primes.len() {
        return None;
    }
    Some((primes, 1 << (k - 2 * primes.len())))
}

/// The largest divisor of n >= 1 that has a Hadamard matrix of spec 2.4.
///
/// A divisor with odd part o is best with every factor two of n, so six candidates suffice.
///
/// # Panics
/// When n is 0.
#[must_use]
pub const fn had_block(n: usize) -> usize {
    let two = pow2_block(n);
    let mut best = two;
    let odd = [3, 5, 9, 15, 25];
    let mut i = 0;
    while i < odd.len() {
        let d = odd[i] * two;
        if n % d == 0 && d > best && had_factors(d).is_some() {
            best = d;
        }
        i += 1;
    }
    best
}

/// The largest power of two that divides n >= 1.
///
/// # Panics
/// When n is 0.
#[must_use]
pub const fn pow2_block(n: usize) -> usize {
    assert!(n > 0, "a block size needs n >= 1");
    1 << n.trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> Dims {
        Dims {
            scheme: Scheme::Dynamic,
            hidden: 64,
            layers: 2,
            heads: 4,
            kv_heads: 2,
            head_dim: 16,
            intermediate: 96,
            vocab: 100,
            accepted_ids: 90,
            max_context: 32,
            qk_norm: true,
            tied: true,
            eps: 5,
            stop_ids: vec![3, 89],
        }
    }

    fn with(change: impl FnOnce(&mut Dims)) -> Result<Config, ConfigError> {
        let mut d = base();
        change(&mut d);
        Config::new(d)
    }

    #[test]
    fn both_ends_of_every_range() {
        type Set = fn(&mut Dims, u64);
        // name, setter, smallest, largest, with the other fields of `base`
        let fields: [(&str, Set, u64, u64); 10] = [
            ("hidden", |d, v| d.hidden = v as u32, 1, 8192),
            ("layers", |d, v| d.layers = v as u32, 1, 256),
            (
                "heads",
                |d, v| (d.heads, d.kv_heads) = (v as u32, 1),
                1,
                256,
            ),
            ("kv_heads", |d, v| d.kv_heads = v as u32, 1, 4),
            ("head_dim", |d, v| d.head_dim = v as u32, 2, 256),
            ("intermediate", |d, v| d.intermediate = v as u32, 1, 65536),
            (
                "vocab",
                |d, v| (d.vocab, d.accepted_ids, d.stop_ids) = (v as u32, 1, vec![]),
                1,
                1 << 20,
            ),
            (
                "accepted_ids",
                |d, v| (d.accepted_ids, d.stop_ids) = (v as u32, vec![]),
                1,
                100,
            ),
            ("max_context", |d, v| d.max_context = v as u32, 1, 32768),
            ("eps", |d, v| d.eps = v, 0, (1 << 53) - 1),
        ];
        for (name, set, min, max) in fields {
            for value in [min, max] {
                assert!(with(|d| set(d, value)).is_ok(), "{name} {value}");
            }
            for value in [min.wrapping_sub(1), max + 1] {
                let error = with(|d| set(d, value)).unwrap_err();
                assert!(
                    matches!(error, ConfigError::Range { field, .. } if field == name),
                    "{name} {value}: {error}"
                );
            }
        }
    }

    #[test]
    fn rules_between_fields() {
        assert_eq!(with(|d| d.head_dim = 15), Err(ConfigError::OddHeadDim(15)));
        assert_eq!(
            with(|d| d.kv_heads = 3),
            Err(ConfigError::HeadGroups {
                heads: 4,
                kv_heads: 3
            })
        );
        assert!(with(|d| (d.heads, d.head_dim) = (64, 256)).is_ok());
        assert_eq!(
            with(|d| (d.heads, d.kv_heads, d.head_dim) = (65, 5, 256)),
            Err(ConfigError::QueryWidth {
                heads: 65,
                head_dim: 256
            })
        );
        assert!(with(|d| d.stop_ids = (0..16).collect()).is_ok());
        assert_eq!(
            with(|d| d.stop_ids = (0..17).collect()),
            Err(ConfigError::StopIdCount(17))
        );
        assert_eq!(
            with(|d| d.stop_ids = vec![4, 4]),
            Err(ConfigError::StopIdOrder { index: 1, id: 4 })
        );
        assert_eq!(
            with(|d| d.stop_ids = vec![4, 3]),
            Err(ConfigError::StopIdOrder { index: 1, id: 3 })
        );
        assert_eq!(
            with(|d| d.stop_ids = vec![4, 90]),
            Err(ConfigError::StopIdRange {
                index: 1,
                id: 90,
                accepted_ids: 90
            })
        );
    }

    #[test]
    fn derived_sizes() {
        let c = Config::new(base()).unwrap();
        assert_eq!((c.q_width(), c.kv_width(), c.group()), (64, 32, 2));
        assert_eq!(
            (c.hidden_block(), c.head_block(), c.mlp_block()),
            (64, 16, 32)
        );
        let c = with(|d| d.scheme = Scheme::Static).unwrap();
        assert_eq!(
            (c.hidden_block(), c.head_block(), c.mlp_block()),
            (64, 16, 96)
        );
    }

    #[test]
    fn scheme_codes() {
        let known: Vec<_> = (0..=255)
            .filter_map(|code| Some((code, Scheme::from_code(code)?)))
            .collect();
        assert_eq!(known, [(1, Scheme::Dynamic), (2, Scheme::Static)]);
        assert!(known.iter().all(|(code, scheme)| scheme.code() == *code));
        assert_eq!(Scheme::default(), Scheme::Dynamic);
    }

    #[test]
    fn blocks_equal_the_definition() {
        for n in 1..=8192usize {
            let best = (1..=n)
                .rev()
                .find(|d| n % d == 0 && had_factors(*d).is_some());
            assert_eq!(Some(had_block(n)), best, "{n}");
            let two = (0..14).map(|k| 1 << k).filter(|d| n % d == 0).max();
            assert_eq!(Some(pow2_block(n)), two, "{n}");
        }
    }

    #[test]
    fn factors_multiply_to_the_order() {
        for n in 1..=4096usize {
            if let Some((primes, rest)) = had_factors(n) {
                assert_eq!(primes.iter().map(|p| p + 1).product::<usize>() * rest, n);
                assert!(rest.is_power_of_two());
            }
        }
        assert_eq!(had_factors(0), None);
        assert_eq!(had_factors(6), None);
        assert_eq!(had_factors(12), Some((&[11][..], 1)));
        assert_eq!(had_factors(480), Some((&[11, 19][..], 2)));
    }
}
