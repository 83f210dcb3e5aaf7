"""The frozen tables of spec 2 and 8, computed from their definitions with exact arithmetic.

Nothing is read from a file, so the oracle needs no part of the project but itself. The
digests are those of the table in spec 2; `check` compares the two.
"""
import struct

import exact
from keccak import keccak256_many

PUBLISHED = {
    'exp2.bin': '8da51de79047aacee79721349cb001def560f23a9aca96037d5ca2b8ba1c7b5f',
    'sigmoid.bin': '6458519d667f356a6644e6a75c98069bc7457e55c76dafd1dfb748dbb281fcea',
    'rope.bin': '1523853c1a6fd045f5e78c5e6e45f8522cd338a975a1376ab50f5977042e9d0e',
}


def _sigmoid(i):
    """round(2^24 / (1 + exp(-i/64)))."""
    grown = exact.exp_fixed(i, 64)
    return exact.round_fixed((grown << (24 + exact.BITS)) // (exact.ONE + grown))


def _turn(numerator, log2_denominator):
    """(round(2^30 cos a), round(2^30 sin a)) of a = numerator / 2^log2_denominator turns.

    The multiples of a quarter turn are exact; the others are irrational or +-1/2 (never a tie).
    """
    quarter, rest = divmod(numerator << 2, 1 << log2_denominator)
    angle = (exact.pi_fixed() * rest) >> (log2_denominator + 1)
    cos, sin = (exact.round_fixed(v << 30) for v in exact.cos_sin_fixed(angle))
    for _ in range(quarter):
        cos, sin = -sin, cos
    return cos, sin


def _silu(i):
    """round(16 * silu((i - 128) / 16)), spec 8. Only i = 128 is rational, and it is 0."""
    x = i - 128
    grown = exact.exp_fixed(abs(x), 16)
    small, large = exact.ONE * exact.ONE // (exact.ONE + grown), grown * exact.ONE // (exact.ONE + grown)
    return exact.round_fixed(x * (large if x >= 0 else small))


EXP2 = [exact.round_root_of_power(15, i, 256) for i in range(256)]
SIGMOID = [_sigmoid(i) for i in range(1025)]
ROPE_COARSE = [_turn(h, 8) for h in range(256)]
ROPE_FINE = [_turn(l, 18) for l in range(1024)]
TOY_EXP = [exact.round_root_of_power(16, i, 16) for i in range(256)]
TOY_SILU = [_silu(i) for i in range(256)]

FILES = {
    'exp2.bin': struct.pack('<256H', *EXP2),
    'sigmoid.bin': struct.pack('<1025I', *SIGMOID),
    'rope.bin': struct.pack('<2560i', *[v for pair in ROPE_COARSE + ROPE_FINE for v in pair]),
    'toy_exp.bin': struct.pack('<256I', *TOY_EXP),
    'toy_silu.bin': struct.pack('<256b', *TOY_SILU),
}
DIGESTS = dict(zip(PUBLISHED, keccak256_many([FILES[name] for name in PUBLISHED])))


def check():
    """The names of the tables whose computed bytes do not have the published digest: none, unless the oracle is damaged."""
    return [name for name, digest in PUBLISHED.items() if DIGESTS[name].hex() != digest]
