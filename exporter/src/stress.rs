//! Outliers injected into a checkpoint without changing its function, to see what an export makes of them.

use crate::random::SplitMix;
use float_engine::source::{Checkpoint, LayerWeights, Matrix, SourceError};

/// Factor on six norm gains of each norm; six others are divided by it.
pub const GAIN: f32 = 50.0;
/// Factor on six inputs of each down projection.
pub const MLP: f32 = 50.0;
/// Factor on three value channels of each layer.
pub const VALUE: f32 = 20.0;
/// Factor on one rope pair of every key head (with q/k norm: of the key gain).
pub const PAIR: f32 = 8.0;

/// A copy of the checkpoint, in memory, with outlier channels in every layer; the same seed gives the same channels.
///
/// Each factor is undone by the matrix that reads or writes the channel, so only rounding in f32 changes the logits.
///
/// # Errors
/// A checkpoint that cannot be read; a factor that overflows f32.
pub fn inject(checkpoint: &Checkpoint, seed: u64) -> Result<Checkpoint, SourceError> {
    let c = checkpoint.config();
    let mut random = SplitMix::new(seed);
    let mut layers = Vec::new();
    for i in 0..c.layers {
        let mut w = checkpoint.layer(i)?;
        let LayerWeights {
            attn_norm,
            q,
            k,
            v,
            ffn_norm,
            gate,
            up,
            ..
        } = &mut w;
        gains(&mut random, attn_norm, &mut [q, k, v]);
        gains(&mut random, ffn_norm, &mut [gate, up]);
        for j in choose(&mut random, c.intermediate, 6) {
            scale_row(&mut w.up, j, MLP);
            scale_col(&mut w.down, j, 1.0 / MLP);
        }
        let (hd, group) = (c.head_dim, c.heads / c.kv_heads);
        for j in choose(&mut random, c.kv_heads * hd, 3) {
            scale_row(&mut w.v, j, VALUE);
            for g in 0..group {
                scale_col(&mut w.o, (j / hd * group + g) * hd + j % hd, 1.0 / VALUE);
            }
        }
        if let (Some(gq), Some(gk)) = (&mut w.q_norm, &mut w.k_norm) {
            let pair = random.below(hd / 2);
            for z in [pair, pair + hd / 2] {
                gk[z] *= PAIR;
                gq[z] /= PAIR;
            }
        } else {
            for head in 0..c.kv_heads {
                let pair = random.below(hd / 2);
                for z in [pair, pair + hd / 2] {
                    scale_row(&mut w.k, head * hd + z, PAIR);
                    for g in 0..group {
                        scale_row(&mut w.q, (head * group + g) * hd + z, 1.0 / PAIR);
                    }
                }
            }
        }
        layers.push(w);
    }
    Checkpoint::from_parts(
        c.clone(),
        checkpoint.embed()?,
        layers,
        checkpoint.final_norm()?,
        checkpoint.lm_head()?,
    )
}

/// `count` distinct indices below `n`, or n / 2 if that is less.
fn choose(random: &mut SplitMix, n: usize, count: usize) -> Vec<usize> {
    let mut chosen = Vec::new();
    while chosen.len() < count.min(n / 2) {
        let i = random.below(n);
        if !chosen.contains(&i) {
            chosen.push(i);
        }
    }
    chosen
}

fn gains(random: &mut SplitMix, gain: &mut [f32], readers: &mut [&mut Matrix]) {
    let chosen = choose(random, gain.len(), 12);
    for (i, &j) in chosen.iter().enumerate() {
        let factor = if i < 6 { GAIN } else { 1.0 / GAIN };
        gain[j] *= factor;
        readers
            .iter_mut()
            .for_each(|m| scale_col(m, j, 1.0 / factor));
    }
}

fn scale_row(m: &mut Matrix, i: usize, factor: f32) {
    m.data[i * m.cols..(i + 1) * m.cols]
        .iter_mut()
        .for_each(|v| *v *= factor);
}

fn scale_col(m: &mut Matrix, j: usize, factor: f32) {
    m.data
        .iter_mut()
        .skip(j)
        .step_by(m.cols)
        .for_each(|v| *v *= factor);
}
