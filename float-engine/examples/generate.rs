//! Loads a checkpoint (folder or .gguf), times the forward pass, and continues a prompt greedily:
//! `cargo run --release -p float-engine --example generate -- MODEL "The capital of France is"`

use float_engine::chat::{ChatTemplate, Conversation, Message};
use float_engine::forward::{FloatModel, Kernels};
use float_engine::source::Checkpoint;
use float_engine::tokenizer::Tokenizer;
use std::path::PathBuf;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(path), Some(prompt)) = (args.next().map(PathBuf::from), args.next()) else {
        return Err("usage: generate MODEL PROMPT".into());
    };
    let start = Instant::now();
    let checkpoint = Checkpoint::open(&path)?;
    let tokenizer = Tokenizer::open(&path)?;
    let model = FloatModel::load(&checkpoint)?;
    println!(
        "loaded in {:.2} s; kernels {}",
        start.elapsed().as_secs_f64(),
        Kernels::detect().name()
    );
    println!("{:?}", model.config());

    let ids = tokenizer.encode(&prompt)?;
    println!("{ids:?}");
    let start = Instant::now();
    let out = model.greedy(&ids, 24, &model.config().eos_ids, 2)?;
    let rate = out.len() as f64 / start.elapsed().as_secs_f64();
    println!(
        "{prompt}{}   [{rate:.1} tokens/s]",
        tokenizer.decode(&out, false)
    );

    if let Ok(template) = ChatTemplate::open(&path) {
        let messages = vec![Message::new("user", &prompt)];
        let chat = Conversation {
            messages,
            add_generation_prompt: true,
            ..Conversation::default()
        };
        let ids = template.encode(&tokenizer, &chat)?;
        let out = model.greedy(&ids, 24, &model.config().eos_ids, 2)?;
        println!("chat: {}", tokenizer.decode(&out, false));
    }

    let tokens: Vec<u32> = ids
        .iter()
        .copied()
        .cycle()
        .take(512.min(model.config().max_context))
        .collect();
    for threads in [1, 2] {
        let start = Instant::now();
        let logits = model.logits(&tokens, threads)?;
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "{} tokens on {threads} threads: {:.1} tokens/s ({} logits)",
            tokens.len(),
            tokens.len() as f64 / seconds,
            logits.len()
        );
    }
    Ok(())
}
