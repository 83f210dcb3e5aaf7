"""Keccak-256 (spec 5: the original padding 0x01) of many messages at once.

The lane (x, y) of every message's state lies in one wide integer, message j in bits
[64 j, 64 j + 64), so each step of the permutation is one operation on a wide integer for
all messages. The constants are derived from the definition in FIPS 202, section 3.2.
"""
RATE = 136
_BATCH = 64
_LANE = (1 << 64) - 1
_ENDED = bytes(8)


def _round_constants():
    """FIPS 202, algorithms 5 and 6: bit 2^j - 1 of constant i is rc(j + 7 i)."""
    bits, register = [], [1, 0, 0, 0, 0, 0, 0, 0]
    for _ in range(255):
        bits.append(register[0])
        register = [0] + register
        last = register.pop()
        for tap in (0, 4, 5, 6):
            register[tap] ^= last
    return [sum(bits[j + 7 * i] << ((1 << j) - 1) for j in range(7)) for i in range(24)]


def _rho_pi():
    """(source lane, target lane, rotation) of the 25 lanes; lane (x, y) has number x + 5 y."""
    rotation = {(0, 0): 0}
    x, y = 1, 0
    for t in range(24):
        rotation[x, y] = (t + 1) * (t + 2) // 2 % 64
        x, y = y, (2 * x + 3 * y) % 5
    return [(x + 5 * y, y + 5 * ((2 * x + 3 * y) % 5), n) for (x, y), n in rotation.items()]


ROUND_CONSTANTS = _round_constants()
_MOVES = _rho_pi()
_CHI = [(x + 5 * y, (x + 1) % 5 + 5 * y, (x + 2) % 5 + 5 * y) for y in range(5) for x in range(5)]
_masks = {}


def _masks_of(count):
    """For `count` messages: the round constants, the masks of a rotation by one, and the 25 moves with theirs.

    A rotation moves all lanes up at once and masks what crossed into the next lane; what it lost returns from below.
    """
    if count not in _masks:
        ones = ((1 << 64 * count) - 1) // _LANE
        masks = [(ones * (_LANE ^ ((1 << n) - 1)), ones * ((1 << n) - 1)) for n in range(64)]
        moves = [(source, source % 5, target, n, 64 - n) + masks[n] for source, target, n in _MOVES]
        _masks[count] = ([ones * constant for constant in ROUND_CONSTANTS], masks[1], moves)
    return _masks[count]


def _permute(a, count):
    constants, (high1, low1), moves = _masks_of(count)
    b = [0] * 25
    for constant in constants:
        c0, c1, c2, c3, c4 = [a[x] ^ a[x + 5] ^ a[x + 10] ^ a[x + 15] ^ a[x + 20] for x in range(5)]
        t0, t1, t2, t3, t4 = [((v << 1) & high1) | ((v >> 63) & low1) for v in (c0, c1, c2, c3, c4)]
        d = (c4 ^ t1, c0 ^ t2, c1 ^ t3, c2 ^ t4, c3 ^ t0)
        for source, x, target, n, m, high, low in moves:
            v = a[source] ^ d[x]
            b[target] = ((v << n) & high) | ((v >> m) & low)
        a = [b[i] ^ b[k] ^ (b[j] & b[k]) for i, j, k in _CHI]
        a[0] ^= constant
    return a


def _pad(message):
    short = RATE - len(message) % RATE
    return bytes(message) + (b'\x81' if short == 1 else b'\x01' + bytes(short - 2) + b'\x80')


def _digest_batch(padded):
    """Digests of padded messages of any lengths; one that has ended absorbs zeros, unread."""
    count = len(padded)
    ends = [len(m) for m in padded]
    digests = [b''] * count
    a = [0] * 25
    for block in range(0, max(ends), RATE):
        for lane in range(RATE // 8):
            at = block + 8 * lane
            a[lane] ^= int.from_bytes(b''.join([m[at:at + 8] or _ENDED for m in padded]), 'little')
        a = _permute(a, count)
        if block + RATE in ends:
            lanes = [v.to_bytes(8 * count, 'little') for v in a[:4]]
            for j, end in enumerate(ends):
                if end == block + RATE:
                    digests[j] = b''.join([lane[8 * j:8 * j + 8] for lane in lanes])
    return digests


def keccak256_many(messages):
    """The 32-byte digests of the messages, in order."""
    padded = [_pad(m) for m in messages]
    digests = [b''] * len(padded)
    by_length = sorted(range(len(padded)), key=lambda i: len(padded[i]))
    for start in range(0, len(by_length), _BATCH):
        batch = by_length[start:start + _BATCH]
        for index, digest in zip(batch, _digest_batch([padded[i] for i in batch])):
            digests[index] = digest
    return digests


def keccak256(message):
    """The 32-byte digest of one message."""
    return keccak256_many([message])[0]


def row_digest(values):
    """The hexadecimal digest of integers as consecutive little-endian int64 (7.3)."""
    return keccak256(int64_bytes(values)).hex()


def int64_bytes(values):
    """Integers as consecutive little-endian 64-bit words, modulo 2^64."""
    return b''.join([(v & _LANE).to_bytes(8, 'little') for v in values])


def int32_bytes(values):
    """Integers as consecutive little-endian 32-bit words, modulo 2^32."""
    return b''.join([(v & 0xFFFFFFFF).to_bytes(4, 'little') for v in values])
