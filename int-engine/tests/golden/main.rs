//! Known answers of whole forward passes, so that no operation changes unseen.

mod cases;
#[path = "../sample/mod.rs"]
mod sample;

use int_engine::engine::{CpuEngine, Engine, logits_digest};
use int_engine::kernels::Kernels;
use int_engine::model::Model;
use std::num::NonZeroUsize;
use std::sync::Arc;

#[test]
fn logits_of_every_position() {
    for case in cases::cases() {
        let model = Arc::new(Model::from_bytes(&case.blob).unwrap());
        let engine = CpuEngine::new(model, Kernels::detect(), NonZeroUsize::MIN);
        let mut session = engine.session().unwrap();
        let mut digests = Vec::new();
        session
            .feed_all_logits(&case.tokens, &mut |_, logits| {
                digests.push(logits_digest(logits))
            })
            .unwrap();
        assert_eq!(cases::digest(&digests), case.digest, "{}", case.name);
    }
}
