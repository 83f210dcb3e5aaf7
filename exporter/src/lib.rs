//! Float checkpoint to integer blob.
mod constants;
mod gptq;
mod hadamard;
mod linalg;
mod parallel;
mod phase;
mod random;
#[cfg(test)]
mod test_support;
