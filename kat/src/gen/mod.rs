//! Makes the files of the current set.
