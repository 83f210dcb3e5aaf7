"""The toy model of spec 8, with a cache: each position is computed once."""
from exact import isqrt
from ops import dot
from tables import TOY_EXP, TOY_SILU

VOCAB, DIM, HIDDEN, LAYERS, MAX_TOKENS = 48, 32, 64, 2, 256
SEED = 0x70E711A0BEEF1234
TENSORS = (('embed', 1, VOCAB, DIM), ('rms1', LAYERS, 1, DIM), ('wq', LAYERS, DIM, DIM), ('wk', LAYERS, DIM, DIM),
           ('wv', LAYERS, DIM, DIM), ('wo', LAYERS, DIM, DIM), ('rms2', LAYERS, 1, DIM), ('wgate', LAYERS, HIDDEN, DIM),
           ('wup', LAYERS, HIDDEN, DIM), ('wdown', LAYERS, DIM, HIDDEN), ('rmsf', 1, 1, DIM), ('wlm', 1, VOCAB, DIM))


class Halt(Exception):
    """A refused call. `args[0]` is the consensus name; for TokenOutOfRange position and id follow."""


def generator(seed):
    """The weights' values in order: the high half of an LCG's state, modulo 256, minus 128."""
    state = seed | 1
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) & ((1 << 64) - 1)
        yield ((state >> 32) & 255) - 128


def weights(seed=SEED):
    """name -> [layer][row][column]."""
    values = generator(seed)
    return {name: [[[next(values) for _ in range(columns)] for _ in range(rows)] for _ in range(layers)]
            for name, layers, rows, columns in TENSORS}


def sat8(x):
    """Clamp to int8."""
    return min(127, max(-128, x))


def divide(a, b):
    """a / b towards zero, b > 0."""
    return -(-a // b) if a < 0 else a // b


def gemm(matrix, x, shift=9):
    """Rows of an int8 matrix times x, shifted and saturated."""
    return [sat8(dot(row, x) >> shift) for row in matrix]


def norm(x, gain, mult=5, eps=16):
    """The toy's normalisation."""
    root = max(1, isqrt(dot(x, x) + eps))
    return [sat8(divide(mult * v * g, root)) for v, g in zip(x, gain)]


def swiglu(gate, up):
    """The toy's gated activation."""
    return [sat8((TOY_SILU[g + 128] * u) >> 6) for g, u in zip(gate, up)]


def attend(q, keys, values):
    """The toy's attention over the visible keys."""
    scores = [sat8(dot(q, k) >> 9) for k in keys]
    top = max(scores)
    powers = [TOY_EXP[top - s] for s in scores]
    total = sum(powers)
    shares = [(127 * e + total // 2) // total for e in powers]
    return [sat8(dot(shares, column) >> 7) for column in zip(*values)]


def add(x, y):
    """A saturating int8 sum."""
    return [sat8(a + b) for a, b in zip(x, y)]


class Session:
    """A sequence fed token by token."""

    def __init__(self, model):
        self.model = model
        self.cache = [([], []) for _ in range(LAYERS)]

    def feed(self, token):
        """Feeds one id; returns the 48 logits after it."""
        w = self.model
        x = w['embed'][0][token]
        for layer, (keys, values) in enumerate(self.cache):
            h = norm(x, w['rms1'][layer][0])
            keys.append(gemm(w['wk'][layer], h))
            values.append(gemm(w['wv'][layer], h))
            x = add(x, gemm(w['wo'][layer], attend(gemm(w['wq'][layer], h), keys, values)))
            h = norm(x, w['rms2'][layer][0])
            gate, up = gemm(w['wgate'][layer], h), gemm(w['wup'][layer], h)
            x = add(x, gemm(w['wdown'][layer], swiglu(gate, up)))
        return gemm(w['wlm'][0], norm(x, w['rmsf'][0][0]))


def check(prompt, count):
    """Raises the Halt of a refused call."""
    if not prompt:
        raise Halt('EmptyPrompt')
    if len(prompt) + count > MAX_TOKENS:
        raise Halt('ContextExceeded')
    for position, token in enumerate(prompt):
        if not 0 <= token < VOCAB:
            raise Halt('TokenOutOfRange', position, token)


def logits(model, prompt):
    """The 48 logits after a prompt."""
    check(prompt, 0)
    session = Session(model)
    return [session.feed(token) for token in prompt][-1]


def generate(model, prompt, count):
    """Prompt and `count` greedy ids after it, as one list. Raises Halt."""
    tokens = list(prompt)
    check(tokens, count)
    session, row = Session(model), []
    for token in tokens:
        row = session.feed(token)
    for made in range(count):
        token = row.index(max(row))
        tokens.append(token)
        if made + 1 < count:
            row = session.feed(token)
    return tokens


class CallError(Exception):
    """A refused packed call: args[0] is the error's name (7.9)."""


SELECTOR = b'\x01\0\0\0'
MAX_NEW = 64


def call_gas(data):
    """The price of a packed call (7.9)."""
    asked = int.from_bytes(data[4:8], 'big') if len(data) >= 8 else 0
    return 100000 + 50000 * min(asked, MAX_NEW)


def packed_call(model, data, gas):
    """The output of a packed call with so much gas; raises CallError (7.9)."""
    words, rest = divmod(len(data), 4)
    ids = [int.from_bytes(data[4 * i:4 * i + 4], 'big') for i in range(2, words)]
    asked = int.from_bytes(data[4:8], 'big')
    for refused, name in ((gas < call_gas(data), 'OutOfGas'), (len(data) < 4, 'InputTooShort'), (data[:4] != SELECTOR, 'UnknownSelector'),
                          (len(data) < 12, 'InputTooShort'), (rest != 0, 'InputNotWords'), (asked > MAX_NEW, 'TooManyNewTokens'),
                          (len(ids) + asked > MAX_TOKENS, 'SequenceTooLong'), (any(i >= VOCAB for i in ids), 'TokenOutOfRange')):
        if refused:
            raise CallError(name)
    return b''.join([token.to_bytes(4, 'big') for token in generate(model, ids, asked)])
