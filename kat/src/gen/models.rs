//! Files of models.
use super::GenerateError;
use crate::file::ModelFile;
use std::path::Path;
pub(super) fn files(_root: &Path) -> Result<Vec<(&'static str, ModelFile)>, GenerateError> {
    Ok(Vec::new())
}
