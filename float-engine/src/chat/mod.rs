//! Chat templates, rendered so that the text of a message cannot become a control token.
//!
//! Before rendering, a marker character that occurs nowhere else is put inside every special token spelled out in
//! a message. The rendered text is then split at the special tokens that are left, all of which come from the
//! template; the marker is removed from the pieces, and they are encoded as plain text.

mod marker;

use crate::tokenizer::{Tokenizer, TokenizerError};
use minijinja::value::{Kwargs, Serde, Value as Jinja};
use minijinja::{Environment, Error, ErrorKind};
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

/// A compiled chat template.
#[derive(Debug)]
pub struct ChatTemplate {
    env: Environment<'static>,
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
    /// A template that does not compile.
    pub fn new(source: &str, bos_token: &str, eos_token: &str) -> Result<Self, ChatError> {
        let mut env = Environment::new();
        let syntax = minijinja::syntax::SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build();
        env.set_syntax(syntax.map_err(ChatError::Syntax)?);
        env.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        env.add_filter("tojson", to_json);
        env.add_function(
            "raise_exception",
            |message: String| -> Result<Jinja, Error> {
                Err(Error::new(ErrorKind::InvalidOperation, message))
            },
        );
        env.add_template_owned("chat", source.to_owned())
            .map_err(ChatError::Syntax)?;
        Ok(Self {
            env,
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
    /// No messages, an unknown role, or a template that fails.
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
        let template = self.env.get_template("chat").map_err(ChatError::Render)?;
        template
            .render(Jinja::from(Serde(&context)))
            .map_err(ChatError::Render)
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
            match std::fs::read_to_string(&path) {
                Ok(text) => Ok(Some(text)),
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

/// `json.dumps(value, ensure_ascii=False, indent=indent)` of Python, which templates are written for:
/// a space after `,` and `:`, and no HTML escapes.
fn to_json(value: &Jinja, kwargs: Kwargs) -> Result<Jinja, Error> {
    let indent: Option<usize> = kwargs.get("indent")?;
    kwargs.assert_all_used()?;
    let failed = |e: &dyn std::fmt::Display| Error::new(ErrorKind::BadSerialization, e.to_string());
    let mut out = Vec::new();
    match indent {
        None => value.serialize(&mut serde_json::Serializer::with_formatter(
            &mut out, Spaced,
        )),
        Some(n) => {
            let spaces = " ".repeat(n.min(64));
            let formatter = serde_json::ser::PrettyFormatter::with_indent(spaces.as_bytes());
            value.serialize(&mut serde_json::Serializer::with_formatter(
                &mut out, formatter,
            ))
        }
    }
    .map_err(|e| failed(&e))?;
    String::from_utf8(out)
        .map(Jinja::from_safe_string)
        .map_err(|e| failed(&e))
}

/// Writes `", "` and `": "`.
struct Spaced;

impl serde_json::ser::Formatter for Spaced {
    fn begin_array_value<W: ?Sized + std::io::Write>(
        &mut self,
        w: &mut W,
        first: bool,
    ) -> std::io::Result<()> {
        if first { Ok(()) } else { w.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + std::io::Write>(
        &mut self,
        w: &mut W,
        first: bool,
    ) -> std::io::Result<()> {
        if first { Ok(()) } else { w.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + std::io::Write>(&mut self, w: &mut W) -> std::io::Result<()> {
        w.write_all(b": ")
    }
}
