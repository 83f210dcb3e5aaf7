//! Writing and loading agree, whatever the sizes of the pieces.

mod sample;

use int_engine::blob::{Header, Loader, Writer};
use int_engine::commitment::commitment;
use int_engine::config::{Config, Dims, Scheme};
use int_engine::model::{Model, pre_shift};
use sample::sample;

fn dims(qk_norm: bool, tied: bool) -> Dims {
    Dims {
        scheme: Scheme::Dynamic,
        hidden: 24,
        layers: 2,
        heads: 4,
        kv_heads: 2,
        head_dim: 6,
        intermediate: 20,
        vocab: 33,
        accepted_ids: 30,
        max_context: 64,
        qk_norm,
        tied,
        eps: 77,
        stop_ids: vec![1, 29],
    }
}

fn configs() -> impl Iterator<Item = Config> {
    [(false, false), (false, true), (true, false), (true, true)]
        .into_iter()
        .map(|(qk_norm, tied)| Config::new(dims(qk_norm, tied)).unwrap())
}

#[test]
fn every_piece_size_loads_the_same_model() {
    for config in configs() {
        let blob = sample(&config, 7);
        let whole = Model::from_bytes(&blob).unwrap();
        assert_eq!(whole.commitment(), commitment(&blob));
        assert_eq!(whole.blob_len(), blob.len() as u64);
        // One byte; inside an element; below, at and above the record's length; the chunk's length.
        for size in [1, 7, 64, 1023, 1024, 1025, 65536] {
            let mut loader = Loader::new();
            for piece in blob.chunks(size) {
                loader.push(piece).unwrap();
                loader.push(&[]).unwrap();
            }
            assert!(loader.finish().unwrap() == whole, "pieces of {size}");
        }
    }
}

#[test]
fn row_sums_run_across_pieces() {
    let config = Config::new(Dims {
        intermediate: 9000,
        ..dims(false, true)
    })
    .unwrap();
    let blob = sample(&config, 3);
    let whole = Model::from_bytes(&blob).unwrap();
    // Shorter rows, or pieces of this one, would ask for -5.
    assert_eq!(whole.layers()[0].down.pre_shift, -4);
    let mut loader = Loader::new();
    for piece in blob.chunks(1000) {
        loader.push(piece).unwrap();
    }
    assert!(loader.finish().unwrap() == whole);
}

#[test]
fn a_blob_of_many_chunks_loads_in_pieces() {
    // Matrices larger than a chunk and than the loader's inner piece, of lengths that no piece size divides.
    let config = Config::new(Dims {
        hidden: 321,
        intermediate: 1001,
        vocab: 1999,
        ..dims(true, false)
    })
    .unwrap();
    let blob = sample(&config, 1);
    assert!(blob.len() > 2 << 20);
    let whole = Model::from_bytes(&blob).unwrap();
    for size in [1023, 65535, 65536, 65537, 300_000] {
        let mut loader = Loader::new().expect(whole.commitment());
        blob.chunks(size)
            .for_each(|piece| loader.push(piece).unwrap());
        assert!(loader.finish().unwrap() == whole, "pieces of {size}");
    }
}

#[test]
fn the_model_holds_the_bytes_of_the_file() {
    for config in configs() {
        let blob = sample(&config, 3);
        let header = Header::parse(&blob).unwrap();
        let model = Model::from_bytes(&blob).unwrap();
        let bytes = |name: &str| {
            let e = header.entries.iter().find(|e| e.name == name).unwrap();
            assert_eq!(e.offset % 64, 0);
            &blob[e.offset as usize..(e.offset + e.length) as usize]
        };
        let int8 = |name: &str| bytes(name).iter().map(|&b| b as i8).collect::<Vec<_>>();
        let int32 = |name: &str| {
            bytes(name)
                .chunks(4)
                .map(|b| i32::from_le_bytes(b.try_into().unwrap()))
                .collect::<Vec<_>>()
        };
        assert_eq!(model.config(), &config);
        assert_eq!(model.metadata(), header.metadata);
        assert_eq!(model.embed().weight.to_rows(), int8("embed.weight"));
        assert_eq!(model.embed().mult, int32("embed.mult"));
        assert_eq!(model.embed().shift, int8("embed.shift"));
        let phase: Vec<u8> = model
            .rope_phase()
            .iter()
            .flat_map(|p| p.to_le_bytes())
            .collect();
        assert_eq!(phase, bytes("rope.phase"));
        for (i, l) in model.layers().iter().enumerate() {
            let linears = [
                ("q", &l.q, 24, 24),
                ("k", &l.k, 12, 24),
                ("v", &l.v, 12, 24),
                ("o", &l.o, 24, 24),
                ("gate", &l.gate, 20, 24),
                ("up", &l.up, 20, 24),
                ("down", &l.down, 24, 20),
            ];
            let consts = int32(&format!("layers.{i}.consts"));
            for (j, (name, w, rows, cols)) in linears.into_iter().enumerate() {
                assert_eq!((w.weight.rows(), w.weight.cols()), (rows, cols), "{name}");
                let weight = w.weight.to_rows();
                assert_eq!(weight, int8(&format!("layers.{i}.{name}.weight")));
                assert_eq!(w.mult, int32(&format!("layers.{i}.{name}.mult")));
                assert_eq!(w.shift, int8(&format!("layers.{i}.{name}.shift")));
                assert_eq!(w.pre_shift, consts[j]);
                assert_eq!(w.pre_shift, pre_shift(&weight, cols));
            }
            assert_eq!((l.score_mult, l.score_shift), (consts[7], consts[8]));
            let gains = (l.q_gain.is_some(), l.k_gain.is_some());
            assert_eq!(gains, (config.qk_norm(), config.qk_norm()));
            if let (Some(q), Some(k)) = (&l.q_gain, &l.k_gain) {
                assert_eq!(*q, int32(&format!("layers.{i}.q_norm.gain")));
                assert_eq!(*k, int32(&format!("layers.{i}.k_norm.gain")));
            }
        }
        let gain: Vec<u8> = model
            .final_gain()
            .iter()
            .flat_map(|g| g.to_le_bytes())
            .collect();
        assert_eq!(gain, bytes("final_norm.gain"));
        assert_eq!(model.head().mult, int32("head.mult"));
        assert_eq!(model.head().shift, int8("head.shift"));
        assert_eq!(model.head().pre_shift, int32("head.consts")[0]);
        assert_eq!(model.head().weight.is_none(), config.tied());
        let head = if config.tied() {
            "embed.weight"
        } else {
            "head.weight"
        };
        assert_eq!(model.head_weight().to_rows(), int8(head));
    }
}

#[test]
fn a_parsed_header_writes_the_same_blob() {
    for config in configs() {
        let blob = sample(&config, 5);
        let header = Header::parse(&blob).unwrap();
        assert_eq!(header.to_bytes(), &blob[..header.prefix_len() as usize]);
        assert_eq!(header.total_len, blob.len() as u64);
        let mut writer = Writer::new(
            Vec::new(),
            &header.config,
            header.tokenizer_digest,
            header.metadata.clone(),
        )
        .unwrap();
        for e in &header.entries {
            // In parts of 5 bytes, which split elements and rows.
            writer.begin(&e.name).unwrap();
            let bytes = &blob[e.offset as usize..(e.offset + e.length) as usize];
            bytes
                .chunks(5)
                .for_each(|part| writer.append(part).unwrap());
        }
        let (copy, found) = writer.finish().unwrap();
        assert!(copy == blob);
        assert_eq!(found, commitment(&blob));
    }
}

#[test]
fn seeds_and_names_give_different_weights() {
    let config = configs().next().unwrap();
    let load = |seed| Model::from_bytes(&sample(&config, seed)).unwrap();
    assert_eq!(load(1), load(1));
    assert_ne!(load(1).layers()[0].q.weight, load(2).layers()[0].q.weight);
    assert_ne!(
        load(1).layers()[0].gate.weight,
        load(1).layers()[0].up.weight
    );
}

#[test]
fn known_commitments() {
    // Found by the program on the pages of the specification, from the same bytes.
    let expected = [
        "0x1bca2daed25c36190af6ac9cded83abd2e51952d3dd8f79463911e1d09997143",
        "0xa2caed5a2c5115134d857f5e1cda18f67a11d765348dae383f7f0b0bab4b2a24",
        "0x1d7e605dfffc4e02db8e86bcfde2dcc929c9d1bdcd75bb5c4fac0da59f02e145",
        "0xe5eb43a0c7bab2bcae8eaf365c842057f7ed4d6817c82014aaff54d0db41d84a",
    ];
    for (config, expected) in configs().zip(expected) {
        assert_eq!(commitment(&sample(&config, 7)).to_string(), expected);
    }
}
