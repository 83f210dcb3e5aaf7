//! A blob's bytes, commitment, digests, tokens, halts and edits.

use std::path::Path;

use int_engine::engine::logits_digest;

use super::Checked;
use crate::blob;
use crate::file::{BlobSource, Edit, HaltCase, MAX_BLOB, ModelFile, Run, ids};
use crate::hex;
use crate::set;
use crate::target::{Halt, Implementation, Model, Stop};

/// The bytes that the file speaks of.
pub(crate) fn blob(file: &ModelFile, root: &Path) -> Result<Vec<u8>, String> {
    match &file.source {
        BlobSource::Recipe(recipe) => Ok(blob::build(recipe)),
        BlobSource::File(path) => {
            set::read_below(root, path, MAX_BLOB).map_err(|e| format!("the model's blob: {e}"))
        }
    }
}

fn same<T: PartialEq>(what: &str, expected: T, found: T, show: impl Fn(&T) -> String) -> Checked {
    if expected == found {
        Ok(())
    } else {
        let (expected, found) = (show(&expected), show(&found));
        Err(format!("{what}: expected {expected}, found {found}"))
    }
}

fn digests(what: &str, expected: &[u8; 32], found: &[u8; 32]) -> Checked {
    same(what, expected, found, |d| hex::encode(*d))
}

fn words(stop: &Stop) -> String {
    match stop {
        Stop::Halt(halt) => format!("the halt {}", halt_words(&halt_parts(halt))),
        Stop::Fault(why) => format!("a fault: {why}"),
    }
}

type HaltParts = (String, Option<(u64, u64)>);

fn halt_parts(halt: &Halt) -> HaltParts {
    (halt.name.to_owned(), halt.token)
}

fn halt_words((name, token): &HaltParts) -> String {
    match token {
        Some((position, id)) => format!("{name} at position {position}, id {id}"),
        None => name.clone(),
    }
}

/// The first difference of a model's file.
pub(super) fn check(
    file: &ModelFile,
    blob: Result<&[u8], &String>,
    target: &dyn Implementation,
) -> Checked {
    let blob = blob.map_err(Clone::clone)?;
    same("blob, bytes", file.bytes, blob.len() as u64, u64::to_string)?;
    digests("blob, keccak256", &file.keccak256, &target.keccak256(blob))?;
    digests("commitment", &file.commitment, &target.commitment(blob))?;
    let model = target
        .load(blob)
        .map_err(|e| format!("the blob is refused: {e}"))?;
    file.runs.iter().try_for_each(|r| run(r, &*model))?;
    file.halts.iter().try_for_each(|h| {
        let got = model.generate(&ids(&h.prompt), h.max_new);
        let got = got.map(|(tokens, _)| format!("{} tokens", tokens.len()));
        halt(h, got)
    })?;
    file.edits.iter().try_for_each(|e| edit(e, blob, target))
}

fn run(run: &Run, model: &dyn Model) -> Checked {
    let prompt = ids(&run.prompt);
    let place = format!("run {}", run.name);
    let fails = |stop: Stop| format!("{place}: expected an answer, found {}", words(&stop));
    let mut first: Checked = Ok(());
    let mut keep = |checked: Checked| {
        if first.is_ok() {
            first = checked;
        }
    };
    if !run.layers.is_empty() {
        let mut seen = vec![0; run.layers.len()];
        let sink = &mut |position: usize, stage: usize, row: &[i32]| {
            let what = format!("{place}, layers position {position} stage {stage}");
            seen[position] += 1;
            match run.layers[position].get(stage) {
                Some(expected) => keep(digests(&what, expected, &logits_digest(row))),
                None => keep(Err(format!("{what}: expected no such stage"))),
            }
        };
        model.layers(&prompt, sink).map_err(fails)?;
        for (position, (stages, seen)) in run.layers.iter().zip(seen).enumerate() {
            let what = format!("{place}, layers position {position}, stages");
            keep(same(&what, stages.len(), seen, usize::to_string));
        }
    }
    if !run.logits.is_empty() {
        let mut seen = vec![0; run.logits.len()];
        let sink = &mut |position: usize, row: &[i32]| {
            seen[position] += 1;
            let what = format!("{place}, logits position {position}");
            keep(digests(&what, &run.logits[position], &logits_digest(row)));
        };
        model.logits(&prompt, sink).map_err(fails)?;
        for (position, seen) in seen.into_iter().enumerate() {
            let what = format!("{place}, logits position {position}, rows");
            keep(same(&what, 1, seen, usize::to_string));
        }
    }
    first?;
    let (tokens, finish) = model.generate(&prompt, run.max_new).map_err(fails)?;
    token_rows(&place, &run.tokens, &tokens)?;
    same(
        &format!("{place}, finish"),
        run.finish.as_str(),
        finish,
        |s| (*s).to_owned(),
    )
}

/// Compares generated tokens.
pub(super) fn token_rows(place: &str, expected: &[u32], found: &[u32]) -> Checked {
    for (i, (expected, found)) in expected.iter().zip(found).enumerate() {
        same(
            &format!("{place}, tokens, index {i}"),
            expected,
            found,
            |t| t.to_string(),
        )?;
    }
    let lengths = (expected.len(), found.len());
    same(
        &format!("{place}, number of tokens"),
        lengths.0,
        lengths.1,
        usize::to_string,
    )
}

/// Compares a halt with an answer in words or a stop.
fn halt(case: &HaltCase, got: Result<String, Stop>) -> Checked {
    let expected = (case.halt.clone(), case.token);
    let place = format!("halt {}", case.name);
    match got {
        Err(Stop::Halt(found)) => same(&place, expected, halt_parts(&found), halt_words),
        Err(fault) => Err(format!("{place}: {}", words(&fault))),
        Ok(found) => Err(format!(
            "{place}: expected {}, found {found}",
            halt_words(&expected)
        )),
    }
}

/// As [`halt`], for the toy model.
pub(super) fn toy_halt(case: &HaltCase, got: Result<String, Halt>) -> Checked {
    halt(case, got.map_err(Stop::Halt))
}

/// The bytes after an edit; offsets beyond the end are refused.
pub(crate) fn edited(edit: &Edit, blob: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = blob.to_vec();
    for (offset, new) in &edit.edit {
        let at = *offset as usize;
        let place = bytes
            .get_mut(at..)
            .and_then(|rest| rest.get_mut(..new.len()));
        place
            .ok_or_else(|| format!("edit {}: offset {offset} is beyond the blob", edit.name))?
            .copy_from_slice(new);
    }
    if let Some(length) = edit.length {
        bytes.resize(length as usize, 0);
    }
    Ok(bytes)
}

fn edit(edit: &Edit, blob: &[u8], target: &dyn Implementation) -> Checked {
    let bytes = edited(edit, blob)?;
    let place = format!("edit {}", edit.name);
    match (&edit.commitment, target.load(&bytes)) {
        (None, Err(_)) => Ok(()),
        (None, Ok(_)) => Err(format!("{place}: expected a refusal, found a model")),
        (Some(_), Err(e)) => Err(format!("{place}: expected a model, found a refusal: {e}")),
        (Some(expected), Ok(_)) => digests(
            &format!("{place}, commitment"),
            expected,
            &target.commitment(&bytes),
        ),
    }
}
