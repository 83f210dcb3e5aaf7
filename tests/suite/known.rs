//! The known answer on the first page of the specification, from the embedded model.

use int_engine::engine::{CpuEngine, Engine, generate, logits_digest};
use int_engine::kernels::Kernels;
use int_engine::model::Model;
use std::fs;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

const PROMPT: [u32; 8] = [1, 7, 13, 2, 500, 1023, 1532, 0];

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn the_page_states_what_engine_and_reference_compute() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let blob = fs::read(root.join("models/default/blue-tiny.blob")).unwrap();

    let model = Arc::new(Model::from_bytes(&blob).unwrap());
    let commitment = hex(&model.commitment().0);
    let engine = CpuEngine::new(model, Kernels::detect(), NonZeroUsize::MIN);
    let mut session = engine.session().unwrap();
    session.feed(&PROMPT).unwrap();
    let digest = logits_digest(session.logits().unwrap());
    let answer = generate(&mut *session, &PROMPT, 16, &mut |_| {
        ControlFlow::Continue(())
    })
    .unwrap()
    .ids;

    let reference = int_reference::Model::from_blob(&blob).unwrap();
    assert_eq!(commitment, hex(&int_reference::commitment(&blob)));
    assert_eq!(answer, reference.generate(&PROMPT, 16).unwrap().0);
    assert_eq!(
        digest,
        int_reference::logits_digest(reference.all_logits(&PROMPT).unwrap().last().unwrap())
    );

    let page = fs::read_to_string(root.join("spec/README.md")).unwrap();
    let list = |ids: &[u32]| {
        ids.iter()
            .map(u32::to_string)
            .collect::<Vec<_>>()
            .join(", ")
    };
    for line in [
        format!("| commitment | `{commitment}` |"),
        format!("| prompt | {} |", list(&PROMPT)),
        format!("| logits digest after the prompt | `{}` |", hex(&digest)),
        format!("| 16 greedy tokens | {} |", list(&answer)),
    ] {
        assert!(page.contains(&line), "spec/README.md should say: {line}");
    }
}
