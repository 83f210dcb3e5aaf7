"""The operations of spec 1, each on unbounded integers.

The bounds that the spec proves are checked where they are stated: `DomainError` means that an
input lies outside an operation's domain (or that the spec's proof is wrong). Floor, nearest and
sign-magnitude forms are chosen so that few lines equal those of the spec's own programs.
"""
from operator import mul

from exact import isqrt
from tables import EXP2, ROPE_COARSE, ROPE_FINE, SIGMOID

INT16_MAX = (1 << 15) - 1
INT32_MAX = (1 << 31) - 1
LIMITS = (INT16_MAX, 1 << 22, 1 << 26, INT32_MAX)


class DomainError(Exception):
    """An input outside the domain that spec 1 states."""


def expect(holds, what):
    """Raises DomainError unless the statement holds."""
    if not holds:
        raise DomainError('outside the domain: ' + what)


def sat(x, limit):
    """Clamp to [-limit, limit] (0.3)."""
    return limit if x > limit else -limit if x < -limit else x


def signed(magnitude, like):
    """The magnitude with the sign of `like`."""
    return -magnitude if like < 0 else magnitude


def rdbpot(x, e):
    """x / 2^e, nearest, ties away from zero (1.2)."""
    expect(-(1 << 62) <= x <= 1 << 62 and e >= 0, 'rdbpot')
    if e == 0:
        return x
    if e > 62:
        return 0
    return signed((abs(x) + (1 << (e - 1))) >> e, x)


def srdhm(a, b):
    """gemmlowp's SaturatingRoundingDoublingHighMul in its own form: a nudge, then truncation (1.3)."""
    expect(-INT32_MAX - 1 <= a <= INT32_MAX and -INT32_MAX - 1 <= b <= INT32_MAX, 'srdhm')
    product = a * b
    if product == 1 << 62:
        return INT32_MAX
    if product >= 0:
        return (product + (1 << 30)) // (1 << 31)
    return -((-product - 1 + (1 << 30)) // (1 << 31))


def norm_scale(m):
    """The token scale of the integer m (1.4)."""
    expect(0 <= m <= INT32_MAX, 'norm_scale')
    if m == 0:
        return 0, 0
    e = 0
    while m < 1 << 30:
        m, e = 2 * m, e + 1
    return m, e - 31


def quantize(u, m):
    """Codes of a row clamped to [-m, m], m >= 1, with one reciprocal for the row (1.5)."""
    expect(len(u) >= 1 and 1 <= m <= INT32_MAX and max(map(abs, u)) <= INT32_MAX, 'quantize')
    bits = m.bit_length()
    reciprocal = (127 << (bits + 23)) // m
    left, right = max(0, 24 - bits), max(0, bits - 24)
    return [signed(((((min(abs(x), m) << left) >> right) * reciprocal) + (1 << 46)) >> 47, x) for x in u]


def dynq(u):
    """(codes, m): quantize by the row's own largest magnitude (1.5)."""
    expect(len(u) >= 1, 'dynq of an empty row')
    m = max(map(abs, u))
    return (quantize(u, m), m) if m else ([0] * len(u), 0)


def _aligned(x):
    """(shift, values): the row shifted so that no magnitude exceeds 2^24 (1.6, 1.11)."""
    largest = max(map(abs, x))
    expect(largest <= INT32_MAX, 'a magnitude above 2^31 - 1')
    shift = max(0, largest.bit_length() - 24)
    return shift, [rdbpot(v, shift) for v in x]


def _root(s):
    """(r, up): r = floor(sqrt(s * 4^up)) with up the largest that keeps s * 4^up below 2^62."""
    expect(1 <= s < 1 << 62, 'sum of squares')
    up = (62 - s.bit_length()) // 2
    r = isqrt(s << (2 * up))
    expect(1 << 30 <= r <= INT32_MAX, 'root')
    return r, up


def rms(x, eps):
    """(r, e) with r * 2^-e the root of the sum of squares plus eps (1.6)."""
    expect(1 <= len(x) <= 8192 and 0 <= eps < 1 << 53, 'rms')
    shift, z = _aligned(x)
    r, up = _root(max(1, sum(map(mul, z, z)) + (eps >> (2 * shift))))
    return r, up - shift


def ratio(m, r, e):
    """The token scale of m / (r * 2^-e), floor (1.7)."""
    expect(0 <= m <= INT32_MAX and 1 << 30 <= r <= INT32_MAX, 'ratio')
    if m == 0:
        return 0, 0
    lift = 62 - m.bit_length()
    t, exponent = (m << lift) // r, lift - 31 - e
    if t > INT32_MAX:
        t, exponent = t // 2, exponent - 1
    return t, exponent


def requantize(acc, psh, scale, mult, shift, limit):
    """An accumulator times its token scale and its channel's multiplier (1.8). `scale` is (t, te) or None."""
    a = acc << -psh
    expect(-5 <= psh <= 0 and -INT32_MAX <= a <= INT32_MAX, 'requantize accumulator')
    if scale is not None:
        t, te = scale
        expect(0 <= t <= INT32_MAX, 'requantize token scale')
        a = srdhm(a, t)
        shift += te
    expect(1 << 30 <= mult <= INT32_MAX, 'requantize multiplier')
    a = srdhm(a, mult)
    if shift >= 0:
        a = rdbpot(a, shift)
    elif a:
        # A non-zero value shifted left by more than 31 bits exceeds every int32, so 32 bits decide.
        a = sat(a << min(-shift, 32), INT32_MAX)
    return sat(a, limit)


def rope_angle(phase, position):
    """(cos, sin) in Q14 of the pair's angle at a position (1.9)."""
    expect(0 <= phase < 1 << 64 and 0 <= position < 1 << 15, 'rope_angle')
    turn = phase * position & ((1 << 64) - 1)
    coarse, fine = divmod((turn + (1 << 45) >> 46) & 0x3FFFF, 1024)
    (ch, sh), (cl, sl) = ROPE_COARSE[coarse], ROPE_FINE[fine]
    return rdbpot(ch * cl - sh * sl, 46), rdbpot(sh * cl + ch * sl, 46)


def rope(x, cos_sin):
    """Rotation of the pairs (i, i + hd/2) of one head row (1.9)."""
    half = len(cos_sin)
    expect(len(x) == 2 * half and max(map(abs, x)) <= 1 << 22, 'rope')
    pairs = list(zip(x[:half], x[half:], cos_sin))
    return [rdbpot(a * c - b * s, 14) for a, b, (c, s) in pairs] + [rdbpot(b * c + a * s, 14) for a, b, (c, s) in pairs]


def head_norm(x, gain):
    """Normalisation of one q or k head row (1.11)."""
    expect(1 <= len(x) <= 256 and len(gain) == len(x) and max(map(abs, gain)) <= INT16_MAX << 15, 'head_norm')
    _, z = _aligned(x)
    r, up = _root(1 + sum(map(mul, z, z)))
    inverse = (1 << 61) // r
    return [sat(rdbpot(rdbpot((v << up) * inverse, 31) * g, 45), INT16_MAX) for v, g in zip(z, gain)]


def swiglu(g, u):
    """g * sigmoid(g) * u (1.12): Q12 inputs, Q24 output."""
    expect(abs(g) <= 1 << 26 and abs(u) <= 1 << 26, 'swiglu')
    index = (abs(g) + 32) // 64
    half = SIGMOID[index] if abs(g) < 1 << 16 else 1 << 24
    return rdbpot(g * (half if g >= 0 else (1 << 24) - half), 24) * u


def exp2_weight(d):
    """2^(-d/256) in Q15 (1.13)."""
    expect(d >= 0, 'exp2_weight')
    whole, part = divmod(d, 256)
    if whole == 0:
        return EXP2[part]
    return 0 if whole > 30 else (EXP2[part] + (1 << (whole - 1))) >> whole


def dot(a, b):
    """The exact inner product of two rows."""
    return sum(map(mul, a, b))


def attend(q8, mq, k8, mk, v8, mv, score_mult, score_shift):
    """Attention of one query head over its visible keys (1.14): hd int32 values."""
    expect(len(k8) >= 1 and len(k8) == len(mk) == len(v8) == len(mv), 'attend without keys')
    expect(0 <= mq <= INT16_MAX and 0 <= score_shift <= 61 and 1 << 30 <= score_mult <= INT32_MAX, 'attend constants')
    expect(0 <= min(mk) and max(mk) <= INT16_MAX and 0 <= min(mv) and max(mv) <= INT16_MAX, 'attend magnitudes')
    factor = (mq * score_mult + (1 << 19)) >> 20
    half = 1 << score_shift
    bound = (1 << 30) - 1
    z = [sat((rdbpot(dot(q8, k) * m, 10) * factor + half) >> (score_shift + 1), bound) for k, m in zip(k8, mk)]
    top = max(z)
    p = [exp2_weight(top - v) for v in z]
    denominator = sum(p)
    w = list(map(mul, p, mv))
    c = max(0, max(w).bit_length() - 15)
    if c:
        w = [(v + (1 << (c - 1))) >> c for v in w]
    n = [dot(w, column) for column in zip(*v8)]
    bits = denominator.bit_length()
    inverse = (1 << (bits + 30)) // denominator
    sn = max(0, max(map(abs, n)).bit_length() - 31)
    f = bits + 22 - sn - c
    expect(17 <= f <= 53, 'attend shift')
    return [signed(((abs(v) >> sn) * inverse + (1 << (f - 1))) >> f, v) for v in n]


def add_residual(x, y):
    """The residual sum, saturated to +-(2^31 - 1) (3.3)."""
    return [sat(a + b, INT32_MAX) for a, b in zip(x, y)]
