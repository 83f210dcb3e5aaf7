//! Byte-level BPE: text to ids and back.
//!
//! Text is text: a special token spelled out in it is encoded as its characters. Only
//! [`Tokenizer::encode_with_specials`], for rendered templates, recognises special tokens.

mod accept;
mod components;
mod gguf;
mod ids;
mod stream;

pub use stream::StreamDecoder;

use components::Components;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// A byte-level BPE tokenizer.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    inner: Components,
    /// Special tokens with their ids, longest first.
    specials: Vec<(String, u32)>,
    special_ids: HashSet<u32>,
    vocab_size: usize,
}

/// Why a tokenizer was refused, or a text was.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// A file could not be read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file is malformed.
    #[error("malformed tokenizer: {detail}")]
    Malformed {
        /// The defect.
        detail: String,
    },
    /// A part of the tokenizer is of a kind that is not implemented.
    #[error("the tokenizer's {part} is `{found}`; supported: {supported}")]
    Unsupported {
        /// Which part.
        part: &'static str,
        /// What was found.
        found: String,
        /// What is supported.
        supported: &'static str,
    },
    /// A metadata key is absent or of the wrong type.
    #[error("GGUF metadata: `{key}` is absent or not {expected}")]
    Metadata {
        /// The key.
        key: &'static str,
        /// The type it must have.
        expected: &'static str,
    },
    /// Two ids have the same token.
    #[error("ids {first} and {second} are both `{token}`")]
    DuplicateToken {
        /// The token.
        token: String,
        /// The lower id.
        first: usize,
        /// The higher id.
        second: usize,
    },
    /// An id that is no integer, or is out of range.
    #[error("token `{token}` has the id {found}; expected an integer below {ids}")]
    Id {
        /// The token.
        token: String,
        /// What stands for its id.
        found: String,
        /// Ids are below this.
        ids: u64,
    },
    /// One id has two tokens.
    #[error("id {id} is both `{first}` and `{second}`; expected one token an id")]
    DuplicateId {
        /// The id.
        id: u64,
        /// One of the tokens.
        first: String,
        /// The other.
        second: String,
    },
    /// An added token outside the vocabulary does not follow it.
    #[error(
        "added token `{token}` declares the id {declared}, but gets {assigned:?}; those outside the vocabulary follow it without a gap"
    )]
    AddedId {
        /// The token.
        token: String,
        /// The id in the file.
        declared: u64,
        /// The id that its place gives it.
        assigned: Option<u32>,
    },
    /// A merge that is not two tokens separated by a space.
    #[error("merge {index} is `{merge}`; expected two tokens and a space between them")]
    Merge {
        /// The merge's rank.
        index: usize,
        /// Its text.
        merge: String,
    },
    /// A special token that takes in the white space around it, matches whole words only, or is one character.
    #[error(
        "special token `{token}` uses lstrip, rstrip or single_word, or is a single character; none is supported"
    )]
    SpecialToken {
        /// The token.
        token: String,
    },
    /// The text could not be encoded.
    #[error("cannot encode: {detail}")]
    Encode {
        /// What the BPE said.
        detail: String,
    },
    /// The merges build a special token out of plain text.
    #[error(
        "the text contains special token {id}, which the tokenizer builds from plain characters"
    )]
    SpecialInText {
        /// The special token's id.
        id: u32,
    },
}

impl Tokenizer {
    /// Reads `tokenizer.json` of a checkpoint folder, or the metadata of a `.gguf` file.
    ///
    /// # Errors
    /// An unreadable, malformed or unsupported file.
    pub fn open(path: &Path) -> Result<Self, TokenizerError> {
        let io = |path: &Path| {
            let path = path.to_owned();
            move |source| TokenizerError::Io { path, source }
        };
        if path.is_dir() {
            let file = path.join("tokenizer.json");
            let bytes = crate::files::read_capped(&file, crate::files::MAX_TOKENIZER);
            return Self::from_json(&bytes.map_err(io(&file))?);
        }
        let map = crate::source::gguf::map_file(path).map_err(io(path))?;
        let file = quant_core::gguf::GgufFile::parse(&map);
        let file = file.map_err(|e| TokenizerError::Malformed {
            detail: e.to_string(),
        })?;
        Self::from_gguf(file.metadata())
    }

    /// Reads the text of a `tokenizer.json`, with merges as pairs or as strings.
    ///
    /// Truncation, padding and templates that add tokens are ignored: nothing is ever added to a text.
    ///
    /// # Errors
    /// A malformed file; an id of 2^20 or more, or of two tokens; a file that is not a deterministic byte-level BPE:
    /// `model` BPE without dropout, prefix, suffix, unknown token and byte fallback; `normalizer` null or NFC;
    /// `pre_tokenizer` of Split, Digits and ByteLevel; `decoder` ByteLevel; `post_processor` null, ByteLevel or
    /// TemplateProcessing.
    pub fn from_json(json: &[u8]) -> Result<Self, TokenizerError> {
        let malformed = |detail: String| TokenizerError::Malformed { detail };
        let mut file = serde_json::from_slice(json).map_err(|e| malformed(e.to_string()))?;
        accept::accept(&mut file)?;
        ids::check(&file)?;
        // what was checked is what is loaded: of a repeated key, only the last is left
        let inner = Components::parse(&file.to_string()).map_err(malformed)?;
        ids::check_assigned(&file, &inner)?;
        drop(file);

        let mut specials = Vec::new();
        for (id, token) in inner.added().map_err(malformed)? {
            if !token.special {
                continue;
            }
            if token.stretches || token.content.chars().nth(1).is_none() {
                return Err(TokenizerError::SpecialToken {
                    token: token.content,
                });
            }
            specials.push((token.content, id));
        }
        specials.sort_by(|a, b| b.0.len().cmp(&a.0.len()).then_with(|| a.cmp(b)));
        let special_ids = specials.iter().map(|(_, id)| *id).collect();
        let largest = inner.largest_id().map_err(malformed)?;
        Ok(Self {
            inner,
            specials,
            special_ids,
            vocab_size: largest.map_or(0, |id| id as usize + 1),
        })
    }

    /// The ids of `text`; special tokens spelled out in it are plain characters. Nothing is added.
    ///
    /// # Errors
    /// A tokenizer whose pipeline fails on the text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        let ids = self.inner.encode(text);
        let ids = ids.map_err(|detail| TokenizerError::Encode { detail })?;
        match ids.iter().find(|&&id| self.is_special(id)) {
            Some(&id) => Err(TokenizerError::SpecialInText { id }),
            None => Ok(ids),
        }
    }

    /// The ids of `text`, special tokens recognised. Only for text whose author may use them.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_with_specials(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        let mut ids = Vec::new();
        let mut rest = text;
        while let Some((at, len, id)) = self.first_special(rest) {
            ids.extend(self.encode(&rest[..at])?);
            ids.push(id);
            rest = &rest[at + len..];
        }
        ids.extend(self.encode(rest)?);
        Ok(ids)
    }

    /// The first special token in `text`, the longest where several start: offset, length, id.
    pub(crate) fn first_special(&self, text: &str) -> Option<(usize, usize, u32)> {
        let found = self
            .specials
            .iter()
            .filter_map(|(s, id)| Some((text.find(s.as_str())?, s.len(), *id)));
        found.min_by_key(|&(at, len, _)| (at, usize::MAX - len))
    }

    /// The special tokens with their ids, longest first.
    pub fn specials(&self) -> &[(String, u32)] {
        &self.specials
    }

    /// The text of `ids`, invalid UTF-8 replaced by U+FFFD; ids without a token give nothing.
    pub fn decode(&self, ids: &[u32], skip_specials: bool) -> String {
        let mut stream = self.stream(skip_specials);
        let mut text: String = ids.iter().map(|&id| stream.push(id)).collect();
        text.push_str(&stream.finish());
        text
    }

    /// A decoder for ids that arrive one at a time.
    pub fn stream(&self, skip_specials: bool) -> StreamDecoder<'_> {
        StreamDecoder::new(self, skip_specials)
    }

    /// The bytes that `id` stands for; `None` for an id without a token.
    pub fn token_bytes(&self, id: u32) -> Option<Vec<u8>> {
        let token = self.inner.id_to_token(id)?;
        let bytes: Option<Vec<u8>> = token.chars().map(char_byte).collect();
        // a token with characters outside the byte alphabet stands for itself
        Some(bytes.unwrap_or_else(|| token.into_bytes()))
    }

    /// Whether `id` is a special token.
    pub fn is_special(&self, id: u32) -> bool {
        self.special_ids.contains(&id)
    }

    /// One more than the largest id of a token; a model's `vocab` may be larger.
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// The id of a token, spelled as in the vocabulary (bytes as their printable characters).
    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// The token of an id, spelled as in the vocabulary.
    pub fn id_to_token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// The tokenizer as the text of a `tokenizer.json`: vocabulary by id, merges by rank, the same bytes every time.
    ///
    /// # Errors
    /// Only if serialisation fails.
    pub fn to_json(&self) -> Result<Vec<u8>, TokenizerError> {
        let text = self.inner.to_json();
        let text = text.map_err(|detail| TokenizerError::Malformed { detail })?;
        Ok(text.into_bytes())
    }
}

/// The byte that a character of the byte-level alphabet stands for: printable Latin-1 for itself, and
/// U+0100 on for the other bytes in order.
fn char_byte(c: char) -> Option<u8> {
    use std::sync::OnceLock;
    static MAP: OnceLock<HashMap<char, u8>> = OnceLock::new();
    let map = MAP.get_or_init(|| {
        let printable = |b: u8| matches!(b, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
        let others = (0..=255u8)
            .filter(|&b| !printable(b))
            .zip('\u{100}'..)
            .map(|(b, c)| (c, b));
        (0..=255u8)
            .filter(|&b| printable(b))
            .map(|b| (char::from(b), b))
            .chain(others)
            .collect()
    });
    map.get(&c).copied()
}
