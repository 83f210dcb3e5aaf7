//! The tensors of a decoder: their order, shapes and names.

use crate::config::ModelConfig;

/// One tensor of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Token embedding, `[vocab, hidden]`.
    Embed,
    /// A tensor of layer `.0`.
    Layer(usize, LayerRole),
    /// Gain of the last norm, `[hidden]`.
    FinalNorm,
    /// Output head of an untied model, `[vocab, hidden]`.
    LmHead,
}

/// One tensor of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum LayerRole {
    AttnNorm,
    Q,
    K,
    V,
    O,
    QNorm,
    KNorm,
    FfnNorm,
    Gate,
    Up,
    Down,
}

impl LayerRole {
    pub(super) const ALL: [LayerRole; 11] = [
        LayerRole::AttnNorm,
        LayerRole::Q,
        LayerRole::K,
        LayerRole::V,
        LayerRole::O,
        LayerRole::QNorm,
        LayerRole::KNorm,
        LayerRole::FfnNorm,
        LayerRole::Gate,
        LayerRole::Up,
        LayerRole::Down,
    ];
}

impl Role {
    /// Every tensor of a model, in canonical order: embedding, layers, final norm, head.
    pub fn all(c: &ModelConfig) -> impl Iterator<Item = Role> {
        let (qk_norm, tied) = (c.qk_norm, c.tied);
        let wanted =
            move |r: &LayerRole| qk_norm || !matches!(r, LayerRole::QNorm | LayerRole::KNorm);
        let layers = (0..c.layers).flat_map(move |i| {
            LayerRole::ALL
                .into_iter()
                .filter(wanted)
                .map(move |r| Role::Layer(i, r))
        });
        std::iter::once(Role::Embed)
            .chain(layers)
            .chain([Role::FinalNorm])
            .chain((!tied).then_some(Role::LmHead))
    }

    /// The shape, outermost dimension first; matrices are `[out, in]`.
    pub fn shape(self, c: &ModelConfig) -> Vec<usize> {
        match self {
            Role::Embed | Role::LmHead => vec![c.vocab, c.hidden],
            Role::FinalNorm => vec![c.hidden],
            Role::Layer(_, r) => match r {
                LayerRole::AttnNorm | LayerRole::FfnNorm => vec![c.hidden],
                LayerRole::QNorm | LayerRole::KNorm => vec![c.head_dim],
                LayerRole::Q => vec![c.q_dim(), c.hidden],
                LayerRole::K | LayerRole::V => vec![c.kv_dim(), c.hidden],
                LayerRole::O => vec![c.hidden, c.q_dim()],
                LayerRole::Gate | LayerRole::Up => vec![c.intermediate, c.hidden],
                LayerRole::Down => vec![c.hidden, c.intermediate],
            },
        }
    }

    /// The name in a Hugging Face checkpoint.
    pub fn hf_name(self) -> String {
        match self {
            Role::Embed => "model.embed_tokens.weight".into(),
            Role::FinalNorm => "model.norm.weight".into(),
            Role::LmHead => "lm_head.weight".into(),
            Role::Layer(i, r) => {
                let part = match r {
                    LayerRole::AttnNorm => "input_layernorm",
                    LayerRole::Q => "self_attn.q_proj",
                    LayerRole::K => "self_attn.k_proj",
                    LayerRole::V => "self_attn.v_proj",
                    LayerRole::O => "self_attn.o_proj",
                    LayerRole::QNorm => "self_attn.q_norm",
                    LayerRole::KNorm => "self_attn.k_norm",
                    LayerRole::FfnNorm => "post_attention_layernorm",
                    LayerRole::Gate => "mlp.gate_proj",
                    LayerRole::Up => "mlp.up_proj",
                    LayerRole::Down => "mlp.down_proj",
                };
                format!("model.layers.{i}.{part}.weight")
            }
        }
    }

    /// The name in a GGUF file.
    pub fn gguf_name(self) -> String {
        match self {
            Role::Embed => "token_embd.weight".into(),
            Role::FinalNorm => "output_norm.weight".into(),
            Role::LmHead => "output.weight".into(),
            Role::Layer(i, r) => {
                let part = match r {
                    LayerRole::AttnNorm => "attn_norm",
                    LayerRole::Q => "attn_q",
                    LayerRole::K => "attn_k",
                    LayerRole::V => "attn_v",
                    LayerRole::O => "attn_output",
                    LayerRole::QNorm => "attn_q_norm",
                    LayerRole::KNorm => "attn_k_norm",
                    LayerRole::FfnNorm => "ffn_norm",
                    LayerRole::Gate => "ffn_gate",
                    LayerRole::Up => "ffn_up",
                    LayerRole::Down => "ffn_down",
                };
                format!("blk.{i}.{part}.weight")
            }
        }
    }
}
