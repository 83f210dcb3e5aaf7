//! `blue chat`: a conversation in the model's own template.

use std::io::{self, BufRead, IsTerminal};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;

use float_engine::chat::{ChatTemplate, Conversation, Message};
use float_engine::tokenizer::Tokenizer;
use int_engine::engine::{Session, continue_greedy};
use serde_json::json;

use crate::backend::{finish_name, refused};
use crate::failure::{Context, Failure, Outcome};
use crate::loaded::{Loaded, RunArgs};
use crate::progress::Progress;
use crate::{bundle, output};

const HELP: &str = "\
Examples:
  blue chat model.blob
  blue chat model.blob --message \"What is the capital of France?\" --json

Lines from standard input are messages; the chat template beside the blob wraps them, and control tokens
spelled out in a message are plain characters. Commands of a line of their own:
  /reset     forget the conversation (the system message stays)
  /exit      end
/no_think and /think, alone or at the end of a message, switch the thinking of models that have it.
--json, with --message, prints one line with the keys prompt_ids, output_ids, text, finish, commitment,
backend, prefill_tokens_per_s, decode_tokens_per_s.";

/// Talk with a model.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The blob
    blob: PathBuf,
    /// A system message
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Most tokens of an answer
    #[arg(long, value_name = "N", default_value_t = 512)]
    max_new: u32,
    /// Ask the template for an answer without thinking
    #[arg(long)]
    no_think: bool,
    /// Answer this message and end
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    message: Option<String>,
    #[command(flatten)]
    run: RunArgs,
    /// Print one line of JSON in place of streamed text
    #[arg(long, requires = "message")]
    json: bool,
}

/// A conversation and the sequence that holds its beginning.
struct Chat<'a> {
    tokenizer: &'a Tokenizer,
    template: &'a ChatTemplate,
    session: Box<dyn Session>,
    /// The ids that the session holds.
    held: Vec<u32>,
    conversation: Conversation,
    max_new: usize,
}

/// One answer.
struct Answer {
    prompt: Vec<u32>,
    output: Vec<u32>,
    text: String,
    finish: &'static str,
    prefill_tokens_per_s: f64,
    decode_tokens_per_s: f64,
}

pub(crate) fn run(args: Args) -> Outcome {
    let loaded = Loaded::open(Some(&args.blob), &args.run, Progress::new(args.json))?;
    let tokenizer = loaded.tokenizer(Some(&args.blob))?;
    let template = bundle::chat_template(&args.blob)?.ok_or_else(|| {
        Failure::input("a conversation needs a chat template, and none is beside the blob").hint(
            format!(
                "`blue export` of a checkpoint with a template writes {}",
                bundle::config_path(&args.blob).display()
            ),
        )
    })?;
    let mut chat = Chat {
        tokenizer,
        template: &template,
        session: loaded.session()?,
        held: Vec::new(),
        conversation: Conversation {
            messages: args
                .system
                .iter()
                .map(|text| Message::new("system", text))
                .collect(),
            add_generation_prompt: true,
            enable_thinking: args.no_think.then_some(false),
            ..Conversation::default()
        },
        max_new: args.max_new as usize,
    };
    let Some(message) = &args.message else {
        return chat.interact();
    };
    let message = chat.take_switch(message);
    if message.is_empty() {
        return Err(Failure::input("the message is empty"));
    }
    let answer = chat.answer(&message, |piece| {
        if args.json {
            Ok(())
        } else {
            output::text(piece)
        }
    })?;
    if !args.json {
        output::text("\n")?;
        mark_cut(&answer);
        return Ok(());
    }
    output::json(&json!({
        "prompt_ids": answer.prompt,
        "output_ids": answer.output,
        "text": answer.text,
        "finish": answer.finish,
        "commitment": loaded.model.commitment().to_string(),
        "backend": loaded.engine.backend(),
        "prefill_tokens_per_s": answer.prefill_tokens_per_s,
        "decode_tokens_per_s": answer.decode_tokens_per_s,
    }))
}

/// Whether a line is one word that begins with a slash and is no thinking switch.
fn is_unknown_command(line: &str) -> bool {
    let word = line
        .strip_prefix('/')
        .is_some_and(|w| w.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_'));
    word && !matches!(line, "/think" | "/no_think")
}

/// Tells on standard error that an answer did not end by itself.
fn mark_cut(answer: &Answer) {
    match answer.finish {
        "length" => Progress::Plain.note("[cut at --max-new]"),
        "context" => Progress::Plain.note("[cut: the context is full]"),
        _ => {}
    }
}

impl Chat<'_> {
    fn interact(&mut self) -> Outcome {
        let stdin = io::stdin();
        let terminal = stdin.is_terminal();
        loop {
            if terminal {
                eprint!("> ");
            }
            let mut line = String::new();
            if stdin
                .lock()
                .read_line(&mut line)
                .or_input("cannot read standard input as UTF-8 lines")?
                == 0
            {
                return if terminal { output::text("\n") } else { Ok(()) };
            }
            match line.trim() {
                "" => {}
                "/exit" => return Ok(()),
                "/reset" => self.conversation.messages.retain(|m| m.role == "system"),
                line if is_unknown_command(line) => Progress::Plain.note(&format!(
                    "unknown command {line}; there are /reset, /exit, /think, /no_think"
                )),
                line => {
                    let message = self.take_switch(line);
                    if message.is_empty() {
                        continue;
                    }
                    match self.answer(&message, output::text) {
                        Ok(answer) => {
                            output::text("\n")?;
                            mark_cut(&answer);
                        }
                        Err(failure) if failure.is_input() => failure.print(),
                        Err(failure) => return Err(failure),
                    }
                }
            }
        }
    }

    /// The message without a thinking switch at its end, which takes effect from here on.
    fn take_switch(&mut self, message: &str) -> String {
        let message = message.trim();
        for (switch, thinking) in [("/no_think", false), ("/think", true)] {
            if let Some(rest) = message.strip_suffix(switch)
                && (rest.is_empty() || rest.ends_with(char::is_whitespace))
            {
                self.conversation.enable_thinking = Some(thinking);
                return rest.trim_end().to_string();
            }
        }
        message.to_string()
    }

    /// Adds the message and the answer to the conversation; a refused message is taken back.
    fn answer(&mut self, message: &str, show: impl FnMut(&str) -> Outcome) -> Outcome<Answer> {
        self.conversation
            .messages
            .push(Message::new("user", message));
        let answer = self.decode(show);
        match &answer {
            Ok(answer) => self
                .conversation
                .messages
                .push(Message::new("assistant", &answer.text)),
            Err(_) => drop(self.conversation.messages.pop()),
        }
        answer
    }

    fn decode(&mut self, mut show: impl FnMut(&str) -> Outcome) -> Outcome<Answer> {
        let prompt = self
            .template
            .encode(self.tokenizer, &self.conversation)
            .or_input("cannot put the message into the chat template")?;
        let max_context = self.session.config().max_context();
        if prompt.len() >= max_context {
            return Err(Failure::input(format!(
                "the conversation has {} tokens, the context is {max_context}",
                prompt.len()
            ))
            .hint("/reset forgets the conversation"));
        }
        let start = Instant::now();
        // The last token of the prompt is always fed, for its logits.
        let common = self
            .held
            .iter()
            .zip(&prompt)
            .take_while(|(a, b)| a == b)
            .count()
            .min(prompt.len().saturating_sub(1));
        self.session.truncate(common);
        self.held.truncate(common);
        self.session.feed(&prompt[common..]).map_err(refused)?;
        self.held.extend(&prompt[common..]);
        let prefill = start.elapsed();
        let (mut text, mut stream, mut failed) = (String::new(), self.tokenizer.stream(true), None);
        let done = continue_greedy(&mut *self.session, self.max_new, &mut |id| {
            let piece = stream.push(id);
            text.push_str(&piece);
            match show(&piece) {
                Ok(()) => ControlFlow::Continue(()),
                Err(failure) => {
                    failed = Some(failure);
                    ControlFlow::Break(())
                }
            }
        })
        .map_err(refused)?;
        let (output, finish) = (done.ids, finish_name(done.finish));
        self.held.extend(&output);
        self.held.truncate(self.session.position());
        if let Some(failure) = failed {
            return Err(failure);
        }
        let piece = stream.finish();
        show(&piece)?;
        text.push_str(&piece);
        let rate = |tokens: usize, seconds: f64| {
            if tokens == 0 {
                0.0
            } else {
                tokens as f64 / seconds.max(1e-9)
            }
        };
        Ok(Answer {
            prefill_tokens_per_s: rate(prompt.len() - common, prefill.as_secs_f64()),
            decode_tokens_per_s: rate(output.len(), (start.elapsed() - prefill).as_secs_f64()),
            prompt,
            output,
            text,
            finish,
        })
    }
}
