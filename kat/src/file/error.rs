//! Why bytes are not a file of known answers.

/// What a reader of spec 7.1 refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// The file is longer than the limit.
    #[error("{bytes} bytes, must be at most {max}")]
    TooLong {
        /// Bytes given.
        bytes: usize,
        /// Most bytes allowed.
        max: usize,
    },
    /// Not JSON of the profile: syntax, numbers, depth, repeated members.
    #[error("not JSON of this profile: {0}")]
    Json(String),
    /// A member is missing.
    #[error("{}: member `{member}` is missing", place(at))]
    Missing {
        /// The object.
        at: String,
        /// The member.
        member: &'static str,
    },
    /// A member that the format does not name.
    #[error("{}: member `{member}` is unknown", place(at))]
    Unknown {
        /// The object.
        at: String,
        /// The member.
        member: String,
    },
    /// A value of another type.
    #[error("{}: {found}, must be {expected}", place(at))]
    Type {
        /// The value's place.
        at: String,
        /// What it must be.
        expected: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// An integer outside its range.
    #[error("{}: {value}, must be in {low} ..= {high}", place(at))]
    Range {
        /// The value's place.
        at: String,
        /// The value.
        value: String,
        /// Smallest accepted.
        low: i128,
        /// Largest accepted.
        high: i128,
    },
    /// A string in the place of an integer that is not in the one form of spec 7.1.
    #[error(
        "{}: not a string of 1 to 20 decimal digits without leading zeros, -0 and +",
        place(at)
    )]
    Digits {
        /// The value's place.
        at: String,
    },
    /// Not a digest.
    #[error("{}: a digest has 64 lower-case hexadecimal digits", place(at))]
    Digest {
        /// The value's place.
        at: String,
    },
    /// Not hexadecimal.
    #[error(
        "{}: bytes are pairs of lower-case hexadecimal digits without 0x",
        place(at)
    )]
    Hex {
        /// The value's place.
        at: String,
    },
    /// A string that is none of the accepted ones.
    #[error("{}: {found:?}, must be {expected}", place(at))]
    Name {
        /// The value's place.
        at: String,
        /// The string, shortened.
        found: String,
        /// The accepted ones.
        expected: String,
    },
    /// Two cases of a file have one name.
    #[error("{}: the name {name:?} appears twice", place(at))]
    Repeated {
        /// The list.
        at: String,
        /// The name.
        name: String,
    },
    /// A row has too many values.
    #[error("{}: a row of {count} values, must be at most 1048576", place(at))]
    RowLength {
        /// The row's place.
        at: String,
        /// Its values.
        count: u64,
    },
    /// All rows of the file together have too many values.
    #[error("the rows of the file have more than 16777216 values")]
    RowTotal,
    /// The configuration of a recipe blob is not valid (spec 3.1).
    #[error("{}: {why}", place(at))]
    Config {
        /// The configuration's place.
        at: String,
        /// The rule.
        why: String,
    },
    /// A recipe blob would be too large.
    #[error("{}: a blob of {bytes} bytes, must be at most 16777216", place(at))]
    BlobLength {
        /// The recipe's place.
        at: String,
        /// Its bytes.
        bytes: u64,
    },
    /// A case asks for too many tokens.
    #[error(
        "{}: {tokens} ids of the prompt and new tokens, must be at most 4096",
        place(at)
    )]
    Tokens {
        /// The case.
        at: String,
        /// What it asks for.
        tokens: u64,
    },
    /// The cases of a model together ask for too much.
    #[error(
        "the cases read {bytes} bytes, the blob for each token and each edited blob once, must be at most 4294967296"
    )]
    Work {
        /// What they read.
        bytes: u64,
    },
    /// The lists of a case do not fit together.
    #[error("{}: {why}", place(at))]
    Shape {
        /// The case.
        at: String,
        /// What would be right.
        why: &'static str,
    },
    /// A path that is not below its folder.
    #[error(
        "{}: {path:?} is not a relative path of plain names with `/` between",
        place(at)
    )]
    Path {
        /// The path's place.
        at: String,
        /// The path, shortened.
        path: String,
    },
}

fn place(at: &str) -> &str {
    if at.is_empty() { "the file" } else { at }
}

/// At most 60 characters, for messages.
pub(crate) fn short(text: &str) -> String {
    text.chars().take(60).collect()
}
