//! The vector extension that the inner loops run on.

/// A vector extension of this machine, or none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Isa {
    /// Plain Rust.
    Plain,
    /// x86-64 with avx2.
    Avx2,
    /// x86-64 with avx512f.
    Avx512,
}

/// Every extension that this machine has, the narrowest first.
pub(crate) fn available() -> Vec<Isa> {
    #[cfg_attr(not(target_arch = "x86_64"), allow(unused_mut))]
    let mut all = vec![Isa::Plain];
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx2") {
            all.push(Isa::Avx2);
        }
        if std::arch::is_x86_feature_detected!("avx512f") {
            all.push(Isa::Avx512);
        }
    }
    all
}

/// The widest extension of this machine.
#[cfg(not(test))]
pub(crate) fn choose() -> Isa {
    static WIDEST: std::sync::OnceLock<Isa> = std::sync::OnceLock::new();
    *WIDEST.get_or_init(|| available().pop().unwrap_or(Isa::Plain))
}

/// In tests: the extension that [`test::with`] asks for, else the widest.
#[cfg(test)]
pub(crate) fn choose() -> Isa {
    test::chosen()
}

#[cfg(test)]
pub(crate) mod test {
    use super::{Isa, available};
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Index into `available` plus one; 0 for the widest.
    static CHOSEN: AtomicUsize = AtomicUsize::new(0);
    static TURN: Mutex<()> = Mutex::new(());

    pub(super) fn chosen() -> Isa {
        let all = available();
        match CHOSEN.load(Ordering::SeqCst) {
            0 => all[all.len() - 1],
            i => all[i - 1],
        }
    }

    /// Runs `f` once for each extension of this machine. Tests that run meanwhile may see the choice: their results
    /// must not depend on it either.
    pub(crate) fn with_each(mut f: impl FnMut(Isa)) {
        let turn = TURN.lock().unwrap();
        for (i, isa) in available().into_iter().enumerate() {
            CHOSEN.store(i + 1, Ordering::SeqCst);
            f(isa);
        }
        CHOSEN.store(0, Ordering::SeqCst);
        drop(turn);
    }
}
