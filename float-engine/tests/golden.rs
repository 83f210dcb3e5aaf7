//! The forward pass against logits and hidden states that another library computed.

use float_engine::config::ModelConfig;
use float_engine::forward::{
    Exec, FloatModel, HEAD_BLOCK, Kernels, PackedLayer, PackedMatrix, Tap, argmax, embed_tokens,
    head_logits, run_layer,
};
use float_engine::source::Checkpoint;
use serde_json::Value;

mod common;
use common::{FOLDERS, model};

/// Both sides compute in f32 in different orders; each is within 2.1e-5 of f64.
const LOGIT_TOLERANCE: f32 = 1e-4;
/// Hidden values reach 20 in the outlier channels.
const HIDDEN_TOLERANCE: f64 = 2e-5;

fn json(name: &str, file: &str) -> Value {
    serde_json::from_slice(&std::fs::read(model(name).join(file)).unwrap()).unwrap()
}

fn ids(v: &Value) -> Vec<u32> {
    v.as_array()
        .unwrap()
        .iter()
        .map(|x| x.as_u64().unwrap() as u32)
        .collect()
}

fn floats(v: &Value) -> Vec<f32> {
    v.as_array()
        .unwrap()
        .iter()
        .map(|x| x.as_f64().unwrap() as f32)
        .collect()
}

fn mean_nll(logits: &[f32], vocab: usize, ids: &[u32]) -> f64 {
    let rows = logits.chunks_exact(vocab).zip(&ids[1..]);
    let losses: Vec<f64> = rows
        .map(|(row, &next)| {
            let top = f64::from(row[argmax(row) as usize]);
            let sum: f64 = row.iter().map(|&x| libm::exp(f64::from(x) - top)).sum();
            top + libm::log(sum) - f64::from(row[next as usize])
        })
        .collect();
    losses.iter().sum::<f64>() / losses.len() as f64
}

#[test]
fn logits_argmaxes_and_greedy_ids() {
    for name in FOLDERS {
        let m = FloatModel::load(&Checkpoint::open(&model(name)).unwrap()).unwrap();
        let vocab = m.config().vocab;
        for p in json(name, "golden.json")["prompts"].as_array().unwrap() {
            let tokens = ids(&p["ids"]);
            let logits = m.logits(&tokens, 1).unwrap();
            let what = format!("{name} {}", p["name"]);
            for (i, (a, b)) in logits[logits.len() - vocab..]
                .iter()
                .zip(floats(&p["last_logits"]))
                .enumerate()
            {
                assert!(
                    (a - b).abs() <= LOGIT_TOLERANCE,
                    "{what} logit {i}: {a} {b}"
                );
            }
            let argmaxes: Vec<u32> = logits.chunks_exact(vocab).map(argmax).collect();
            assert_eq!(argmaxes, ids(&p["all_positions_argmax"]), "{what}");
            if let Some(expected) = p["mean_nll"].as_f64() {
                assert!(
                    (mean_nll(&logits, vocab, &tokens) - expected).abs() < 1e-5,
                    "{what}"
                );
            }
            assert_eq!(
                m.greedy(&tokens, 16, &[], 1).unwrap(),
                ids(&p["greedy_ids"]),
                "{what}"
            );
        }
    }
}

/// `[(name, [n, hidden])]` in execution order, by running layer by layer.
fn hidden_states(ck: &Checkpoint, tokens: &[u32]) -> Vec<(String, Vec<f32>)> {
    let c: &ModelConfig = ck.config();
    let embed = ck.embed().unwrap();
    let mut windows = vec![embed_tokens(c, &embed, tokens).unwrap()];
    let mut states = vec![("embed".to_owned(), windows[0].clone())];
    let exec = Exec::new(1);
    for i in 0..c.layers {
        let layer = PackedLayer::new(&ck.layer(i).unwrap());
        run_layer(c, &layer, &mut windows, &exec, &mut |o| match o.tap {
            Tap::AttnProjected => states.push((format!("layer{i}.attn_out"), o.data.to_vec())),
            Tap::FfnOutput => states.push((format!("layer{i}.mlp_out"), o.data.to_vec())),
            _ => {}
        })
        .unwrap();
        states.push((format!("layer{i}.out"), windows[0].clone()));
    }
    // an identity head shows the final norm
    let mut identity = vec![0.0; c.hidden * c.hidden];
    identity
        .iter_mut()
        .step_by(c.hidden + 1)
        .for_each(|x| *x = 1.0);
    let identity = PackedMatrix::new(&float_engine::source::Matrix::new(
        c.hidden, c.hidden, identity,
    ));
    states.push((
        "final_norm".into(),
        head_logits(c, &ck.final_norm().unwrap(), &identity, &windows[0], &exec),
    ));
    states
}

#[test]
fn hidden_states_layer_by_layer() {
    for name in FOLDERS {
        let ck = Checkpoint::open(&model(name)).unwrap();
        let golden = json(name, "golden.json");
        let checks = &golden["hidden_checks"];
        let tokens =
            ids(&golden["prompts"][checks["prompt_index"].as_u64().unwrap() as usize]["ids"]);
        let states = hidden_states(&ck, &tokens);
        let expected = checks["tensors"].as_array().unwrap();
        assert_eq!(states.len(), expected.len());
        for ((what, x), e) in states.iter().zip(expected) {
            assert_eq!(what, e["name"].as_str().unwrap());
            let number = |key: &str| e[key].as_f64().unwrap();
            let n = x.len() as f64;
            let sum: f64 = x.iter().map(|&v| f64::from(v)).sum();
            let abs_sum: f64 = x.iter().map(|&v| f64::from(v.abs())).sum();
            let max_abs = x.iter().fold(0f32, |m, v| m.max(v.abs()));
            assert!(
                (sum - number("sum")).abs() <= HIDDEN_TOLERANCE * n.sqrt(),
                "{name} {what} sum"
            );
            assert!(
                (abs_sum - number("abs_sum")).abs() <= HIDDEN_TOLERANCE * n.sqrt(),
                "{name} {what} abs_sum"
            );
            assert!(
                (f64::from(max_abs) - number("max_abs")).abs() <= HIDDEN_TOLERANCE,
                "{name} {what} max_abs"
            );
            let last = &x[x.len() - ck.config().hidden..];
            for (a, b) in last.iter().zip(floats(&e["last_pos_first8"])) {
                assert!(
                    f64::from((a - b).abs()) <= HIDDEN_TOLERANCE,
                    "{name} {what}: {a} {b}"
                );
            }
        }
    }
}

#[test]
fn held_out_windows() {
    let m = FloatModel::load(&Checkpoint::open(&model("tiny-austen")).unwrap()).unwrap();
    for w in json("tiny-austen", "heldout_eval.json")["windows"]
        .as_array()
        .unwrap()
    {
        let tokens = ids(&w["ids"]);
        let logits = m.logits(&tokens[..256], 2).unwrap();
        let nll = mean_nll(&logits, m.config().vocab, &tokens);
        assert!(
            (nll - w["mean_nll"].as_f64().unwrap()).abs() < 1e-5,
            "{nll}"
        );
    }
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn threads_and_instruction_sets_do_not_change_a_bit() {
    let tokens = ids(&json("tiny-austen", "heldout_eval.json")["windows"][0]["ids"]);
    for name in FOLDERS {
        let m = FloatModel::load(&Checkpoint::open(&model(name)).unwrap()).unwrap();
        let vocab = m.config().vocab as u32;
        // across the row tiles of attention (24) and the row split of threads (2 x 12)
        for n in [1, 2, 23, 25, 67] {
            let tokens: Vec<u32> = tokens[..n].iter().map(|t| t % vocab).collect();
            let expected = bits(&m.logits(&tokens, 1).unwrap());
            for threads in [2, 3, 5] {
                assert_eq!(
                    bits(&m.logits(&tokens, threads).unwrap()),
                    expected,
                    "{name} {n} {threads}"
                );
            }
            for (set, kernels) in Kernels::all() {
                let Some(kernels) = kernels else { continue };
                let other = m.clone().with_kernels(kernels);
                assert_eq!(
                    bits(&other.logits(&tokens, 1).unwrap()),
                    expected,
                    "{name} {n} {set}"
                );
            }
        }
    }
}

#[test]
fn cached_decoding_equals_recomputation_bit_for_bit() {
    let tokens = ids(&json("tiny-austen", "heldout_eval.json")["windows"][1]["ids"]);
    let m = FloatModel::load(&Checkpoint::open(&model("tiny-austen")).unwrap()).unwrap();
    let vocab = m.config().vocab;
    let all = m.logits(&tokens, 1).unwrap();
    for pieces in [
        vec![5, 3],
        vec![1; 40],
        vec![16, 1, 16, 1],
        vec![255, 1, 1],
        vec![24, 1, 64, 168],
    ] {
        let mut session = m.session();
        let mut at = 0;
        for n in pieces {
            let last = m.extend(&mut session, &tokens[at..at + n], 1).unwrap();
            at += n;
            assert_eq!(session.len(), at);
            assert_eq!(
                bits(&last),
                bits(&all[(at - 1) * vocab..at * vocab]),
                "after {at}"
            );
        }
    }
}

#[test]
fn windows_are_independent_and_equal_the_whole_model() {
    for name in [FOLDERS[0], FOLDERS[3]] {
        let ck = Checkpoint::open(&model(name)).unwrap();
        let c = ck.config();
        let embed = ck.embed().unwrap();
        let texts: [&[u32]; 3] = [&[1, 2, 3, 4, 5, 6, 7], &[300, 2], &[9; 33]];
        let mut windows: Vec<Vec<f32>> = texts
            .iter()
            .map(|t| embed_tokens(c, &embed, t).unwrap())
            .collect();
        let exec = Exec::new(2);
        let mut seen = Vec::new();
        for i in 0..c.layers {
            let layer = PackedLayer::new(&ck.layer(i).unwrap());
            let mut observe = |o: &float_engine::forward::Observation<'_>| {
                assert_eq!(o.data.len(), texts[o.window].len() * o.width);
                seen.push((o.window, o.tap));
            };
            run_layer(c, &layer, &mut windows, &exec, &mut observe).unwrap();
        }
        assert_eq!(seen.len(), c.layers * 3 * 9);
        let head = ck.lm_head().unwrap().unwrap_or(embed);
        let m = FloatModel::load(&ck).unwrap();
        for (x, tokens) in windows.iter().zip(texts) {
            let logits = head_logits(
                c,
                &ck.final_norm().unwrap(),
                &PackedMatrix::new(&head),
                x,
                &exec,
            );
            assert_eq!(bits(&logits), bits(&m.logits(tokens, 1).unwrap()));
        }
    }
}

#[test]
fn bad_tokens_are_refused_and_leave_the_session_as_it_was() {
    use float_engine::forward::ForwardError;
    let m = FloatModel::load(&Checkpoint::open(&model(FOLDERS[0])).unwrap()).unwrap();
    let mut s = m.session();
    let first = m.extend(&mut s, &[1, 2], 1).unwrap();
    assert_eq!(m.extend(&mut s, &[], 1), Err(ForwardError::Empty));
    for id in [320, u32::MAX, 1 << 31] {
        assert_eq!(
            m.extend(&mut s, &[1, id], 1),
            Err(ForwardError::TokenOutOfRange { id, vocab: 320 })
        );
    }
    assert_eq!(
        m.extend(&mut s, &[1; 511], 1),
        Err(ForwardError::TooLong { len: 513, max: 512 })
    );
    assert!(m.logits(&[319], 1).is_ok());
    assert_eq!(s.len(), 2);
    let again = m.extend(&mut s, &[3], 1).unwrap();
    let whole = m.logits(&[1, 2, 3], 1).unwrap();
    assert_eq!(bits(&first), bits(&whole[320..640]));
    assert_eq!(bits(&again), bits(&whole[640..]));
    assert_eq!(argmax(&[1.0, 3.0, 3.0, 2.0]), 1);
}

#[test]
fn logits_stream_by_position_in_blocks() {
    let m = FloatModel::load(&Checkpoint::open(&model(FOLDERS[0])).unwrap()).unwrap();
    for n in [
        1,
        HEAD_BLOCK - 1,
        HEAD_BLOCK,
        HEAD_BLOCK + 1,
        2 * HEAD_BLOCK + 1,
    ] {
        let tokens: Vec<u32> = (0..n as u32).map(|i| i * 7 % 300).collect();
        for threads in [1, 3] {
            let mut rows: Vec<Vec<f32>> = Vec::new();
            let mut keep = |position: usize, row: &[f32]| {
                assert_eq!(position, rows.len());
                rows.push(row.to_vec());
            };
            m.logits_each(&tokens, threads, &mut keep).unwrap();
            assert_eq!(rows.len(), n);
            for (i, row) in rows.iter().enumerate().skip(n.saturating_sub(3)) {
                let alone = m.extend(&mut m.session(), &tokens[..=i], 1).unwrap();
                assert_eq!(bits(row), bits(&alone), "{n} {i}");
            }
            assert_eq!(bits(&rows.concat()), bits(&m.logits(&tokens, 1).unwrap()));
        }
    }
    let mut never = |_: usize, _: &[f32]| panic!("called after an error");
    assert!(m.logits_each(&[], 1, &mut never).is_err());
    assert!(m.logits_each(&[1, u32::MAX], 1, &mut never).is_err());
}
