//! Panics of the file's library, as errors.

use super::DatabaseError;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic of this thread, now, comes back as a [`DatabaseError`]: a hook of panics has nothing to tell then.
#[must_use]
pub fn is_guarded() -> bool {
    GUARDED.get()
}

/// Unset at its end, after a panic too.
struct Guard(bool);

impl Drop for Guard {
    fn drop(&mut self) {
        GUARDED.set(self.0);
    }
}

/// Does something with the file. The library asserts what holds of the files that it wrote: a damaged one, a truncated one
/// for instance, may break an assertion.
pub(super) fn guarded<T>(path: &Path, work: impl FnOnce() -> T) -> Result<T, DatabaseError> {
    let _guard = Guard(GUARDED.replace(true));
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| {
        let said = format!("{} is not as its library has written it", path.display());
        DatabaseError::Damaged(said)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn a_hook_knows_what_is_guarded() {
        static SEEN: Mutex<Vec<bool>> = Mutex::new(vec![]);
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| SEEN.lock().unwrap().push(is_guarded())));
        let path = Path::new("file");
        let nested = guarded(path, || {
            guarded(path, || panic!("inner")).is_err() && is_guarded()
        });
        let damaged = guarded(path, || panic!("outer"));
        let own = catch_unwind(|| panic!("a defect"));
        std::panic::set_hook(before);
        assert_eq!(nested, Ok(true));
        let Err::<(), _>(DatabaseError::Damaged(said)) = damaged else {
            panic!("{damaged:?}");
        };
        assert!(said.starts_with("file is not"), "{said}");
        assert!(own.is_err());
        assert_eq!(*SEEN.lock().unwrap(), [true, true, false]);
    }
}
