"""Exact integer arithmetic for the derivation of tables and for spec 1.1. No floating point."""


def isqrt(n):
    """floor(sqrt(n)) for n >= 0, by Newton's iteration from above (spec 1.1)."""
    if n < 0:
        raise ValueError('isqrt of a negative number')
    if n == 0:
        return 0
    guess = 1 << ((n.bit_length() + 1) // 2)
    while True:
        better = (guess + n // guess) >> 1
        if better >= guess:
            return guess
        guess = better


def round_root_of_power(scale_log2, numerator, root):
    """round(2^scale_log2 * 2^(-numerator/root)): the v with (2v-1)^root < 2^((scale+1) root - numerator) < (2v+1)^root."""
    target = 1 << ((scale_log2 + 1) * root - numerator)
    low, high = 0, 1 << scale_log2
    while low < high:
        middle = (low + high) >> 1
        if (2 * middle + 1) ** root < target:
            low = middle + 1
        else:
            high = middle
    if (2 * low + 1) ** root == target:
        raise ArithmeticError('a tie: the rounding is not defined')
    return low


BITS = 192
ONE = 1 << BITS
# Every series below has fewer than 2^10 terms, each wrong by less than 2^4 units of 2^-BITS,
# on values below 2^24: a result is never wrong by more than 2^-SURE of a table's unit.
SURE = 96


def exp_fixed(numerator, denominator):
    """e^(numerator/denominator) * 2^BITS for 0 <= numerator/denominator <= 16, by its series."""
    term, total, k = ONE, 0, 0
    while term:
        total += term
        k += 1
        term = term * numerator // (denominator * k)
    return total


def _arctan_inverse(n):
    """arctan(1/n) * 2^BITS."""
    power, total, k = ONE // n, 0, 0
    while power:
        total += (power // (2 * k + 1)) * (1 - 2 * (k & 1))
        power //= n * n
        k += 1
    return total


def pi_fixed():
    """pi * 2^BITS by Machin's formula, 16 arctan(1/5) - 4 arctan(1/239)."""
    return 16 * _arctan_inverse(5) - 4 * _arctan_inverse(239)


def cos_sin_fixed(angle):
    """(cos, sin) * 2^BITS of an angle * 2^BITS in [0, 2 pi), by their series."""
    sums, term, k = [0, 0], ONE, 0
    while term:
        sums[k & 1] += term if k & 2 == 0 else -term
        k += 1
        term = ((term * angle) >> BITS) // k
    return sums[0], sums[1]


def round_fixed(value):
    """The integer nearest to value * 2^-BITS, refusing a value too near to a tie to be decided."""
    half = ONE >> 1
    slack = ONE >> SURE
    low, high = (value - slack + half) >> BITS, (value + slack + half) >> BITS
    if low != high:
        raise ArithmeticError('a tie, or too near to one')
    return low
