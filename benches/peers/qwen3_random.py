#!/usr/bin/env python3
"""Writes a GGUF file of the Qwen3-0.6B shape with random Q8_0 weights.

    qwen3_random.py FILE

The weights are uniform over the 256 values of int8, with one scale per tensor: speed depends on the shape, not on the values. There is
no tokenizer ("none"): the file serves token ids only. Same bytes on every run. Standard library only.
"""

import os
import random
import struct
import sys

HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD_DIM = 1024, 28, 16, 8, 128
INTERMEDIATE, VOCAB = 3072, 151_936
F32, Q8_0 = 0, 8
BLOCK, BLOCK_BYTES = 32, 34
ALIGNMENT = 32
# Standard deviation of the uniform distribution over -128..127.
INT8_STD = 73.9


def metadata():
    """Keys with their GGUF value types and values."""
    string, u32, f32 = 8, 4, 6
    return [
        ("general.architecture", string, "qwen3"),
        ("general.name", string, "Qwen3-0.6B shape, random weights"),
        ("general.file_type", u32, 7),
        # candle: rotary tables in float32 (0).
        ("general.dtype", u32, 0),
        ("qwen3.block_count", u32, LAYERS),
        ("qwen3.context_length", u32, 40_960),
        ("qwen3.embedding_length", u32, HIDDEN),
        ("qwen3.feed_forward_length", u32, INTERMEDIATE),
        ("qwen3.attention.head_count", u32, HEADS),
        ("qwen3.attention.head_count_kv", u32, KV_HEADS),
        ("qwen3.attention.key_length", u32, HEAD_DIM),
        ("qwen3.attention.value_length", u32, HEAD_DIM),
        ("qwen3.attention.layer_norm_rms_epsilon", f32, 1e-6),
        ("qwen3.rope.freq_base", f32, 1e6),
        ("qwen3.vocab_size", u32, VOCAB),
        ("tokenizer.ggml.model", string, "none"),
    ]


def tensors():
    """Names with their row lengths and numbers of rows (0: a vector)."""
    yield "token_embd.weight", HIDDEN, VOCAB
    for i in range(LAYERS):
        block = f"blk.{i}."
        yield block + "attn_norm.weight", HIDDEN, 0
        yield block + "attn_q.weight", HIDDEN, HEADS * HEAD_DIM
        yield block + "attn_k.weight", HIDDEN, KV_HEADS * HEAD_DIM
        yield block + "attn_v.weight", HIDDEN, KV_HEADS * HEAD_DIM
        yield block + "attn_output.weight", HEADS * HEAD_DIM, HIDDEN
        yield block + "attn_q_norm.weight", HEAD_DIM, 0
        yield block + "attn_k_norm.weight", HEAD_DIM, 0
        yield block + "ffn_norm.weight", HIDDEN, 0
        yield block + "ffn_gate.weight", HIDDEN, INTERMEDIATE
        yield block + "ffn_up.weight", HIDDEN, INTERMEDIATE
        yield block + "ffn_down.weight", INTERMEDIATE, HIDDEN
    yield "output_norm.weight", HIDDEN, 0


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def size(columns, rows):
    return columns // BLOCK * BLOCK_BYTES * rows if rows else 4 * columns


def padded(length):
    return -(-length // ALIGNMENT) * ALIGNMENT


def header():
    keys, infos, offset = metadata(), [], 0
    for name, columns, rows in tensors():
        dims = [columns, rows] if rows else [columns]
        kind = Q8_0 if rows else F32
        infos.append(text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset))
        offset += padded(size(columns, rows))
    out = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(keys))
    for key, kind, value in keys:
        out += text(key) + struct.pack("<I", kind)
        out += text(value) if kind == 8 else struct.pack("<f" if kind == 6 else "<I", value)
    out += b"".join(infos)
    return out.ljust(padded(len(out)), b"\0")


def weights(rng, columns, rows):
    if not rows:
        return struct.pack(f"<{columns}f", *(rng.uniform(0.9, 1.1) for _ in range(columns)))
    scale = struct.pack("<e", 1.0 / (INT8_STD * columns**0.5))
    data = bytearray(rng.randbytes(size(columns, rows)))
    blocks = len(data) // BLOCK_BYTES
    data[0::BLOCK_BYTES] = scale[:1] * blocks
    data[1::BLOCK_BYTES] = scale[1:] * blocks
    return data


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: qwen3_random.py FILE")
    target, partial = sys.argv[1], sys.argv[1] + ".partial"
    rng = random.Random(0x0B1E)
    with open(partial, "wb") as out:
        out.write(header())
        for _, columns, rows in tensors():
            data = weights(rng, columns, rows)
            out.write(data)
            out.write(b"\0" * (padded(len(data)) - len(data)))
    os.replace(partial, target)


if __name__ == "__main__":
    main()
