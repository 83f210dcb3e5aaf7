//! The reference as a target: every call is a call of `int_reference`.

use int_reference as spec;

use super::{
    Attend, Channels, Generated, Halt, Hash, LayerSink, Model, Models, Ops, Rows, Scaled, Stop,
};

/// The reference.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReferenceTarget;

fn codes(row: &[i64]) -> Vec<i8> {
    row.iter().map(|&v| v as i8).collect()
}

fn wide(row: &[i8]) -> Vec<i64> {
    row.iter().map(|&v| v.into()).collect()
}

fn matrix(flat: &[i64], cols: usize) -> Vec<Vec<i64>> {
    flat.chunks(cols).map(<[i64]>::to_vec).collect()
}

impl Ops for ReferenceTarget {
    fn isqrt(&self, n: &[i64]) -> Vec<i64> {
        n.iter().map(|&n| spec::isqrt(n)).collect()
    }

    fn rdbpot(&self, x: &[i64], e: u32) -> Vec<i64> {
        x.iter().map(|&x| spec::rdbpot(x, e)).collect()
    }

    fn srdhm(&self, a: &[i64], b: &[i64]) -> Vec<i64> {
        let one = |(&a, &b): (&i64, &i64)| spec::srdhm(a as i32, b as i32).into();
        a.iter().zip(b).map(one).collect()
    }

    fn norm_scale(&self, m: &[i64]) -> Rows {
        m.iter().map(|&m| spec::norm_scale(m)).unzip()
    }

    fn quantize(&self, u: &[i64], m: i64) -> Vec<i64> {
        wide(&spec::quantize(u, m))
    }

    fn dynq(&self, u: &[i64]) -> (Vec<i64>, i64) {
        let (q, m) = spec::dynq(u);
        (wide(&q), m)
    }

    fn rms(&self, x: &[i64], eps: i64) -> (i64, i64) {
        spec::rms(x, eps)
    }

    fn ratio(&self, m: &[i64], r: &[i64], e: &[i64]) -> Rows {
        let one = |((&m, &r), &e): ((&i64, &i64), &i64)| spec::ratio(m, r, e);
        m.iter().zip(r).zip(e).map(one).unzip()
    }

    fn requantize(&self, acc: &[i64], c: Channels<'_>) -> Vec<i64> {
        let one = |((&acc, &mult), &shift): ((&i64, &i64), &i64)| {
            spec::requantize(acc, c.psh, c.scale, mult, shift, c.limit)
        };
        acc.iter().zip(c.mult).zip(c.shift).map(one).collect()
    }

    fn rope_angle(&self, phase: u64, position: &[i64]) -> Rows {
        let one = |&p: &i64| spec::rope_angle(phase, p as u64);
        position.iter().map(one).unzip()
    }

    fn rope(&self, x: &[i64], cos_sin: &[(i64, i64)]) -> Vec<i64> {
        spec::rope(x, cos_sin)
    }

    fn had_block(&self, n: usize) -> usize {
        spec::had_block(n)
    }

    fn pow2_block(&self, n: usize) -> usize {
        spec::pow2_block(n)
    }

    fn had_forward(&self, x: &[i64], block: usize) -> Vec<i64> {
        spec::had_forward(x, block)
    }

    fn had_transpose(&self, x: &[i64], block: usize) -> Vec<i64> {
        spec::had_transpose(x, block)
    }

    fn head_norm(&self, x: &[i64], gain: &[i64]) -> Vec<i64> {
        spec::head_norm(x, gain)
    }

    fn swiglu(&self, g: &[i64], u: &[i64]) -> Vec<i64> {
        g.iter().zip(u).map(|(&g, &u)| spec::swiglu(g, u)).collect()
    }

    fn exp2_weight(&self, d: &[i64]) -> Vec<i64> {
        d.iter().map(|&d| spec::exp2_weight(d)).collect()
    }

    fn attend(&self, a: Attend<'_>) -> Vec<i64> {
        let rows = |flat: &[i64]| flat.chunks(a.q8.len()).map(codes).collect();
        let kv = spec::KvHead {
            k8: rows(a.k8),
            mk: a.mk.to_vec(),
            v8: rows(a.v8),
            mv: a.mv.to_vec(),
        };
        spec::attend(&codes(a.q8), a.mq, &kv, a.score_mult, a.score_shift)
    }

    fn linear(&self, weight: &[i64], q: &[i64], c: Channels<'_>) -> Vec<i64> {
        let channels = spec::Channels {
            psh: c.psh,
            mult: c.mult.to_vec(),
            shift: codes(c.shift),
        };
        spec::linear(&codes(weight), &channels, &codes(q), c.scale, c.limit)
    }

    fn add_residual(&self, x: &[i64], y: &[i64]) -> Vec<i64> {
        spec::add_residual(x, y)
    }

    fn norm(&self, x: &[i64], eps: i64) -> Scaled {
        let (q, scale) = spec::norm(x, eps);
        (wide(&q), scale)
    }

    fn norm_static(&self, x: &[i64], eps: i64, c: i64) -> Scaled {
        let (q, scale) = spec::norm_static(x, eps, c);
        (wide(&q), scale)
    }

    fn argmax(&self, values: &[i64], accepted_ids: usize) -> i64 {
        let values: Vec<i32> = values.iter().map(|&v| v as i32).collect();
        spec::argmax(&values, accepted_ids).into()
    }

    fn keccak256(&self, data: &[u8]) -> Hash {
        spec::keccak256(data)
    }

    fn commitment(&self, blob: &[u8]) -> Hash {
        spec::commitment(blob)
    }

    fn prove_chunk(&self, blob: &[u8], index: u64) -> Vec<Hash> {
        spec::prove_chunk(blob, index).unwrap_or_default()
    }

    fn verify_chunk(
        &self,
        commitment: &Hash,
        total_len: u64,
        index: u64,
        chunk: &[u8],
        proof: &[Hash],
    ) -> bool {
        spec::verify_chunk(commitment, total_len, index, chunk, proof)
    }

    fn toy_gemm(&self, weight: &[i64], x: &[i64], shift: u32) -> Vec<i64> {
        spec::toy::gemm(&matrix(weight, x.len()), x, shift)
    }

    fn toy_norm(&self, x: &[i64], w: &[i64], mult: i64, eps: i64) -> Vec<i64> {
        spec::toy::rms_norm(x, w, mult, eps)
    }

    fn toy_attend(&self, q: &[i64], k: &[i64], v: &[i64]) -> Vec<i64> {
        spec::toy::attend(q, &matrix(k, q.len()), &matrix(v, q.len()))
    }

    fn toy_swiglu(&self, gate: &[i64], up: &[i64]) -> Vec<i64> {
        let one = |(&g, &u): (&i64, &i64)| spec::toy::swiglu(g, u);
        gate.iter().zip(up).map(one).collect()
    }
}

fn halted(halt: spec::Halt) -> Halt {
    let (name, token) = match halt {
        spec::Halt::EmptyPrompt => ("EmptyPrompt", None),
        spec::Halt::ContextExceeded => ("ContextExceeded", None),
        spec::Halt::TokenOutOfRange { position, id } => {
            ("TokenOutOfRange", Some((position as u64, id.into())))
        }
    };
    Halt { name, token }
}

fn stopped(halt: spec::Halt) -> Stop {
    Stop::Halt(halted(halt))
}

struct ReferenceModel(spec::Model);

impl Model for ReferenceModel {
    fn layers(&self, prompt: &[u32], sink: LayerSink<'_>) -> Result<(), Stop> {
        self.0.check_prompt(prompt).map_err(stopped)?;
        let mut cache = self.0.new_cache();
        for (position, &token) in prompt.iter().enumerate() {
            self.0
                .step_probed(&mut cache, token, &mut |layer, op, values| {
                    let stage = match (layer, op) {
                        (None, "embed") => 0,
                        (Some(layer), "mlp_residual") => layer + 1,
                        _ => return,
                    };
                    let row: Vec<i32> = values.iter().map(|&v| v as i32).collect();
                    sink(position, stage, &row);
                });
        }
        Ok(())
    }

    fn logits(&self, prompt: &[u32], sink: &mut dyn FnMut(usize, &[i32])) -> Result<(), Stop> {
        let rows = self.0.all_logits(prompt).map_err(stopped)?;
        rows.iter().enumerate().for_each(|(i, row)| sink(i, row));
        Ok(())
    }

    fn generate(&self, prompt: &[u32], max_new: u32) -> Result<Generated, Stop> {
        let (tokens, finish) = self.0.generate(prompt, max_new as usize).map_err(stopped)?;
        let finish = match finish {
            spec::Finish::Length => "length",
            spec::Finish::Stop => "stop",
            spec::Finish::Context => "context",
        };
        Ok((tokens, finish))
    }
}

impl Models for ReferenceTarget {
    fn load(&self, blob: &[u8]) -> Result<Box<dyn Model>, String> {
        let model = spec::Model::from_blob(blob).map_err(|e| e.to_string())?;
        Ok(Box::new(ReferenceModel(model)))
    }

    fn toy_logits(&self, prompt: &[u32]) -> Result<Vec<i64>, Halt> {
        let weights = spec::toy::weights(spec::toy::SEED);
        spec::toy::logits(&weights, prompt).map_err(halted)
    }

    fn toy_generate(&self, prompt: &[u32], max_new: u32) -> Result<Vec<u32>, Halt> {
        let weights = spec::toy::weights(spec::toy::SEED);
        let mut all = spec::toy::generate(&weights, prompt, max_new as usize).map_err(halted)?;
        Ok(all.split_off(prompt.len()))
    }
}
