"""The operations of the vector files (spec 7.4): members, domains and results."""
import commitment
import exact
import hadamard
import model
import ops
import toy
from keccak import keccak256
from ops import expect
from packed import PackedMatrix
from rows import expand
from strict_json import digest, integer, listed, members, need

INT8, BYTE, ROW = (-128, 127), (0, 255), (1, 1 << 20)


def each(values, low, high, what):
    """Every value within low ..= high."""
    expect(all(low <= v <= high for v in values), '%s not in %d..=%d' % (what, low, high))
    return values


def between(row, low, high, what):
    """The number of values within low ..= high."""
    expect(low <= len(row) <= high, '%d values of %s, not %d to %d' % (len(row), what, low, high))
    return row


def paired(*rows):
    """Rows of one length, at least 1, index by index."""
    expect(len(rows[0]) >= 1 and len({len(row) for row in rows}) == 1, 'rows of an elementwise operation have one length')
    return zip(*rows)


def matrix(flat, columns, what):
    """The rows of a row-major matrix."""
    expect(columns >= 1 and len(flat) >= columns and len(flat) % columns == 0, what + ' is not a matrix of such rows')
    return [flat[i:i + columns] for i in range(0, len(flat), columns)]


def split(pairs, *names):
    """A list of results as an object of rows."""
    return dict(zip(names, map(list, zip(*pairs))))


def isqrt(n):
    return [exact.isqrt(v) for v in each(between(n, *ROW, 'n'), 0, (1 << 62) - 1, 'n')]


def rdbpot(x, e):
    expect(0 <= e < 1 << 32, 'e')
    return [ops.rdbpot(v, e) for v in between(x, *ROW, 'x')]


def srdhm(a, b):
    return [ops.srdhm(v, w) for v, w in paired(a, b)]


def norm_scale(m):
    return split(map(ops.norm_scale, between(m, *ROW, 'm')), 't', 'e')


def quantize(u, m):
    return ops.quantize(between(u, 1, 65536, 'u'), m)


def dynq(u):
    q, m = ops.dynq(between(u, 1, 65536, 'u'))
    return {'q': q, 'm': m}


def rms(x, eps):
    r, e = ops.rms(between(x, 1, 8192, 'x'), eps)
    return {'r': r, 'e': e}


def ratio(m, r, e):
    each(e, -128, 128, 'e')
    return split([ops.ratio(*case) for case in paired(m, r, e)], 't', 'e')


def check_channels(scale, shift, limit):
    expect(limit in ops.LIMITS, 'the limit is not one of 1.8')
    expect(scale is None or -128 <= scale[1] <= 128, 'the exponent of the scale')
    each(shift, -64, 64, 'shift')


def requantize(acc, psh, scale, mult, shift, limit):
    check_channels(scale, shift, limit)
    each(acc, -ops.INT32_MAX, ops.INT32_MAX, 'acc')
    return [ops.requantize(a, psh, scale, m, s, limit) for a, m, s in paired(acc, mult, shift)]


def rope_angle(phase, position):
    return split([ops.rope_angle(phase, p) for p in between(position, *ROW, 'position')], 'cos', 'sin')


def rope(x, cos_sin):
    expect(2 <= len(x) == len(cos_sin) and len(x) % 2 == 0, 'rope rows')
    each(cos_sin, -(1 << 14), 1 << 14, 'cos_sin')
    return ops.rope(x, list(zip(cos_sin[::2], cos_sin[1::2])))


def had_block(n):
    return [hadamard.had_block(v) for v in each(between(n, *ROW, 'n'), 1, 65536, 'n')]


def pow2_block(n):
    return [hadamard.pow2_block(v) for v in each(between(n, *ROW, 'n'), 1, 65536, 'n')]


def rotation(function, x, block):
    expect(1 <= block <= 65536 and hadamard.factors(block) is not None, 'there is no H_B')
    expect(len(x) >= block and len(x) % block == 0, 'x is not whole blocks')
    each(x, -(1 << hadamard.headroom(block)), 1 << hadamard.headroom(block), 'x')
    return function(x, block)


def had_forward(x, B):
    return rotation(hadamard.had_forward, x, B)


def had_transpose(x, B):
    return rotation(hadamard.had_transpose, x, B)


def swiglu(g, u):
    return [ops.swiglu(a, b) for a, b in paired(g, u)]


def exp2_weight(d):
    return [ops.exp2_weight(v) for v in each(between(d, *ROW, 'd'), 0, ops.INT32_MAX, 'd')]


def attend(q8, mq, k8, mk, v8, mv, score_mult, score_shift):
    width = len(between(q8, 1, 256, 'q8'))
    for row, what in ((q8, 'q8'), (k8, 'k8'), (v8, 'v8')):
        each(row, -127, 127, what)
    expect(len(mk) <= 32768, 'more than 32768 keys')
    return ops.attend(q8, mq, matrix(k8, width, 'k8'), mk, matrix(v8, width, 'v8'), mv, score_mult, score_shift)


def linear(weight, psh, mult, shift, q, scale, limit):
    check_channels(scale, shift, limit)
    each(weight, -127, 127, 'weight')
    each(between(q, 1, 65536, 'q'), -127, 127, 'q')
    heaviest = max(sum(map(abs, row)) for row in matrix(weight, len(q), 'weight'))
    expect(max(-5, (127 * heaviest).bit_length() - 31) <= psh <= 0, 'psh')
    packed = PackedMatrix(bytes(w & 255 for w in weight), len(q))
    return [ops.requantize(acc, psh, scale, m, s, limit) for acc, m, s in paired(packed.product(q), mult, shift)]


def add_residual(x, y):
    return ops.add_residual(*(list(row) for row in zip(*paired(*(each(v, -ops.INT32_MAX, ops.INT32_MAX, 'a residual') for v in (x, y))))))


def normed(codes, scale):
    return {'q': codes, 't': scale[0], 'e': scale[1]}


def norm(x, eps):
    return normed(*model.dynamic_norm(between(x, 1, 8192, 'x'), eps))


def norm_static(x, eps, c):
    expect(1 <= c <= 1 << 16, 'c')
    return normed(*model.static_norm(between(x, 1, 8192, 'x'), eps, c))


def argmax(values, accepted_ids):
    expect(1 <= accepted_ids <= len(values), 'accepted_ids')
    each(values, -ops.INT32_MAX, ops.INT32_MAX, 'values')
    return model.argmax(values, accepted_ids)


def hash_of(data):
    return keccak256(bytes(each(data, *BYTE, 'data'))).hex()


def commitment_of(blob):
    return commitment.commitment(blob_bytes(blob)).hex()


def blob_bytes(blob):
    return bytes(each(between(blob, 1025, 1 << 20, 'blob'), *BYTE, 'blob'))


def prove_chunk(blob, index):
    hashes = commitment.leaves(blob_bytes(blob))
    expect(0 <= index < len(hashes), 'index')
    return [h.hex() for h in commitment.prove(hashes, index)]


def verify_chunk(commitment_, total_len, index, chunk, proof):
    expect(max(abs(total_len), abs(index)) <= 1 << 64, 'total_len and index')
    chunk = bytes(each(chunk, *BYTE, 'chunk'))
    return int(commitment.verify_chunk(bytes.fromhex(commitment_), total_len, index, chunk, [bytes.fromhex(h) for h in proof]))


def toy_gemm(weight, x, shift):
    expect(0 <= shift <= 31, 'shift')
    each(weight, *INT8, 'weight')
    between(x, 1, 65536, 'x')
    return toy.gemm(matrix(weight, len(each(x, *INT8, 'x')), 'weight'), x, shift)


def toy_norm(x, w, mult, eps):
    expect(1 <= len(x) == len(w) <= 65536, 'as many gains as values')
    expect(1 <= mult <= 1 << 16 and 0 <= eps < 1 << 30, 'mult or eps')
    return toy.norm(each(x, *INT8, 'x'), each(w, *INT8, 'w'), mult, eps)


def toy_attend(q, k, v):
    for row, what in ((q, 'q'), (k, 'k'), (v, 'v')):
        each(row, *INT8, what)
    between(q, 1, 256, 'q')
    keys, values = matrix(k, len(q), 'k'), matrix(v, len(q), 'v')
    expect(1 <= len(keys) == len(values) <= 256, '1 to 256 keys and as many values')
    return toy.attend(q, keys, values)


def toy_swiglu(gate, up):
    list(paired(each(gate, *INT8, 'gate'), each(up, *INT8, 'up')))
    return toy.swiglu(gate, up)


# op: (function, members with a letter for the kind: r row, i integer, s scale, d digest, p list of digests)
OPS = {
    'isqrt': (isqrt, 'r:n'), 'rdbpot': (rdbpot, 'r:x i:e'), 'srdhm': (srdhm, 'r:a r:b'), 'norm_scale': (norm_scale, 'r:m'),
    'quantize': (quantize, 'r:u i:m'), 'dynq': (dynq, 'r:u'), 'rms': (rms, 'r:x i:eps'), 'ratio': (ratio, 'r:m r:r r:e'),
    'requantize': (requantize, 'r:acc i:psh s:scale r:mult r:shift i:limit'), 'rope_angle': (rope_angle, 'i:phase r:position'),
    'rope': (rope, 'r:x r:cos_sin'), 'had_block': (had_block, 'r:n'), 'pow2_block': (pow2_block, 'r:n'),
    'had_forward': (had_forward, 'r:x i:B'), 'had_transpose': (had_transpose, 'r:x i:B'), 'head_norm': (ops.head_norm, 'r:x r:gain'),
    'swiglu': (swiglu, 'r:g r:u'), 'exp2_weight': (exp2_weight, 'r:d'),
    'attend': (attend, 'r:q8 i:mq r:k8 r:mk r:v8 r:mv i:score_mult i:score_shift'),
    'linear': (linear, 'r:weight i:psh r:mult r:shift r:q s:scale i:limit'), 'add_residual': (add_residual, 'r:x r:y'),
    'norm': (norm, 'r:x i:eps'), 'norm_static': (norm_static, 'r:x i:eps i:c'), 'argmax': (argmax, 'r:values i:accepted_ids'),
    'keccak256': (hash_of, 'r:data'), 'commitment': (commitment_of, 'r:blob'), 'prove_chunk': (prove_chunk, 'r:blob i:index'),
    'verify_chunk': (verify_chunk, 'd:commitment i:total_len i:index r:chunk p:proof'),
    'toy_gemm': (toy_gemm, 'r:weight r:x i:shift'), 'toy_norm': (toy_norm, 'r:x r:w i:mult i:eps'),
    'toy_attend': (toy_attend, 'r:q r:k r:v'), 'toy_swiglu': (toy_swiglu, 'r:gate r:up'),
}
ANY = 1 << 128


def _scale(value):
    if value is None:
        return None
    need(len(listed(value, 'scale')) == 2, 'a scale has two integers')
    return tuple(integer(v, -ANY, ANY, 'scale') for v in value)


def _value(kind, name, value, budget):
    if kind == 'r':
        return expand(value, budget)
    if kind == 'i':
        return integer(value, -ANY, ANY, name)
    if kind == 's':
        return _scale(value)
    if kind == 'd':
        return digest(value, name)
    return [digest(v, name) for v in listed(value, name)]


def evaluate(op, given, budget):
    """The result of an operation on the members `in` of a case: a row, an integer, a digest, or an object of those."""
    function, signature = OPS[op]
    parameters = [part.split(':') for part in signature.split()]
    members(given, [name for _, name in parameters])
    return function(*[_value(kind, name, given[name], budget) for kind, name in parameters])
