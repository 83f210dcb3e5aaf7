//! Names of the metrics, in the form of Prometheus.

/// Gauge: models in memory.
pub const RESIDENT: &str = "blue_models_resident";
/// Gauge: bytes that count for models in memory.
pub const RESIDENT_BYTES: &str = "blue_models_resident_bytes";
/// Gauge: most bytes of models in memory.
pub const RESIDENT_LIMIT: &str = "blue_models_limit_bytes";
/// Histogram: seconds from a blob to a model that is ready.
pub const LOAD_SECONDS: &str = "blue_model_load_seconds";
/// Counter: times that a model was asked for; labels `for` (blocks, calls) and `result` (ready, refused, fault).
pub const CALLS: &str = "blue_model_requests_total";
/// Gauge: bytes of keys and values kept of earlier calls; labels `model`, `for`.
pub const PREFIX_BYTES: &str = "blue_prefix_cache_bytes";
/// Counter: prompts that began with kept keys and values; labels `model`, `for`.
pub const PREFIX_HITS: &str = "blue_prefix_cache_hits_total";
/// Counter: positions that were not computed again; labels `model`, `for`.
pub const PREFIX_POSITIONS: &str = "blue_prefix_cache_positions_total";
/// Gauge: models that must be ready and are not: active ones, and those whose activation is near. Anything but 0 is an
/// alarm: the node will stop at the first call.
pub const ALARM: &str = "blue_readiness_alarm";
/// Gauge: 1 when a model is ready; label `model`.
pub const READY: &str = "blue_model_ready";
/// Gauge: blocks until a model can be active, 0 from then on; label `model`.
pub const BLOCKS_LEFT: &str = "blue_model_blocks_left";
/// Counter: bytes of right chunks; label `source`.
pub const FETCH_BYTES: &str = "blue_fetch_bytes_total";
/// Counter: what was wrong with a source; labels `source`, `kind`.
pub const FETCH_FAULTS: &str = "blue_fetch_faults_total";

/// Describes the metrics to the recorder; once, after it is installed.
pub fn describe() {
    use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};
    describe_gauge!(RESIDENT, "Models in memory");
    describe_gauge!(RESIDENT_BYTES, Unit::Bytes, "Bytes of models in memory");
    describe_gauge!(
        RESIDENT_LIMIT,
        Unit::Bytes,
        "Most bytes of models in memory"
    );
    describe_histogram!(
        LOAD_SECONDS,
        Unit::Seconds,
        "From a blob to a model that is ready"
    );
    describe_counter!(CALLS, "Times that a model was asked for");
    describe_gauge!(
        PREFIX_BYTES,
        Unit::Bytes,
        "Keys and values kept of earlier calls"
    );
    describe_counter!(PREFIX_HITS, "Prompts that began with kept keys and values");
    describe_counter!(PREFIX_POSITIONS, "Positions that were not computed again");
    describe_counter!(FETCH_BYTES, Unit::Bytes, "Bytes of right chunks");
    describe_counter!(FETCH_FAULTS, "What was wrong with a source");
    describe_gauge!(ALARM, "Models that must be ready and are not");
    describe_gauge!(READY, "1 when a model is ready");
    describe_gauge!(BLOCKS_LEFT, "Blocks until a model can be active");
}
