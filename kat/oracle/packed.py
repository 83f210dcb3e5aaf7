"""Products of int8 matrices by packed integers (Kronecker substitution).

A column of N weights becomes one integer, the sum of w_i * 2^(32 i). The sum over the columns of
code times column then holds all N dot products at once, each in a field of 32 bits: by the bound of
spec 3.6 none exceeds 2^30 in magnitude, so a bias of 2^31 makes every field a plain unsigned number.
"""
import struct
from operator import mul

_BIASED = bytes((b + 128) & 255 for b in range(256))
_MAGNITUDE = bytes(min(b, 256 - b) for b in range(256))


def _ones(count):
    """The integer with a one in each of `count` fields."""
    return ((1 << 32 * count) - 1) // 0xFFFFFFFF


def _pack(column):
    """Unsigned bytes, one in each field."""
    spread = bytearray(4 * len(column))
    spread[::4] = column
    return int.from_bytes(spread, 'little')


def _fields(total, count):
    return struct.unpack('<%dI' % count, total.to_bytes(4 * count, 'little'))


class PackedMatrix:
    """An int8 matrix [rows][columns], given as its row-major bytes, for products with rows of int8 codes."""

    def __init__(self, raw, columns):
        self.rows = len(raw) // columns
        ones = _ones(self.rows)
        biased, magnitudes = raw.translate(_BIASED), raw.translate(_MAGNITUDE)
        self.columns = [_pack(biased[j::columns]) - 128 * ones for j in range(columns)]
        self.row_weights = _fields(sum(_pack(magnitudes[j::columns]) for j in range(columns)), self.rows)
        self._bias = ones << 31

    def product(self, codes):
        """The exact dot product of each row with the codes."""
        total = sum(map(mul, self.columns, codes), self._bias)
        return [v - (1 << 31) for v in _fields(total, self.rows)]
