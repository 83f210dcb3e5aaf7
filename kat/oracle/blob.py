"""Reading a blob (spec 4): every byte is accounted for or the blob is refused with `BadBlob`."""
import struct
import sys
from array import array
from collections import namedtuple

import hadamard
from ops import INT16_MAX, INT32_MAX
from packed import PackedMatrix
from tables import DIGESTS

RECORD, ALIGN = 1024, 64
DYNAMIC, STATIC = 1, 2
SCHEMES = {DYNAMIC: 'dynamic', STATIC: 'static'}
INT8, INT16, INT32, UINT64 = range(4)
TYPES = {INT8: ('b', 1), INT16: ('h', 2), INT32: ('i', 4), UINT64: ('Q', 8)}
DIMENSIONS = ('hidden', 'layers', 'heads', 'kv_heads', 'head_dim', 'intermediate', 'vocab', 'accepted_ids', 'max_context')
LINEARS = ('q', 'k', 'v', 'o', 'gate', 'up', 'down')
GAIN_MAX = INT16_MAX << 15


class BadBlob(Exception):
    """The bytes are not a blob. The message names what is wrong."""


def refuse_unless(holds, what):
    """Raises BadBlob unless the statement holds."""
    if not holds:
        raise BadBlob(what)


class Cursor:
    """Sequential little-endian reading with a bound on every length."""

    def __init__(self, data, start, end):
        self.data, self.at, self.end = data, start, end

    def take(self, count):
        refuse_unless(count <= self.end - self.at, 'truncated at byte %d' % self.at)
        self.at += count
        return bytes(self.data[self.at - count:self.at])

    def u8(self):
        return self.take(1)[0]

    def u32(self):
        return struct.unpack('<I', self.take(4))[0]

    def u64(self):
        return struct.unpack('<Q', self.take(8))[0]

    def string(self, limit):
        """A UTF-8 string of at most `limit` bytes, as its bytes."""
        length = self.u32()
        refuse_unless(length <= limit, 'a string of %d bytes, at most %d' % (length, limit))
        raw = self.take(length)
        try:
            raw.decode('utf-8')
        except UnicodeDecodeError:
            raise BadBlob('a string is not UTF-8') from None
        return raw


def check_config(c):
    """Refuses what 3.1 does not allow."""
    bounds = {'hidden': (1, 8192), 'layers': (1, 256), 'heads': (1, 256), 'kv_heads': (1, c['heads']), 'head_dim': (2, 256),
              'intermediate': (1, 65536), 'vocab': (1, 1 << 20), 'accepted_ids': (1, c['vocab']), 'max_context': (1, 32768),
              'qk_norm': (0, 1), 'tied': (0, 1), 'eps': (0, (1 << 53) - 1)}
    for name, (low, high) in bounds.items():
        refuse_unless(low <= c[name] <= high, '%s is %d, not in %d..=%d' % (name, c[name], low, high))
    refuse_unless(c['head_dim'] % 2 == 0, 'head_dim is odd')
    refuse_unless(c['heads'] % c['kv_heads'] == 0, 'kv_heads does not divide heads')
    refuse_unless(c['heads'] * c['head_dim'] <= 16384, 'heads * head_dim exceeds 16384')
    stops = c['stop_ids']
    refuse_unless(len(stops) <= 16, 'more than 16 stop ids')
    refuse_unless(list(stops) == sorted(set(stops)), 'stop ids are not strictly ascending')
    refuse_unless(not stops or stops[-1] < c['accepted_ids'], 'a stop id is not an accepted id')


def read_record(data):
    """The configuration in the first 1024 bytes (4.1), with total_len, manifest_len and tokenizer_digest."""
    refuse_unless(len(data) >= RECORD, 'shorter than a record')
    r = Cursor(data, 0, RECORD)
    refuse_unless(r.take(8) == b'BLUEBLOB', 'magic')
    refuse_unless(r.u32() == 1, 'format_version')
    refuse_unless(r.u32() == 1, 'spec_version')
    c = {'scheme': r.u8()}
    refuse_unless(c['scheme'] in SCHEMES, 'scheme')
    c['total_len'], c['manifest_len'] = r.u64(), r.u32()
    for name in DIMENSIONS:
        c[name] = r.u32()
    c['qk_norm'], c['tied'], c['eps'] = r.u8(), r.u8(), r.u64()
    for name, digest in DIGESTS.items():
        refuse_unless(r.take(32) == digest, 'digest of the table ' + name)
    c['tokenizer_digest'] = r.take(32)
    count = r.u32()
    refuse_unless(count <= 16, 'more than 16 stop ids')
    c['stop_ids'] = [r.u32() for _ in range(count)]
    refuse_unless(not any(data[r.at:RECORD]), 'record padding is not zero')
    refuse_unless(c['manifest_len'] <= 1 << 22, 'manifest_len')
    check_config(c)
    return c


Tensor = namedtuple('Tensor', 'name dtype shape')
Entry = namedtuple('Entry', 'name dtype shape offset length')


def directory(c):
    """The tensors that a configuration implies, in file order (4.3)."""
    n, ff, width = c['hidden'], c['intermediate'], c['head_dim']
    rows = {'q': c['heads'] * width, 'k': c['kv_heads'] * width, 'v': c['kv_heads'] * width, 'o': n, 'gate': ff, 'up': ff, 'down': n}

    def channels(name, count):
        yield Tensor(name + '.mult', INT32, (count,))
        yield Tensor(name + '.shift', INT8, (count,))

    def linear(name, count, columns):
        yield Tensor(name + '.weight', INT8, (count, columns))
        yield from channels(name, count)

    yield from linear('embed', c['vocab'], n)
    yield Tensor('rope.phase', UINT64, (width // 2,))
    for i in range(c['layers']):
        layer = 'layers.%d.' % i
        yield Tensor(layer + 'consts', INT32, (9,))
        if c['scheme'] == STATIC:
            yield Tensor(layer + 'static', INT32, (5,))
        for name in LINEARS:
            if name == 'o' and c['qk_norm']:
                yield Tensor(layer + 'q_norm.gain', INT32, (width,))
                yield Tensor(layer + 'k_norm.gain', INT32, (width,))
            yield from linear(layer + name, rows[name], input_width(c, name))
    yield Tensor('final_norm.gain', INT16, (n,))
    yield Tensor('head.consts', INT32, (1,))
    yield from (channels('head', c['vocab']) if c['tied'] else linear('head', c['vocab'], n))


def input_width(c, name):
    """The number of columns of a layer's linear."""
    return {'o': c['heads'] * c['head_dim'], 'down': c['intermediate']}.get(name, c['hidden'])


def lay_out(c, manifest_len):
    """(entries with offsets and lengths, length of the file)."""
    entries, end = [], RECORD + manifest_len
    for name, dtype, shape in directory(c):
        offset = -(-end // ALIGN) * ALIGN
        length = TYPES[dtype][1]
        for extent in shape:
            length *= extent
        entries.append(Entry(name, dtype, shape, offset, length))
        end = offset + length
    return entries, end


def read_manifest(data, c):
    """(metadata, entries) of a manifest that is exactly the one the record implies (4.2)."""
    r = Cursor(data, RECORD, RECORD + c['manifest_len'])
    count = r.u32()
    refuse_unless(count <= 64, 'more than 64 metadata pairs')
    metadata = {}
    previous = b''
    for _ in range(count):
        key, value = r.string(64), r.string(4096)
        refuse_unless(key > previous, 'metadata keys are not strictly ascending, or one is empty')
        metadata[key.decode('utf-8')] = value.decode('utf-8')
        previous = key
    entries, end = lay_out(c, c['manifest_len'])
    refuse_unless(r.u32() == len(entries), 'number of tensors')
    for e in entries:
        raw = e.name.encode()
        form = struct.pack('<I%dsBI%dIQQ' % (len(raw), len(e.shape)), len(raw), raw, e.dtype, len(e.shape), *e.shape, e.offset, e.length)
        refuse_unless(r.take(len(form)) == form, 'directory entry of ' + e.name)
    refuse_unless(r.at == r.end, 'the manifest is longer than its content')
    refuse_unless(end == c['total_len'], 'total_len is not the end of the last tensor')
    return metadata, entries


def read_tensors(data, c, entries):
    """name -> array of values; the gaps must be zero."""
    tensors, end = {}, RECORD + c['manifest_len']
    for e in entries:
        refuse_unless(not any(data[end:e.offset]), 'the gap before %s is not zero' % e.name)
        end = e.offset + e.length
        values = array(TYPES[e.dtype][0])
        values.frombytes(data[e.offset:end])
        if sys.byteorder == 'big':
            values.byteswap()
        tensors[e.name] = values
    return tensors


def check_range(tensors, name, low, high):
    """The tensor, after 4.5's check of each value."""
    values = tensors[name]
    if min(values) < low or max(values) > high:
        index = next(i for i, v in enumerate(values) if not low <= v <= high)
        raise BadBlob('%s[%d] is %d, not in %d..=%d' % (name, index, values[index], low, high))
    return values


class Linear:
    """int8 codes, a multiplier and a shift for each row (3.2); with a psh, which an embedding lacks, also their product."""

    def __init__(self, tensors, name, columns, psh, weight=None):
        flat = check_range(tensors, (weight or name) + '.weight', -127, 127)
        self._flat, self._columns = flat, columns
        self.mult = check_range(tensors, name + '.mult', 1 << 30, INT32_MAX)
        self.shift = check_range(tensors, name + '.shift', -64, 64)
        self.psh = psh
        if psh is not None:
            self.packed = PackedMatrix(flat.tobytes(), columns)
            right = max(-5, (127 * max(self.packed.row_weights)).bit_length() - 31)
            refuse_unless(psh == right, 'psh of %s is %d, not %d' % (name, psh, right))

    def row(self, index):
        """The codes of one row."""
        return self._flat[index * self._columns:(index + 1) * self._columns]


class Statics:
    """The five constants of a layer of the static scheme (4.3)."""

    RANGES = (('c_attn_norm', 1, 1 << 16), ('c_mlp_norm', 1, 1 << 16), ('m_o', 1, INT32_MAX), ('c_down', 0, 39), ('m_down', 1, INT32_MAX))

    def __init__(self, name, values):
        for (field, low, high), value in zip(self.RANGES, values):
            refuse_unless(low <= value <= high, '%s: %s is %d, not in %d..=%d' % (name, field, value, low, high))
            setattr(self, field, value)


class Layer:
    """One layer's linears, constants and gains."""

    def __init__(self, c, tensors, index):
        prefix = 'layers.%d.' % index
        consts = tensors[prefix + 'consts']
        for name, psh in zip(LINEARS, consts):
            setattr(self, name, Linear(tensors, prefix + name, input_width(c, name), psh))
        self.score_mult, self.score_shift = consts[7], consts[8]
        refuse_unless(1 << 30 <= self.score_mult <= INT32_MAX, prefix + 'consts: score_mult')
        refuse_unless(0 <= self.score_shift <= 61, prefix + 'consts: score_shift')
        self.statics = Statics(prefix + 'static', tensors[prefix + 'static']) if c['scheme'] == STATIC else None
        self.q_gain = self.k_gain = None
        if c['qk_norm']:
            self.q_gain = check_range(tensors, prefix + 'q_norm.gain', -GAIN_MAX, GAIN_MAX)
            self.k_gain = check_range(tensors, prefix + 'k_norm.gain', -GAIN_MAX, GAIN_MAX)


class Weights:
    """Everything of an accepted blob."""

    def __init__(self, data):
        self.config = c = read_record(data)
        refuse_unless(c['total_len'] == len(data), 'total_len is %d, the file has %d bytes' % (c['total_len'], len(data)))
        refuse_unless(RECORD + c['manifest_len'] <= len(data), 'manifest_len')
        self.metadata, entries = read_manifest(data, c)
        tensors = read_tensors(data, c, entries)
        n = c['hidden']
        self.embed = Linear(tensors, 'embed', n, None)
        self.rope_phase = tensors['rope.phase']
        self.layers = [Layer(c, tensors, i) for i in range(c['layers'])]
        self.final_gain = check_range(tensors, 'final_norm.gain', -INT16_MAX, INT16_MAX)
        self.head = Linear(tensors, 'head', n, tensors['head.consts'][0], 'embed' if c['tied'] else None)
        self.hidden_block = hadamard.had_block(n)
        self.head_block = hadamard.had_block(c['head_dim'])
        ff = c['intermediate']
        self.down_block = hadamard.had_block(ff) if c['scheme'] == STATIC else hadamard.pow2_block(ff)


def read_blob(data):
    """The weights of a blob's bytes. Raises BadBlob and nothing else."""
    return Weights(bytes(data))
