//! Family 8: checkpoints in several files.

use crate::small::{EMBED, NORM, Parts, blob, file};
use float_engine::source::{Checkpoint, SourceError};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Writes the tensors into shards named by `shard_of`, and the index.
fn write(parts: &Parts, folder: &Path, shard_of: impl Fn(usize) -> String) {
    parts.write_config(folder);
    let mut map = serde_json::Map::new();
    let mut shards: Vec<(String, Vec<_>)> = Vec::new();
    for (i, tensor) in parts.tensors.iter().enumerate() {
        let name = shard_of(i);
        map.insert(tensor.name.clone(), json!(name));
        match shards.iter_mut().find(|(n, _)| *n == name) {
            Some((_, tensors)) => tensors.push(tensor.clone()),
            None => shards.push((name, vec![tensor.clone()])),
        }
    }
    for (name, tensors) in shards {
        fs::write(folder.join(name), file(&tensors)).unwrap();
    }
    let index = json!({"metadata": {"total_size": 0}, "weight_map": map});
    fs::write(
        folder.join("model.safetensors.index.json"),
        index.to_string(),
    )
    .unwrap();
}

fn halves(i: usize) -> String {
    format!("model-0000{}-of-00002.safetensors", 1 + i % 2)
}

/// A sharded folder after `change` of its index.
fn changed(change: impl FnOnce(&mut Value, &Path)) -> SourceError {
    let folder = tempfile::tempdir().unwrap();
    write(&Parts::new("qwen3", false), folder.path(), halves);
    let path = folder.path().join("model.safetensors.index.json");
    let mut index: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut index, folder.path());
    fs::write(&path, index.to_string()).unwrap();
    Checkpoint::open(folder.path()).expect_err("must be refused")
}

#[test]
fn family_08_order_and_grouping_do_not_change_the_blob() {
    let parts = Parts::new("qwen3", false);
    let expected = parts.blob();
    let count = parts.tensors.len();
    let mut reversed = parts.clone();
    reversed.tensors.reverse();
    let mut rotated = parts.clone();
    rotated.tensors.rotate_left(count / 3);
    type ShardOf = Box<dyn Fn(usize) -> String>;
    let groupings: Vec<(&str, ShardOf)> = vec![
        ("halves", Box::new(halves)),
        ("one each", Box::new(|i| format!("s{i}.safetensors"))),
        (
            "reverse names",
            Box::new(move |i| format!("s{:03}.safetensors", count - i)),
        ),
        (
            "names without meaning",
            Box::new(|i| ["z", "a", "größe", "model.safetensors.2"][i % 4].into()),
        ),
        ("one shard", Box::new(|_| "only.safetensors".into())),
    ];
    for (order, parts) in [
        ("given", &parts),
        ("reversed", &reversed),
        ("rotated", &rotated),
    ] {
        assert!(parts.blob() == expected, "{order}");
        for (name, shard_of) in &groupings {
            let folder = tempfile::tempdir().unwrap();
            write(parts, folder.path(), shard_of);
            let found = blob(&Checkpoint::open(folder.path()).unwrap()).unwrap();
            assert!(found == expected, "{order}, {name}");
        }
    }
}

#[test]
fn family_08_missing_shards_are_named() {
    for missing in [halves(0), halves(1)] {
        let error = changed(|_, folder| fs::remove_file(folder.join(&missing)).unwrap());
        assert!(
            matches!(&error, SourceError::MissingShard { name } if *name == missing),
            "{error}"
        );
    }
    let error = changed(|index, _| index["weight_map"][NORM] = json!("none.safetensors"));
    assert!(
        matches!(&error, SourceError::MissingShard { name } if name == "none.safetensors"),
        "{error}"
    );
}

#[test]
fn family_08_names_that_leave_the_folder() {
    for name in [
        "../model.safetensors",
        "..",
        ".",
        "",
        "/etc/passwd",
        "/",
        "a/../b",
        "a/b",
        "./a",
        "a/",
        "..\\a",
        "a\\b",
        "C:a",
        "c:\\a",
        "\\\\host\\a",
        "a\0b",
        "//a",
    ] {
        let error = changed(|index, _| index["weight_map"][EMBED] = json!(name));
        assert!(
            matches!(&error, SourceError::ShardName { name: found } if found == name),
            "{name:?}: {error}"
        );
    }
}

#[test]
fn family_08_tensors_in_two_shards_or_in_another() {
    let error = changed(|index, folder| {
        fs::copy(folder.join(halves(0)), folder.join("copy.safetensors")).unwrap();
        index["weight_map"]["copy"] = json!("copy.safetensors");
    });
    match error {
        SourceError::DuplicateTensor { first, second, .. } => {
            let mut files = [first, second];
            files.sort();
            assert_eq!(files, ["copy.safetensors".to_owned(), halves(0)]);
        }
        other => panic!("{other}"),
    }
    // The index and the shards disagree.
    let error = changed(|index, _| index["weight_map"][EMBED] = json!(halves(1)));
    assert!(
        matches!(&error, SourceError::Misplaced { tensor, .. } if tensor == EMBED),
        "{error}"
    );
    let error = changed(|index, _| drop(index["weight_map"].as_object_mut().unwrap().remove(NORM)));
    assert!(
        matches!(&error, SourceError::Misplaced { tensor, .. } if tensor == NORM),
        "{error}"
    );
    let error = changed(|index, _| index["weight_map"]["ghost"] = json!(halves(0)));
    assert!(
        matches!(&error, SourceError::Misplaced { tensor, .. } if tensor == "ghost"),
        "{error}"
    );
    // A file beside the index.
    let error = changed(|_, folder| {
        fs::copy(folder.join(halves(0)), folder.join("model.safetensors")).unwrap();
    });
    assert!(
        matches!(error, SourceError::AmbiguousWeights { .. }),
        "{error}"
    );
}

#[test]
fn family_08_an_index_that_is_none() {
    for value in [
        json!({}),
        json!([]),
        json!(null),
        json!({"weight_map": {}}),
        json!({"weight_map": {"a": 1}}),
        json!({"weight_map": null}),
    ] {
        let error = changed(|index, _| *index = value.clone());
        assert!(
            matches!(error, SourceError::Index { .. }),
            "{value}: {error}"
        );
    }
    #[cfg(unix)]
    {
        // A shard that is a folder is not read.
        let error = changed(|_, folder| {
            fs::remove_file(folder.join(halves(1))).unwrap();
            fs::create_dir(folder.join(halves(1))).unwrap();
        });
        assert!(matches!(error, SourceError::Io { .. }), "{error}");
    }
}
