"""Hadamard rotations of spec 1.10 and 2.4 as fast transforms: one stage for each Kronecker factor."""
from operator import add, sub

ODD_PARTS = {1: (), 3: (12,), 5: (20,), 9: (12, 12), 15: (12, 20), 25: (20, 20)}


def factors(n):
    """The orders of the Kronecker factors of H_n, slowest index first, or None where 2.4 defines no H_n."""
    twos = (n & -n).bit_length() - 1
    paley = ODD_PARTS.get(n >> twos)
    if paley is None or 2 * len(paley) > twos:
        return None
    return paley + (2,) * (twos - 2 * len(paley))


def had_block(n):
    """The largest divisor of n that has a Hadamard matrix in 2.4."""
    power = n & -n
    rest = n // power
    return power * max(odd for odd, paley in ODD_PARTS.items() if rest % odd == 0 and power % 4 ** len(paley) == 0)


def pow2_block(n):
    """The largest power of two that divides n."""
    block = 1
    while n % (2 * block) == 0:
        block *= 2
    return block


def headroom(block):
    """The largest h such that inputs of magnitude 2^h keep every sum of `block` of them below 2^31."""
    return 31 - block.bit_length()


def paley_entry(order, i, j):
    """Entry of Paley's first construction for the prime order - 1 (2.4)."""
    prime = order - 1
    if i == 0 or i == j:
        return 1
    if j == 0:
        return -1
    return 1 if pow(j - i, (prime - 1) // 2, prime) == 1 else -1


def _minus_sets(order, transpose):
    """For each output i the inputs that enter it with a minus sign."""
    if transpose:
        return [[j for j in range(order) if paley_entry(order, i, j) < 0] for i in range(order)]
    return [[j for j in range(order) if paley_entry(order, j, i) < 0] for i in range(order)]


_MINUS = {(order, transpose): _minus_sets(order, transpose) for order in (12, 20) for transpose in (False, True)}


def _column_sum(parts):
    return [sum(column) for column in zip(*parts)]


def _stage(x, order, stride, transpose):
    out = []
    for start in range(0, len(x), order * stride):
        parts = [x[start + j * stride:start + (j + 1) * stride] for j in range(order)]
        if order == 2:
            out += map(add, parts[0], parts[1])
            out += map(sub, parts[0], parts[1])
            continue
        total = _column_sum(parts)
        for minus in _MINUS[order, transpose]:
            if minus:
                out += [t - 2 * m for t, m in zip(total, _column_sum([parts[j] for j in minus]))]
            else:
                out += total
    return out


def _transform(x, block, transpose):
    orders = factors(block)
    if orders is None or len(x) % block:
        raise ValueError('no Hadamard rotation of %d values in blocks of %d' % (len(x), block))
    x, stride = list(x), 1
    for order in reversed(orders):
        x = _stage(x, order, stride, transpose)
        stride *= order
    return x


def had_forward(x, block):
    """Each block of x, as a row vector, times H_block."""
    return _transform(x, block, False)


def had_transpose(x, block):
    """Each block of x, as a row vector, times the transpose of H_block."""
    return _transform(x, block, True)
