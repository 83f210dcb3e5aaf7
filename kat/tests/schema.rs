//! `kat/schema.json` against the files of the set: the part of JSON Schema 2020-12 that it uses.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

struct Schema(Value);

/// The patterns of the schema by what they accept.
fn matches(pattern: &str, text: &str) -> bool {
    let all = |f: &dyn Fn(u8) -> bool, text: &str| text.bytes().all(f);
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    let digit = |b: u8| b.is_ascii_digit();
    match pattern {
        "^(0|-?[1-9][0-9]{0,19})$" => {
            let digits = text.strip_prefix('-').unwrap_or(text);
            text == "0"
                || !digits.starts_with('0')
                    && (1..=20).contains(&digits.len())
                    && all(&digit, digits)
        }
        "^[0-9a-f]{64}$" => text.len() == 64 && all(&hex, text),
        "^[0-9a-f]{40}$" => text.len() == 40 && all(&hex, text),
        "^([0-9a-f]{2})*$" => text.len() % 2 == 0 && all(&hex, text),
        "^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$" => text.split('/').all(|part| {
            !part.is_empty() && all(&|b| b.is_ascii_alphanumeric() || b"._-".contains(&b), part)
        }),
        _ => panic!("the test does not know the pattern {pattern}"),
    }
}

fn is_type(name: &str, v: &Value) -> bool {
    match name {
        "null" => v.is_null(),
        "boolean" => v.is_boolean(),
        "integer" => v.is_i64() || v.is_u64(),
        "string" => v.is_string(),
        "array" => v.is_array(),
        "object" => v.is_object(),
        _ => panic!("the test does not know the type {name}"),
    }
}

impl Schema {
    fn accepts(&self, schema: &Value, v: &Value) -> bool {
        let Value::Object(rules) = schema else {
            return schema == &Value::Bool(true);
        };
        rules
            .iter()
            .all(|(rule, arg)| self.rule(schema, rule, arg, v))
    }

    fn rule(&self, schema: &Value, rule: &str, arg: &Value, v: &Value) -> bool {
        let count = |list: &Value| {
            let list = list.as_array().expect("a list of schemas");
            list.iter().filter(|s| self.accepts(s, v)).count()
        };
        let int = |limit: &dyn Fn(i64, i64) -> bool| {
            v.as_i64()
                .is_none_or(|v| limit(v, arg.as_i64().expect("an integer")))
        };
        let len = |n: Option<usize>, at_most: bool| {
            let limit = arg.as_u64().expect("a count") as usize;
            n.is_none_or(|n| if at_most { n <= limit } else { n >= limit })
        };
        let items = v.as_array();
        let members = v.as_object();
        match rule {
            "$schema" | "$defs" | "title" | "description" | "then" | "else" => true,
            "$ref" => {
                let pointer = arg.as_str().expect("a pointer").trim_start_matches('#');
                self.accepts(self.0.pointer(pointer).expect(pointer), v)
            }
            "type" => is_type(arg.as_str().expect("a type"), v),
            "const" => v == arg,
            "enum" => arg.as_array().expect("values").contains(v),
            "oneOf" => count(arg) == 1,
            "anyOf" => count(arg) > 0,
            "minimum" => int(&|v, limit| v >= limit),
            "maximum" => int(&|v, limit| v <= limit),
            "multipleOf" => int(&|v, of| v % of == 0),
            "pattern" => v
                .as_str()
                .is_none_or(|t| matches(arg.as_str().expect("a pattern"), t)),
            "maxLength" => len(v.as_str().map(str::len), true),
            "minItems" => len(items.map(Vec::len), false),
            "maxItems" => len(items.map(Vec::len), true),
            "minProperties" => len(members.map(serde_json::Map::len), false),
            "prefixItems" => items.is_none_or(|items| {
                let schemas = arg.as_array().expect("schemas");
                items.iter().zip(schemas).all(|(v, s)| self.accepts(s, v))
            }),
            "items" => items.is_none_or(|items| {
                let before = schema["prefixItems"].as_array().map_or(0, Vec::len);
                items.iter().skip(before).all(|v| self.accepts(arg, v))
            }),
            "properties" => members.is_none_or(|members| {
                members
                    .iter()
                    .all(|(name, v)| arg.get(name).is_none_or(|s| self.accepts(s, v)))
            }),
            "required" => members.is_none_or(|members| {
                let names = arg.as_array().expect("names");
                names
                    .iter()
                    .all(|n| members.contains_key(n.as_str().expect("a name")))
            }),
            "additionalProperties" => members.is_none_or(|members| {
                let known = |name: &str| schema["properties"].get(name).is_some();
                members
                    .iter()
                    .all(|(name, v)| known(name) || self.accepts(arg, v))
            }),
            "if" => {
                let branch = if self.accepts(arg, v) { "then" } else { "else" };
                schema.get(branch).is_none_or(|s| self.accepts(s, v))
            }
            _ => panic!("the test does not know the rule {rule}"),
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("a file")).expect("JSON")
}

#[test]
fn every_file_is_of_its_level_and_of_no_other() {
    let schema = Schema(json(&root().join("kat/schema.json")));
    let set = root().join(kat::set::CURRENT);
    for name in kat::set::list(&set).unwrap() {
        let file = json(&set.join(&name));
        assert!(schema.accepts(&schema.0, &file), "{name}");
        let array = match name.starts_with("legacy/") {
            true => "legacy",
            false => "precompile_calls",
        };
        let level = file.get("level").and_then(Value::as_str).unwrap_or(array);
        assert!(
            schema.accepts(&schema.0["$defs"][level], &file),
            "{name} is of level {level}"
        );
    }
}

#[test]
fn the_schema_refuses_what_the_reader_refuses() {
    let schema = Schema(json(&root().join("kat/schema.json")));
    let good = json(&root().join(kat::set::CURRENT).join("models/ones.json"));
    let refuses = |pointer: &str, v: Value| {
        let mut file = good.clone();
        *file.pointer_mut(pointer).expect(pointer) = v;
        assert!(!schema.accepts(&schema.0, &file), "{pointer}");
        assert!(
            kat::file::parse(file.to_string().as_bytes()).is_err(),
            "{pointer}"
        );
    };
    refuses("/schema", "blue-kat-2".into());
    refuses("/commitment", "00".into());
    refuses("/model/recipe/style", "usual".into());
    refuses("/model/recipe/config/qk_norm", 2.into());
    refuses("/model/recipe/config/head_dim", 3.into());
    refuses("/runs/0/finish", "later".into());
    refuses("/runs/0/tokens/0", (-1).into());
    refuses("/runs/0/logits/0", "0".repeat(63).into());
    refuses("/halts/0/halt", "Empty".into());
    refuses("/runs/0", serde_json::json!({"name": "a"}));
}
