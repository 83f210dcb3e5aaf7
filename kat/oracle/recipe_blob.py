"""The bytes of a recipe blob (spec 7.5)."""
import struct

import blob
from hadamard import had_block, pow2_block
from ops import INT16_MAX, INT32_MAX, sat
from rows import WORD, Stream
from strict_json import integer, integers, members, need, text
from tables import DIGESTS

SEED_STEP = 0xD1B54A32D192ED03
MAX_BLOB = 1 << 24
STYLES = ('plausible', 'extreme', 'zero')
FIELDS = ('scheme',) + blob.DIMENSIONS + ('qk_norm', 'tied', 'eps', 'stop_ids')


def parse(recipe):
    """(config, style, seed) of a recipe's JSON."""
    members(recipe, ('config', 'style', 'seed'))
    given = members(recipe['config'], FIELDS)
    c = {name: integer(given[name], 0, WORD, name) for name in FIELDS if name not in ('scheme', 'stop_ids')}
    c['stop_ids'] = integers(given['stop_ids'], 'stop_ids')
    schemes = {name: code for code, name in blob.SCHEMES.items()}
    need(text(given['scheme'], 'scheme') in schemes, 'the scheme is unknown')
    c['scheme'] = schemes[given['scheme']]
    need(text(recipe['style'], 'style') in STYLES, 'the style is unknown')
    try:
        blob.check_config(c)
    except blob.BadBlob as error:
        need(False, 'the configuration of the recipe: %s' % error)
    need(blob.lay_out(c, 0)[1] <= MAX_BLOB, 'a recipe blob of more than 2^24 bytes')
    return c, recipe['style'], integer(recipe['seed'], 0, WORD, 'seed')


def half_log(x):
    """Half the bit length."""
    return x.bit_length() // 2


class Maker:
    """The values of the tensors of one recipe."""

    def __init__(self, c, style, seed):
        self.c, self.style, self.seed = c, style, seed
        self.extreme = style == 'extreme'
        self.tensors = list(blob.directory(c))
        self.psh = {}
        weights = {t.name: self.weights(j, *t.shape) for j, t in enumerate(self.tensors) if t.name.endswith('.weight')}
        if c['tied']:
            self.psh['head'] = self.psh['embed']
        self.values = [weights[t.name] if t.name in weights else self.other(j, t) for j, t in enumerate(self.tensors)]

    def stream(self, j):
        """The stream of tensor number j."""
        return Stream(self.seed + j * SEED_STEP)

    def weights(self, j, rows, columns):
        """A matrix, whose psh is noted."""
        s = self.stream(j)
        if self.style == 'zero':
            matrix = [[0] * columns] * rows
        elif not self.extreme:
            matrix = [[s.draw(-127, 127) for _ in range(columns)] for _ in range(rows)]
        else:
            pattern = s.draw(0, 3)
            if pattern == 0:
                matrix = [[127] * columns] * rows
            elif pattern == 1:
                matrix = [[127 if row % 2 else -127] * columns for row in range(rows)]
            else:
                matrix = [[s.pick((-127, 127)) for _ in range(columns)] for _ in range(rows)]
        name = self.tensors[j].name[:-len('.weight')]
        self.psh[name] = max(-5, (127 * max(sum(map(abs, row)) for row in matrix)).bit_length() - 31)
        return [w for row in matrix for w in row]

    def other(self, j, tensor):
        """Any tensor but a matrix."""
        s, count = self.stream(j), tensor.shape[0]
        owner, _, kind = tensor.name.rpartition('.')
        if kind == 'mult':
            return [self.one_of(s, (1 << 30, INT32_MAX)) for _ in range(count)]
        if kind == 'shift':
            return self.shifts(s, owner, count)
        if kind == 'gain':
            return self.gains(s, count, INT16_MAX if owner == 'final_norm' else blob.GAIN_MAX)
        if kind == 'phase':
            return self.phases(s, count)
        if kind == 'static':
            return self.statics(s)
        if owner == 'head':
            return [self.psh['head']]
        return [self.psh[owner + '.' + name] for name in blob.LINEARS] + self.score(s)

    def one_of(self, s, ends):
        """An end of a range in the extreme style, else a value of the range."""
        return s.pick(ends) if self.extreme else s.draw(*ends)

    def shifts(self, s, owner, count):
        """Exponents that suit plausible weights, or those and the ends of the range."""
        c, name = self.c, owner.split('.')[-1]
        qd, ff = c['heads'] * c['head_dim'], c['intermediate']
        block = had_block(ff) if c['scheme'] == blob.STATIC else pow2_block(ff)
        before_norm = -6 if c['qk_norm'] else 1
        base = {'embed': 15, 'head': 11 + had_block(c['hidden']).bit_length(), 'q': before_norm, 'k': before_norm, 'v': 1,
                'o': 23 + half_log(qd), 'gate': 0, 'up': 0, 'down': 19 + half_log(ff) + half_log(block)}[name]
        if name != 'embed':
            base -= self.psh[owner]
        choices = (-64, 64, -32, -31, -30, base - 3, base, base + 3)
        return [sat(s.pick(choices) if self.extreme else s.draw(base, base + 1), 64) for _ in range(count)]

    def gains(self, s, count, limit):
        """Gains of a norm."""
        if self.style == 'zero':
            return [0] * count
        if self.extreme:
            return [s.pick((-limit, limit, 0, 1)) for _ in range(count)]
        out = []
        for _ in range(count):
            size = s.draw(limit // 4, limit)
            out.append(size * s.pick((1, 1, 1, -1)))
        return out

    def phases(self, s, count):
        """Rotary frequencies."""
        out = []
        for i in range(count):
            if self.extreme:
                value, word, mask = s.pick((0, WORD, 1 << 63, 1)), s.word(), s.pick((0, WORD))
                out.append(value ^ (word & mask))
            else:
                out.append((2935890503282001226 >> (13 * i // count)) ^ (s.word() >> 20))
        return out

    def statics(self, s):
        """The constants of a static layer."""
        if self.extreme:
            norm, row, down = (1, 1 << 16, 1 << 15), (1, INT32_MAX, 1 << 27), (0, 39, 6)
            return [s.pick(choices) for choices in (norm, norm, row, down, row)]
        norm, row, down = (1 << 14, 1 << 16), (1 << 25, 1 << 28), (2, 8)
        return [s.draw(*ends) for ends in (norm, norm, row, down, row)]

    def score(self, s):
        """score_mult and score_shift."""
        half = half_log(self.c['head_dim'])
        base = 35 - half if self.c['qk_norm'] else 29 + half
        mult = self.one_of(s, (1 << 30, INT32_MAX))
        return [mult, s.pick((0, 61, 13, base)) if self.extreme else s.draw(base - 1, base)]


def _string(text_):
    raw = text_.encode()
    return struct.pack('<I', len(raw)) + raw


def _manifest(entries):
    parts = [struct.pack('<II', 0, len(entries))]
    for e in entries:
        parts.append(_string(e.name) + struct.pack('<BI%dIQQ' % len(e.shape), e.dtype, len(e.shape), *e.shape, e.offset, e.length))
    return b''.join(parts)


def write(c, values):
    """The blob of a configuration and its tensors' values, in directory order; no metadata, no tokenizer."""
    manifest_len = len(_manifest(blob.lay_out(c, 0)[0]))
    entries, end = blob.lay_out(c, manifest_len)
    need(end <= MAX_BLOB, 'a recipe blob of more than 2^24 bytes')
    out = bytearray(end)
    stops = c['stop_ids']
    record = b'BLUEBLOB' + struct.pack('<IIBQI', 1, 1, c['scheme'], end, manifest_len)
    record += struct.pack('<9IBBQ', *[c[name] for name in blob.DIMENSIONS], c['qk_norm'], c['tied'], c['eps'])
    record += b''.join(DIGESTS.values()) + bytes(32) + struct.pack('<%dI' % (1 + len(stops)), len(stops), *stops)
    out[:len(record)] = record
    out[blob.RECORD:blob.RECORD + manifest_len] = _manifest(entries)
    for e, tensor in zip(entries, values):
        struct.pack_into('<%d%s' % (len(tensor), blob.TYPES[e.dtype][0]), out, e.offset, *tensor)
    return bytes(out)


def make(recipe):
    """The bytes of a recipe's blob."""
    c, style, seed = parse(recipe)
    return write(c, Maker(c, style, seed).values)
