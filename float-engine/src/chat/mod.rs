//! Chat templates, rendered so that the text of a message stays text.
//!
//! Before rendering, a marker character that occurs nowhere else is put inside every special token spelled out in
//! a message. The rendered text is then split at the special tokens that are left; the marker is removed from the
//! pieces, and they are encoded as plain text.
//!
//! The contract: content that the template inserts as it is, trimmed, or cut at a separator cannot become a
//! control token. A template that rewrites content (changes its case, replaces, reverses, splits and joins) is
//! trusted with what it makes: it can build a special token out of text that was none, or take the marker out.
//! Templates are part of the model, and a model whose template does so is to be judged like the rest of it.

mod engine;
mod marker;

use crate::tokenizer::{Tokenizer, TokenizerError};
use minijinja::Error;
use serde::Serialize;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Message {
    /// `system`, `developer`, `user`, `assistant` or `tool`.
    pub role: String,
    /// The text.
    pub content: String,
    /// Further fields that templates read, such as `reasoning_content` and `tool_calls`.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Message {
    /// A message with text only.
    pub fn new(role: &str, content: &str) -> Self {
        Self {
            role: role.into(),
            content: content.into(),
            extra: Map::new(),
        }
    }
}

/// What a template is rendered with.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Conversation {
    /// The messages, oldest first.
    pub messages: Vec<Message>,
    /// Descriptions of tools, as JSON schemas.
    pub tools: Vec<Value>,
    /// Whether the text ends where the assistant's answer begins.
    pub add_generation_prompt: bool,
    /// For models that can think first; `None` leaves it to the template.
    pub enable_thinking: Option<bool>,
}

/// Why a template was refused, or a conversation.
#[derive(Debug, thiserror::Error)]
pub enum ChatError {
    /// The model has none.
    #[error("{path} has no chat template")]
    NoTemplate {
        /// The folder or file.
        path: PathBuf,
    },
    /// A file could not be read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A configuration file is malformed.
    #[error("{path}: {detail}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The defect.
        detail: String,
    },
    /// The template does not compile.
    #[error("the chat template does not compile: {0}")]
    Syntax(#[source] Error),
    /// The template fails on this conversation, or refuses it.
    #[error("the chat template fails: {0}")]
    Render(#[source] Error),
    /// The template's source is too long.
    #[error("the chat template has {bytes} bytes; at most {max} are read")]
    TooLong {
        /// Its bytes.
        bytes: usize,
        /// The most accepted.
        max: usize,
    },
    /// The template's source has too many `~`.
    #[error("the chat template has {found} `~` operators; at most {max} are compiled")]
    TooManyConcatenations {
        /// How many.
        found: usize,
        /// The most accepted.
        max: usize,
    },
    /// The template loops for too long on this conversation.
    #[error("the chat template takes more than {max} steps on this conversation")]
    OutOfFuel {
        /// The most steps allowed.
        max: u64,
    },
    /// The rendered text is too long.
    #[error("the chat template writes more than {max} bytes")]
    OutputTooLong {
        /// The most bytes allowed.
        max: usize,
    },
    /// The thread for the template engine could not be started.
    #[error("cannot start a thread for the chat template: {0}")]
    Thread(#[source] std::io::Error),
    /// The template engine has failed on this template.
    #[error("the template engine cannot process this chat template; simplify it")]
    Panicked,
    /// A role that no template has.
    #[error(
        "message {index} has the role `{role}`; expected system, developer, user, assistant or tool"
    )]
    Role {
        /// The message.
        index: usize,
        /// Its role.
        role: String,
    },
    /// No messages.
    #[error("no messages; at least one is needed")]
    Empty,
    /// Every character that could mark text occurs in the conversation.
    #[error("the conversation uses every private-use character of plane 15")]
    NoMarker,
    /// The rendered text could not be encoded.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
}

/// A chat template that compiles.
#[derive(Debug, Clone)]
pub struct ChatTemplate {
    source: String,
    bos_token: String,
    eos_token: String,
}

impl ChatTemplate {
    /// Reads the template of a checkpoint: `chat_template.jinja`, else `chat_template` in `tokenizer_config.json`;
    /// or `tokenizer.chat_template` of a `.gguf` file.
    ///
    /// # Errors
    /// [`ChatError::NoTemplate`] when there is none; an unreadable or malformed file.
    pub fn open(path: &Path) -> Result<Self, ChatError> {
        if path.is_dir() {
            Self::from_folder(path)
        } else {
            Self::from_gguf(path)
        }
    }

    /// Compiles a template; `bos_token` and `eos_token` are the texts that it may refer to.
    ///
    /// # Errors
    /// A template longer than 16 KiB or with more than 2000 `~`, or one that does not compile.
    pub fn new(source: &str, bos_token: &str, eos_token: &str) -> Result<Self, ChatError> {
        engine::check(source)?;
        Ok(Self {
            source: source.to_owned(),
            bos_token: bos_token.into(),
            eos_token: eos_token.into(),
        })
    }

    /// The template's text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The text that the template may refer to as `bos_token`; empty if none.
    pub fn bos_token(&self) -> &str {
        &self.bos_token
    }

    /// The text that the template may refer to as `eos_token`; empty if none.
    pub fn eos_token(&self) -> &str {
        &self.eos_token
    }

    /// The rendered text. It must not be encoded with special tokens recognised, since messages may spell them
    /// out; use [`ChatTemplate::encode`].
    ///
    /// # Errors
    /// No messages, an unknown role, or a template that fails, takes too many steps or writes too much.
    pub fn render(&self, conversation: &Conversation) -> Result<String, ChatError> {
        if conversation.messages.is_empty() {
            return Err(ChatError::Empty);
        }
        for (index, m) in conversation.messages.iter().enumerate() {
            if !["system", "developer", "user", "assistant", "tool"].contains(&m.role.as_str()) {
                return Err(ChatError::Role {
                    index,
                    role: m.role.chars().take(40).collect(),
                });
            }
        }
        #[derive(Serialize)]
        struct Context<'a> {
            messages: &'a [Message],
            #[serde(skip_serializing_if = "Option::is_none")]
            tools: Option<&'a [Value]>,
            add_generation_prompt: bool,
            #[serde(skip_serializing_if = "Option::is_none")]
            enable_thinking: Option<bool>,
            bos_token: &'a str,
            eos_token: &'a str,
        }
        let context = Context {
            messages: &conversation.messages,
            tools: (!conversation.tools.is_empty()).then_some(&conversation.tools),
            add_generation_prompt: conversation.add_generation_prompt,
            enable_thinking: conversation.enable_thinking,
            bos_token: &self.bos_token,
            eos_token: &self.eos_token,
        };
        engine::render(&self.source, &context)
    }

    /// The ids of the rendered conversation; only the template's own special tokens are special.
    ///
    /// # Errors
    /// As [`ChatTemplate::render`]; a text that the tokenizer refuses.
    pub fn encode(
        &self,
        tokenizer: &Tokenizer,
        conversation: &Conversation,
    ) -> Result<Vec<u32>, ChatError> {
        let specials: Vec<&str> = tokenizer
            .specials()
            .iter()
            .map(|(s, _)| s.as_str())
            .collect();
        let marker = marker::unused(conversation, &self.source).ok_or(ChatError::NoMarker)?;
        let rendered = self.render(&marker::mark(conversation, marker, &specials))?;
        let mut ids = Vec::new();
        let mut rest = rendered.as_str();
        loop {
            let special = tokenizer.first_special(rest);
            let plain = &rest[..special.map_or(rest.len(), |(at, ..)| at)];
            ids.extend(tokenizer.encode(&plain.replace(marker, ""))?);
            let Some((at, len, id)) = special else {
                return Ok(ids);
            };
            ids.push(id);
            rest = &rest[at + len..];
        }
    }

    fn from_folder(folder: &Path) -> Result<Self, ChatError> {
        let read = |name: &str| {
            let path = folder.join(name);
            match crate::files::read_capped(&path, crate::files::MAX_CONFIG) {
                Ok(bytes) => match String::from_utf8(bytes) {
                    Ok(text) => Ok(Some(text)),
                    Err(_) => Err(ChatError::Malformed {
                        path,
                        detail: "not UTF-8".into(),
                    }),
                },
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(source) => Err(ChatError::Io { path, source }),
            }
        };
        let malformed = |detail: String| ChatError::Malformed {
            path: folder.join("tokenizer_config.json"),
            detail,
        };
        let config: Map<String, Value> = match read("tokenizer_config.json")? {
            Some(text) => serde_json::from_str(&text).map_err(|e| malformed(e.to_string()))?,
            None => Map::new(),
        };
        let token = |key: &str| match config.get(key) {
            Some(Value::Object(o)) => o
                .get("content")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
            v => v.and_then(Value::as_str).unwrap_or_default().to_owned(),
        };
        let source = match read("chat_template.jinja")? {
            Some(text) => text,
            None => match config.get("chat_template") {
                None | Some(Value::Null) => {
                    return Err(ChatError::NoTemplate {
                        path: folder.to_owned(),
                    });
                }
                Some(Value::String(text)) => text.clone(),
                Some(Value::Array(named)) => {
                    let default = named
                        .iter()
                        .find(|t| t["name"] == "default")
                        .and_then(|t| t["template"].as_str());
                    default
                        .ok_or_else(|| malformed("no chat template is named `default`".into()))?
                        .to_owned()
                }
                Some(_) => {
                    return Err(malformed(
                        "`chat_template` is neither a string nor a list".into(),
                    ));
                }
            },
        };
        Self::new(&source, &token("bos_token"), &token("eos_token"))
    }

    fn from_gguf(path: &Path) -> Result<Self, ChatError> {
        let map = crate::source::gguf::map_file(path).map_err(|source| ChatError::Io {
            path: path.into(),
            source,
        })?;
        let file = quant_core::gguf::GgufFile::parse(&map);
        let file = file.map_err(|e| ChatError::Malformed {
            path: path.into(),
            detail: e.to_string(),
        })?;
        let source = file.get("tokenizer.chat_template").and_then(|v| v.as_str());
        let source = source.ok_or_else(|| ChatError::NoTemplate { path: path.into() })?;
        let tokens = file
            .get("tokenizer.ggml.tokens")
            .and_then(|v| v.as_strings())
            .unwrap_or_default();
        let token = |key: &str| {
            let id = file
                .get(key)
                .and_then(|v| v.as_u64())
                .and_then(|id| usize::try_from(id).ok());
            id.and_then(|id| tokens.get(id))
                .cloned()
                .unwrap_or_default()
        };
        Self::new(
            source,
            &token("tokenizer.ggml.bos_token_id"),
            &token("tokenizer.ggml.eos_token_id"),
        )
    }
}
