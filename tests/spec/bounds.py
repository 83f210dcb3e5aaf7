"""The bounds that sections 1 and 3.6 of the specification state, computed from the definitions.

`check(s, pages)` takes the specification's names and the text of its pages, and asserts that the pages state what comes
out: the phrases of section 1 with their numbers, and every cell of the table of 3.6.
"""
import re
from math import isqrt, log2

I16, I31 = 2**15 - 1, 2**31 - 1
FITS = {'int32': I31, 'uint32': 2**32 - 1, 'int64': 2**63 - 1, 'uint64': 2**64 - 1}
# Both sides of every bit length.
ENDS = sorted({v for k in range(1, 32) for v in (2**(k - 1), 2**k - 1)})


def section(pages, title):
    text = pages[title.split('.')[0]]
    return re.search(r'^## %s .*?(?=^## |\Z)' % re.escape(title), text, re.S | re.M).group(0)


def mlp_blocks(s):
    """Every block that the rotation of an intermediate row can have, in either scheme."""
    return [b for b in range(1, 65537) if s['had_factors'](b)]


def section_1(s, pages):
    """Returns what the table of 3.6 needs besides the definitions."""
    def said(title, phrase, *values):
        phrase = phrase % values
        assert phrase in section(pages, title), 'section %s must say: %s' % (title, phrase)

    rdbpot, srdhm, bl = s['rdbpot'], s['srdhm'], s['bl']
    for x in (0, 1, 2, 3, 2**30, 2**31, 2**61, 2**62 - 1, 2**62):
        for e in list(range(63)) + [63, 64, 1000]:
            want = (2 * x + 2**e) >> (e + 1) if e <= 62 else 0
            assert rdbpot(x, e) == want and rdbpot(-x, e) == -want and want <= -(-x >> e), (x, e)
    said('1.2', '|x| <= 2^62')

    for a in (0, 1, 2**30, I31):
        for b in (-I31, -2**30, -1, 0, 1, I31):
            assert abs(srdhm(a, b)) <= max(a, abs(b)) and abs(a * b) + 2**30 < 2**63
    said('1.3', '|a*b| + 2^30 < 2^63')

    scales = [s['norm_scale'](m) for m in ENDS]
    assert all(2**30 <= t < 2**31 for t, _ in scales)
    norm = min(e for _, e in scales), max(e for _, e in scales)
    said('1.4', 'e in [%d, %d]', *norm)

    assert max((127 << (bl(m) + 23)) // m for m in ENDS) == 127 * 2**24
    for m in ENDS:
        q, largest = s['dynq']([m, -m, m // 2, 0])
        assert largest == m and q[:2] == [127, -127] and q[3] == 0
        q = s['quantize']([I31, -I31, m, -m, m // 2, 0], m)
        assert q[:4] == [127, -127, 127, -127] and all(abs(v) <= 127 for v in q)
        assert max(min(abs(x), m) << 24 >> bl(m) for x in (m, I31)) < 2**24
    said('1.5', 'r <= 127 * 2^24 < 2^31')
    said('1.5', 'a <= m * 2^(24-b) < 2^24')
    said('1.5', 'a*r <= 127 * 2^47')

    exponents = [s['rms'](row, eps)[1] for row, eps in [([0], 0), ([1], 0), ([-I31] * 8192, 2**53 - 1)]]
    shifts = [max(0, bl(m) - 24) for m in ENDS]
    largest = max(rdbpot(m, sh) for m, sh in zip(ENDS, shifts))
    assert largest == 2**24
    rms_sum = 8192 * largest**2 + 2**53 - 1
    assert rms_sum < 8192 * 2**48 + 2**53 < 2**62
    for k in range(1, 63):
        for value in (2**(k - 1), 2**k - 1):
            up = (62 - k) // 2
            assert up >= 0 and 2**60 <= value << (2 * up) < 2**62 and 2**30 <= isqrt(value << (2 * up)) < 2**31
    rms = min(exponents), max(exponents)
    assert rms == (-max(shifts), (62 - 1) // 2)
    said('1.6', 'sh is in [%d, %d], e in [%d, %d]', min(shifts), max(shifts), *rms)

    found = [s['ratio'](m, r, e) for m in ENDS for r in (2**30, 2**30 + 1, I31) for e in rms]
    assert all(2**30 <= t < 2**31 for t, _ in found)
    ratio = min(e for _, e in found), max(e for _, e in found)
    said('1.7', 'the exponent is in [%d, %d]', *ratio)

    # The exponents of 1.8: those of 3.2 are 0 without a scale, a ratio, a ratio less s1 and s2, a norm_scale less c.
    blocks = [b for b in range(1, 8193) if s['had_factors'](b)]
    s1 = {b: 31 - s['headroom'](b) for b in blocks}
    s2 = {b: bl(b * 2**s['headroom'](b) * I16) - s['headroom'](b) for b in blocks}
    s12 = max(s1[b] + s2[b] for b in blocks)
    c = 53 - s['headroom'](65536)
    wide = mlp_blocks(s)
    assert bl(2**52) == 53 and c == max(53 - s['headroom'](b) for b in wide)
    # The limits of the stored constants: a c beyond it would be a shift that no row needs.
    assert '| c_down | 0 ..= %d |' % c in section(pages, '4.5')
    said('1.8', 's1 + s2 <= %d', s12)
    said('1.8', 'c <= %d', c)
    token = min(ratio[0] - s12, norm[0] - c), max(ratio[1], norm[1], 0)
    said('1.8', 'token exponents are in [%d, %d]', *token)
    said('1.8', 'e is in [%d, %d]', token[0] - 64, token[1] + 64)
    for shift in range(-64, 65):
        for te in (None, token[0], -31, 0, token[1]):
            for acc in (0, 1, -1, I31, -I31):
                for limit in (I16, 2**22, 2**26, I31):
                    scale = te if te is None else (2**30, te)
                    y = s['requantize'](acc, 0, scale, 2**31 - 1, shift, limit)
                    assert abs(y) <= limit and (acc or y == 0) and y * acc >= 0

    radius = max(x * x + y * y for x, y in (s['rope_angle'](i << 46, 1) for i in range(2**18)))
    assert isqrt(radius * 10**4) + 1 == 1638470, radius
    said('1.9', 'cos^2 + sin^2 <= {:,} < 16384.70^2'.format(radius))
    # |a cos - b sin| <= |(a, b)| |(cos, sin)|, and half a unit for the rounding.
    rope = (isqrt(4 * 2 * 2**44 * radius) + 2**14) >> 15
    said('1.9', '= {:,}.'.format(rope))
    assert 2 * 2**22 * 2**14 <= 2**37

    for b in set(blocks) | set(wide):
        assert b * 2**s['headroom'](b) < 2**31 <= b * 2**(s['headroom'](b) + 1) or b & (b - 1) == 0
    said('1.10', 'B * 2^(31 - bl(B)) < 2^31')

    assert 1 + 256 * 2**48 < 2**57
    for row in ([1], [0], [I31] * 256, [-I31] + [0] * 255):
        assert all(abs(y) <= I16 for y in s['head_norm'](row, [I16 * 2**15] * len(row)))
    said('1.11', '|(v << up) * rr| <= 2^61; |t| <= 2^30; |t * g| < 2^60')

    shift = 16 + rms[0], 16 + rms[1]
    said('3.3', '16 + e is in [%d, %d] and r * c < 2^47', *shift)
    # Clamping before the shift equals clamping after it, at every headroom and shift.
    for room in {s['headroom'](b) for b in wide}:
        for shift in range(c + 1):
            limit = 2**(room + shift)
            for v in {0, 1, limit - 1, limit, limit + 1, limit + (1 << shift >> 1), 2 * limit, 2**52} | {limit - (1 << shift >> 1)}:
                for v in (min(v, 2**52), -min(v, 2**52)):
                    after = s['sat'](rdbpot(v, shift), 2**room)
                    assert after == rdbpot(s['sat'](v, limit), shift) and abs(after) <= 2**room
                    if abs(v) < limit:
                        assert after == rdbpot(v, shift)

    assert s['swiglu'](2**26, 2**26) == 2**52 == -s['swiglu'](2**26, -2**26)
    said('1.12', '|g * sig| <= 2^50, |result| <= 2^52')

    weights = [s['exp2_weight'](d) for d in range(31 * 256 + 1)]
    assert weights == sorted(weights, reverse=True) and weights[-1] == 0
    said('1.13', 'Result in [0, %d]; d = 0 gives %d', weights[0], weights[0])

    bd = bl(weights[0]), bl(32768 * weights[0])
    c_w = bl(weights[0] * I16) - 15
    n = 32768 * 2**15 * 127
    sn = bl(n) - 31
    said('1.14', 'bd is in [%d, %d]', *bd)
    said('1.14', 'c <= %d', c_w)
    said('1.14', 'sn <= %d; f is in [%d, %d]', sn, bd[0] + 22 - sn - c_w, bd[1] + 22)
    # A weight rounded half up is at most twice its value.
    attention = 2 * 127 * I16 * 256
    said('1.14', '|out| <= {:,} < 2^31'.format(attention))
    assert s['attend']([127], I16, [[127]], [I16], [[-127]], [I16], I31, 0) == [-127 * I16 * 256]
    return {'rms sum': rms_sum, 'rope': rope, 'attention': attention, 'blocks': blocks}


def table(s, known):
    """Row of 3.6: the worst case over every accepted blob, and at the Qwen3-0.6B shape where the page gives one."""
    rdbpot, bl = s['rdbpot'], s['bl']
    dot, rms_sum, rope = 127**2, known['rms sum'], known['rope']
    raised = max(127 * ((2**(31 + psh) - 1) // 127) << -psh for psh in range(-5, 0))
    blocks = set(known['blocks']) | set(mlp_blocks(s))
    score = 256 * dot * I16
    return {
        'dot product, K inputs': (65536 * dot, 3072 * dot),
        'acc << -psh': (raised, 3072 * dot << 5),
        'srdhm product + 2^30': (I31**2 + 2**30, None),
        'embedding w << 24': (127 << 24, None),
        'rms sum': (rms_sum, 1024 * 2**48 + 2**53 - 1),
        'rms radicand': (max((2**k - 1) << (2 * ((62 - k) // 2)) for k in range(1, 63)), None),
        'dynq reciprocal numerator': (127 << (31 + 23), None),
        'dynq a * r + 2^46': (max((m << 24 >> bl(m)) * ((127 << (bl(m) + 23)) // m) for m in ENDS) + 2**46, None),
        'ratio numerator': (max(m << (62 - bl(m)) for m in ENDS), None),
        'rope products': (2 * 2**22 * 2**14, None),
        'rope output, no q/k norm': (rope, None),
        'its rotation, B = hd': (256 * rope, 128 * rope),
        'rotation with q/k norm': (256 * I16, 128 * I16),
        'head_norm (v << up) * rr': (max(r * (2**61 // r) for r in (2**30, 2**30 + 1, I31)), None),
        'head_norm t * g': (rdbpot(2**61, 31) * I16 * 2**15, None),
        'score dot product': (256 * dot, 128 * dot),
        'score dot * mk': (score, score // 2),
        'a * rm + 2^(rs-1)': (rdbpot(score, 10) * ((I16 * I31 + 2**19) >> 20) + 2**61, None),
        'top - z': (2 * (2**30 - 1), None),
        'den': (32768 * s['exp2_weight'](0), None),
        'w = p * mv': (s['exp2_weight'](0) * I16, None),
        'n = sum w * v8': (32768 * 2**15 * 127, 32768 * 2**15 * 127),
        '(abs(n) >> sn) * rd + 2^(f-1)': (I31 * 2**31 + 2**52, None),
        'attention output': (known['attention'], None),
        'g * sig': (2**26 * 2**24, None),
        'swiglu': (rdbpot(2**50, 24) * 2**26, None),
        'static norm r * c': (I31 * 2**16, None),
        'h after the shift and sat, x and y in the head': (max(2**s['headroom'](b) for b in blocks), None),
        'rotation of h, of x and of y in the head': (max(b * 2**s['headroom'](b) for b in blocks), None),
        'head y * gain': (max(b * 2**s['headroom'](b) for b in known['blocks']) * I16, None),
        'residual before sat': (2 * I31, None),
    }


def number(text):
    """The value of an expression of numbers and whether it is rounded, or None when it has names in it."""
    text = text.strip().replace(',', '')
    if not re.fullmatch(r'[\d.^*+ -]+', text):
        return None
    return eval(text.replace('^', '**')), '.' in text


def check_cell(name, cell, bound):
    """A cell is a chain like `a = b < c`, after an optional `shape:`; parts with names in them state no number.

    Its first number is the bound, exactly where it has digit groups, or above it by less than a factor of two.
    """
    parts = re.split(r'(<=|<|=)', re.sub(r'^[^:]*:', '', cell))
    last = None
    for relation, text in zip([''] + parts[1::2], parts[0::2]):
        value = number(text)
        if value is None:
            continue
        value, rounded = value
        if last is None:
            strict = relation == '<'
            if ',' in text:
                assert value == bound, (name, cell, bound)
            elif rounded:
                assert abs(log2(value) - log2(bound)) <= 0.005, (name, cell, bound)
            elif strict:
                assert bound < value <= 2 * bound, (name, cell, bound)
            else:
                assert bound <= value < 2 * bound, (name, cell, bound)
        elif relation == '=':
            assert round(log2(last), 2) == round(log2(value), 2) if rounded else last == value, (name, cell)
        else:
            assert (last < value if relation == '<' else last <= value) and value <= 2 * last, (name, cell)
        last = value
    assert last is not None, (name, cell)


def check(s, pages):
    bounds = table(s, section_1(s, pages))
    rows = re.findall(r'^\| (.*?) \| (.*?) \| (.*?) ?\| (\w+) \|$', section(pages, '3.6'), re.M)
    rows = [r for r in rows if r[0] != 'quantity']
    assert [r[0] for r in rows] == list(bounds), set(bounds) ^ {r[0] for r in rows}
    for name, general, example, fits in rows:
        check_cell(name, general, bounds[name][0])
        assert bounds[name][0] <= FITS[fits], name
        assert (bounds[name][1] is None) == (not example), name
        if example:
            check_cell(name, example, bounds[name][1])
