//! A device that fails for one request: the fault is that request's, and the others do not notice.

use super::greedy::{Fails, Plain};
use super::*;
use int_engine::commitment::Commitment;
use int_engine::engine::{
    Batch, Drafter, Feed, Finish, RequestId, continue_greedy, continue_speculative,
};
use int_engine::halt::{Error, Fault, StepError};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// An engine whose sessions fail, in the order in which they are made.
struct Failing(CpuEngine, Mutex<Vec<Option<Fails>>>);

impl Failing {
    fn new(model: &Arc<Model>, fails: &[Option<Fails>]) -> Self {
        let fails = fails.iter().rev().copied().collect();
        Self(engine(model, Kernels::detect(), 1), Mutex::new(fails))
    }
}

impl Engine for Failing {
    fn config(&self) -> &Config {
        self.0.config()
    }
    fn commitment(&self) -> Commitment {
        self.0.commitment()
    }
    fn backend(&self) -> &str {
        "failing"
    }
    fn session(&self) -> Result<Box<dyn Session>, Fault> {
        let fails = self.1.lock().unwrap().pop().flatten();
        Ok(Box::new(Plain::failing(self.0.session()?, fails)))
    }
}

fn device(at: usize) -> Fault {
    Fault::Device(format!("fails at {at}"))
}

#[test]
fn a_step_names_the_feed_that_failed() {
    let model = model(dims());
    for fails in [Fails::Feed(2), Fails::Logits(2)] {
        let engine = Failing::new(&model, &[None, Some(fails), None]);
        let mut sessions = [(); 3].map(|()| engine.session().unwrap());
        let mut feeds: Vec<_> = sessions
            .iter_mut()
            .map(|session| Feed::new(&mut **session, &[1, 2]))
            .collect();
        let failed = StepError::Fault {
            index: Some(1),
            fault: device(2),
        };
        assert_eq!(failed.to_string(), "feed 1: device: fails at 2");
        assert_eq!(engine.step(&mut feeds), Err(failed));
    }
    assert_eq!(StepError::from(device(3)).to_string(), "device: fails at 3");
}

#[test]
fn a_request_that_fails_leaves_and_the_others_go_on() {
    let model = model(dims());
    let prompts = [40, 7, 90].map(|len| tokens(len, len as u32));
    let want = prompts.each_ref().map(|p| answer(&model, p, 12));
    let all = [40, 7, 90];
    for who in 0..3 {
        for after in [0, 1, 5, 11] {
            for fails in [Fails::Feed, Fails::Logits] {
                for budget in [1, 2, 16, 1000] {
                    // The prompt, or some of the answer's first ids, can be fed.
                    let at = all[who] + after;
                    let mut each = [None; 3];
                    each[who] = Some(fails(at));
                    let engine = Arc::new(Failing::new(&model, &each));
                    let mut batch = Batch::new(engine, NonZeroUsize::new(budget).unwrap());
                    let ids = prompts.each_ref().map(|p| batch.join(p, 12).unwrap());
                    let mut got: BTreeMap<RequestId, Vec<u32>> = BTreeMap::new();
                    let mut failed = 0;
                    while !batch.is_empty() {
                        for report in batch.step().unwrap() {
                            got.entry(report.request).or_default().extend(report.id);
                            if let Some(fault) = report.fault {
                                assert_eq!((report.request, report.id), (ids[who], None));
                                assert_eq!(report.finish, Some(Finish::Interrupted));
                                assert_eq!(fault, device(at));
                                assert_eq!(batch.leave(report.request), None);
                                failed += 1;
                            }
                        }
                    }
                    assert_eq!(failed, 1);
                    for (i, id) in ids.iter().enumerate() {
                        let len = if i == who { after } else { 12 };
                        let got = got.remove(id).unwrap_or_default();
                        assert_eq!(got, want[i].ids[..len], "{who} {after} {budget}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_generation_tells_of_the_fault() {
    let model = model(dims());
    let engine = Failing::new(&model, &[Some(Fails::Logits(4)); 2]);
    let mut session = engine.session().unwrap();
    session.feed(&[1, 2, 3]).unwrap();
    let go_on = &mut |_| ControlFlow::Continue(());
    let failed = Err(Error::Fault(device(4)));
    assert_eq!(continue_greedy(&mut *session, 9, go_on), failed);
    // Already the first id.
    assert_eq!((session.position(), session.greedy()), (4, None));
    assert_eq!(session.try_greedy(), Err(device(4)));
    assert_eq!(continue_greedy(&mut *session, 9, go_on), failed);
    let drafter = &mut Drafter::new();
    let drafted = continue_speculative(&mut *session, drafter, 9, go_on);
    assert_eq!(drafted, failed);
    session.truncate(3);
    assert_eq!(session.try_greedy(), Ok(None));
}
