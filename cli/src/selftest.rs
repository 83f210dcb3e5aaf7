//! The known answers inside this program, before anything else is answered.

use std::num::NonZeroUsize;

use blue_node::selftest::{self, Passed, SelfTestError};

use crate::failure::{Code, Failure, Outcome};
use crate::progress::Progress;

/// Verifies every one on a backend by its name; a wrong answer is a mismatch.
pub(crate) fn run(backend: &str, threads: NonZeroUsize, progress: Progress) -> Outcome<Passed> {
    let spinner = progress.spinner("known answers");
    let passed = selftest::run(backend, threads);
    spinner.finish_and_clear();
    passed.map_err(failure)
}

fn failure(error: SelfTestError) -> Failure {
    match error {
        SelfTestError::Differs { .. } => {
            Failure::new(Code::Mismatch, error).hint("`blue kat verify` names every difference")
        }
        _ => Failure::new(Code::Runtime, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_wrong_answer_is_a_mismatch() {
        let [file, backend, what] = ["f", "b", "w"].map(String::from);
        let differs = SelfTestError::Differs {
            file,
            backend,
            what,
        };
        assert!(failure(differs).is_mismatch());
        let absent = failure(SelfTestError::Absent("b".into()));
        assert!(!absent.is_mismatch() && !absent.is_input());
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        assert!(!failure(SelfTestError::Io(full)).is_mismatch());
    }
}
