#!/usr/bin/env python3
"""Vectors of quant-core's tests from ggml's Python package `gguf` (0.19) and numpy.

    gen_vectors.py OUT                 the committed vectors: tests/data
    gen_vectors.py OUT --blocks N      N random blocks of each format with all their values, for
                                       `cargo run --release -p quant-core --example check_vectors -- OUT`

OUT/FORMAT.bin, little-endian: u32 F, u32 H; F + H blocks; the f32 values of the first F blocks; for
each of the other H blocks the u64 FNV-1a hash of the bytes of its f32 values.
All scales are finite.
OUT/python.gguf: a container with every metadata type and several tensors.
"""
import argparse
import pathlib

import gguf
import numpy as np

# Format, offsets of its f16 scales, committed blocks in full, committed blocks by hash.
FORMATS = [
    ("F32", [], 64, 0),
    ("F16", [0], 512, 0),
    ("BF16", [], 512, 0),
    ("Q8_0", [0], 160, 160),
    ("Q4_0", [0], 160, 160),
    ("Q4_1", [0, 2], 160, 160),
    ("Q4_K", [0, 2], 40, 260),
    ("Q6_K", [208], 40, 260),
]
# Zeros, least and largest subnormals, least normal, largest finite, one, and their negatives.
EXTREME_F16 = [0x0000, 0x0001, 0x03FF, 0x0400, 0x7BFF, 0x3C00]
EXTREME_F16 += [h | 0x8000 for h in EXTREME_F16]
EXTREME_BYTES = [0x00, 0xFF, 0x80, 0x7F, 0x0F, 0xF0, 0x3F, 0xC0]


def random_blocks(rng, name, scales, count):
    """count random blocks, each f16, bf16 or f32 in them finite."""
    _, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]]
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    for at in scales:
        half = np.ascontiguousarray(blocks[:, at : at + 2]).view(np.uint16)
        infinite = (half & 0x7C00) == 0x7C00
        half[infinite] &= 0xBFFF
        blocks[:, at : at + 2] = half.view(np.uint8)
    if name in ("F32", "BF16"):
        top = np.ascontiguousarray(blocks[:, -2:]).view(np.uint16)
        top[(top & 0x7F80) == 0x7F80] &= 0xBFFF
        blocks[:, -2:] = top.view(np.uint8)
    return blocks


def extreme_blocks(rng, blocks, scales):
    """Sets extreme scales and fills in half of the blocks."""
    for i in range(0, len(blocks), 2):
        if rng.integers(2):
            blocks[i, :] = rng.choice(EXTREME_BYTES)
        for at in scales:
            blocks[i, at : at + 2] = np.array([rng.choice(EXTREME_F16)], np.uint16).view(np.uint8)


def fnv1a(rows):
    """FNV-1a (64 bits) of each row of bytes."""
    state = np.full(len(rows), 0xCBF29CE484222325, np.uint64)
    for column in rows.T:
        state = (state ^ column.astype(np.uint64)) * np.uint64(0x100000001B3)
    return state


def write_vectors(out, name, blocks, full):
    values = gguf.dequantize(blocks, gguf.GGMLQuantizationType[name])
    values = np.ascontiguousarray(values, "<f4").reshape(len(blocks), -1)
    assert np.isfinite(values).all(), name
    with open(out / f"{name}.bin", "wb") as file:
        file.write(np.array([full, len(blocks) - full], "<u4").tobytes())
        file.write(blocks.tobytes())
        file.write(values[:full].tobytes())
        file.write(fnv1a(values[full:].view(np.uint8)).astype("<u8").tobytes())


def write_container(path, rng):
    writer = gguf.GGUFWriter(path, "llama")
    writer.data_alignment = 64
    writer.add_uint32("general.alignment", 64)
    writer.add_uint8("t.u8", 200)
    writer.add_int8("t.i8", -100)
    writer.add_uint16("t.u16", 60000)
    writer.add_int16("t.i16", -30000)
    writer.add_uint32("t.u32", 4000000000)
    writer.add_int32("t.i32", -2000000000)
    writer.add_float32("t.f32", 0.1)
    writer.add_uint64("t.u64", 2**64 - 1)
    writer.add_int64("t.i64", -(2**63))
    writer.add_float64("t.f64", 0.1)
    writer.add_bool("t.bool", True)
    writer.add_string("t.string", "naïve ½ 漢")
    writer.add_array("a.i32", [1, -2, 3])
    writer.add_array("a.f32", [0.5, -1.5])
    writer.add_array("a.bool", [True, False])
    writer.add_array("a.string", ["a", "", "Ġb"])
    writer.add_array("a.nested", [[1, 2], [3]])
    for name, kind, shape in [
        ("token_embd.weight", "Q6_K", (3, 256)),
        ("blk.0.attn_q.weight", "Q4_0", (2, 5, 32)),
        ("blk.0.attn_norm.weight", "F32", (7,)),
        ("output.weight", "BF16", (3, 1)),
    ]:
        kind_id = gguf.GGMLQuantizationType[kind]
        block_len, size = gguf.GGML_QUANT_SIZES[kind_id]
        scales = next(row[1] for row in FORMATS if row[0] == kind)
        data = random_blocks(rng, kind, scales, int(np.prod(shape)) // block_len)
        data = data.reshape(*shape[:-1], -1)
        if kind == "F32":
            data = data.reshape(-1).view(np.float32)
        writer.add_tensor(name, data, raw_dtype=kind_id)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--blocks", type=int)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(args.seed)
    for name, scales, full, hashed in FORMATS:
        if args.blocks:
            full, hashed = args.blocks, 0
        blocks = random_blocks(rng, name, scales, full + hashed)
        if not args.blocks:
            extreme_blocks(rng, blocks, scales)
            if name in ("F32", "BF16"):
                # A fill of 0x7F or 0xFF is a NaN.
                nan = ((blocks[:, -1] & 0x7F) == 0x7F) & (blocks[:, -2] >= 0x80)
                blocks[nan, -1] &= 0xBF
        write_vectors(args.out, name, blocks, full)
    if not args.blocks:
        write_container(args.out / "python.gguf", rng)


main()
