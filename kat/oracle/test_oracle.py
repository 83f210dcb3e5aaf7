"""The oracle's own laws. Run: python3 kat/oracle/test_oracle.py"""
import copy
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import blob  # noqa: E402
import cli  # noqa: E402
import commitment  # noqa: E402
import exact  # noqa: E402
import hadamard  # noqa: E402
import ops  # noqa: E402
import recipe_blob  # noqa: E402
import report  # noqa: E402
import tables  # noqa: E402
import toy  # noqa: E402
import verify  # noqa: E402
from keccak import int32_bytes, keccak256, keccak256_many, row_digest  # noqa: E402
from model import Halt, Model  # noqa: E402
from operations import evaluate  # noqa: E402
from packed import PackedMatrix  # noqa: E402
from rows import Budget, Stream, expand  # noqa: E402
from strict_json import BadFile, integer, parse  # noqa: E402
from tracing import DigestRun, lines  # noqa: E402

TABLES = os.path.join(cli.HOME, 'int-engine', 'tables')
DEFAULT_MODEL = os.path.join(cli.HOME, 'models', 'default', 'blue-tiny.blob')
CONFIG = {'scheme': 'dynamic', 'hidden': 12, 'layers': 2, 'heads': 2, 'kv_heads': 1, 'head_dim': 4, 'intermediate': 24, 'vocab': 20,
          'accepted_ids': 18, 'max_context': 12, 'qk_norm': 1, 'tied': 0, 'eps': 3, 'stop_ids': []}


def recipe(style='plausible', seed=1, **changes):
    """A recipe of a small model."""
    return {'config': dict(CONFIG, **changes), 'style': style, 'seed': seed}


def model_of(given):
    """The model of a recipe."""
    return Model(blob.read_blob(recipe_blob.make(given)))


def quietly(argv):
    """(exit status, standard output, standard error) of the program."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = cli.main(argv)
    return status, out.getvalue(), err.getvalue()


class Arithmetic(unittest.TestCase):
    def test_square_root(self):
        r = random.Random(1)
        for n in list(range(70)) + [(1 << 62) - 1] + [r.getrandbits(r.randrange(1, 63)) for _ in range(2000)]:
            root = exact.isqrt(n)
            self.assertTrue(root * root <= n < (root + 1) ** 2, n)

    def test_rdbpot_is_nearest_with_ties_away_from_zero(self):
        self.assertEqual([ops.rdbpot(x, 1) for x in (-3, -2, -1, 0, 1, 2, 3)], [-2, -1, -1, 0, 1, 1, 2])
        self.assertEqual([ops.rdbpot(1 << 62, e) for e in (0, 61, 62, 63, 10 ** 9)], [1 << 62, 2, 1, 0, 0])
        r = random.Random(2)
        for _ in range(2000):
            x, e = r.randrange(-(1 << 62), 1 << 62) >> r.randrange(62), r.randrange(1, 63)
            y = ops.rdbpot(x, e)
            self.assertTrue(abs((y << e) - x) << 1 <= 1 << e and ops.rdbpot(-x, e) == -y)

    def test_srdhm_has_the_single_shift_form(self):
        r = random.Random(3)
        ends = [0, 1, -1, 1 << 30, -(1 << 30), ops.INT32_MAX, -ops.INT32_MAX, -ops.INT32_MAX - 1]
        pairs = [(a, b) for a in ends for b in ends] + [(r.randrange(-(1 << 31), 1 << 31), r.randrange(-(1 << 31), 1 << 31)) for _ in range(2000)]
        for a, b in pairs:
            self.assertEqual(ops.srdhm(a, b), min(ops.INT32_MAX, (a * b + (1 << 30)) >> 31))

    def test_token_scales_and_codes_keep_their_bounds(self):
        r = random.Random(4)
        for _ in range(1000):
            bits = r.randrange(1, 32)
            u = [r.randrange(1 - (1 << bits), 1 << bits) for _ in range(r.randrange(1, 9))]
            codes, m = ops.dynq(u)
            self.assertTrue(max(map(abs, codes)) == (127 if m else 0))
            root, e = ops.rms(u, r.getrandbits(53))
            self.assertTrue(1 << 30 <= root < 1 << 31 and -7 <= e <= 30)
            t, te = ops.ratio(m, root, e)
            self.assertTrue(t == te == 0 if m == 0 else 1 << 30 <= t < 1 << 31 and -31 <= te <= 37)
            self.assertEqual(ops.norm_scale(m), (0, 0) if m == 0 else (m << (31 - m.bit_length()), -m.bit_length()))

    def test_angles_keep_the_stated_norm(self):
        largest = 0
        for index in range(0, 1 << 18, 7):
            cos, sin = ops.rope_angle(index << 46, 1)
            largest = max(largest, cos * cos + sin * sin)
        self.assertTrue(16383 ** 2 < largest <= 268458250, largest)
        self.assertEqual([ops.rope_angle(1 << 62, p) for p in range(4)], [(16384, 0), (0, 16384), (-16384, 0), (0, -16384)])

    def test_attention_of_one_key_returns_its_value(self):
        out = ops.attend([127] * 4, 32767, [[127] * 4], [32767], [[127, -127, 1, 0]], [256], 1 << 30, 0)
        # In units of s_v / (256 * 127) a lone value v of magnitude m is v * m * 256, up to the reciprocal's floor.
        for v, y in zip((127, -127, 1, 0), out):
            self.assertLessEqual(abs(y - v * 256 * 256), 1)

    def test_packed_products_are_dot_products(self):
        r = random.Random(5)
        for rows, columns in ((1, 1), (3, 7), (17, 64), (2, 65536)):
            weights = [r.choice((-127, 127, r.randrange(-127, 128))) for _ in range(rows * columns)]
            codes = [r.choice((-127, 127)) for _ in range(columns)]
            packed = PackedMatrix(bytes(w & 255 for w in weights), columns)
            by_row = [weights[i:i + columns] for i in range(0, len(weights), columns)]
            self.assertEqual(packed.product(codes), [ops.dot(row, codes) for row in by_row])
            self.assertEqual(list(packed.row_weights), [sum(map(abs, row)) for row in by_row])


class Hadamard(unittest.TestCase):
    def test_orthogonality(self):
        for n in (1, 2, 8, 12, 20, 24, 40, 48, 144, 240, 400):
            unit = [[int(i == j) for i in range(n)] for j in range(n)]
            rows = [hadamard.had_forward(e, n) for e in unit]
            self.assertTrue(all(v in (1, -1) for row in rows for v in row))
            self.assertEqual(hadamard.had_transpose(rows[-1], n), [0] * (n - 1) + [n])
            self.assertEqual([hadamard.had_transpose(e, n)[0] for e in unit], rows[0])
            for i in range(min(n, 25)):
                for j in range(i):
                    self.assertEqual(ops.dot(rows[i], rows[j]), 0)

    def test_blocks(self):
        known = {1: 1, 3: 1, 6: 2, 12: 12, 36: 12, 60: 20, 72: 24, 144: 144, 1536: 1536, 3072: 3072, 240: 240, 65536: 65536, 7: 1}
        for n, block in known.items():
            self.assertEqual(hadamard.had_block(n), block, n)
        for n in range(1, 2000):
            self.assertEqual(hadamard.had_block(n), max(d for d in range(1, n + 1) if n % d == 0 and hadamard.factors(d) is not None))

    def test_blocks_without_a_matrix_are_refused(self):
        for block in (3, 7, 28, 36, 60):
            self.assertRaises(ValueError, hadamard.had_forward, [0] * block, block)


class Hashes(unittest.TestCase):
    def test_known_digests(self):
        self.assertEqual(keccak256(b'').hex(), 'c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470')
        self.assertEqual(keccak256(b'abc').hex(), '4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45')

    def test_many_messages_equal_single_ones(self):
        r = random.Random(6)
        messages = [bytes(r.randrange(256) for _ in range(n)) for n in (0, 1, 134, 135, 136, 137, 271, 272, 273, 1000) for _ in range(8)]
        self.assertEqual(keccak256_many(messages), [keccak256(m) for m in messages])
        self.assertEqual(keccak256_many([]), [])

    def test_tables(self):
        self.assertEqual(tables.check(), [])
        if os.path.isdir(TABLES):
            for name, content in tables.FILES.items():
                with open(os.path.join(TABLES, name), 'rb') as file:
                    self.assertEqual(file.read(), content, name)

    def test_proofs(self):
        r = random.Random(7)
        for count in list(range(2, 10)) + [16, 17, 33]:
            size = 1024 + 65536 * (count - 2) + r.choice((1, 65536))
            hashes = [bytes([i, count]) * 16 for i in range(count)]
            self.assertEqual(len(commitment.chunk_bounds(size)), count)
            root = commitment.tree_root(hashes)
            for index in range(count):
                proof = commitment.prove(hashes, index)
                self.assertEqual(commitment.root_from_proof(hashes[index], index, count, proof), root)
                self.assertIsNone(commitment.root_from_proof(hashes[index], index, count, proof[:-1]))
                self.assertIsNone(commitment.root_from_proof(hashes[index], index, count, proof + [root]))
                damaged = proof[:-1] + [keccak256(proof[-1])]
                self.assertNotEqual(commitment.root_from_proof(hashes[index], index, count, damaged), root)

    def test_chunks_verify_against_the_commitment(self):
        data = recipe_blob.make(recipe(vocab=1700, accepted_ids=10, hidden=40))
        hashes, whole = commitment.leaves(data), commitment.commitment(data)
        self.assertGreater(len(hashes), 2)
        for index, (a, b) in enumerate(commitment.chunk_bounds(len(data))):
            proof = commitment.prove(hashes, index)
            self.assertTrue(commitment.verify_chunk(whole, len(data), index, data[a:b], proof))
            for total, i, chunk, p in ((len(data) + 1, index, data[a:b], proof), (len(data), index + 1, data[a:b], proof), (0, index, data[a:b], proof),
                                       (len(data), -1, data[a:b], proof), (len(data), index, data[a:b - 1], proof), (1 << 64, 0, data[:1024], proof),
                                       (len(data), index, bytes(b - a), proof), (len(data), index, data[a:b], proof + proof)):
                self.assertFalse(commitment.verify_chunk(whole, total, i, chunk, p))


class Blobs(unittest.TestCase):
    def test_random_edits_are_refused_or_run_inside_every_domain(self):
        r, accepted = random.Random(8), 0
        for scheme in ('dynamic', 'static'):
            data = recipe_blob.make(recipe(scheme=scheme, layers=1, hidden=4, heads=1, head_dim=2, intermediate=4, vocab=5, accepted_ids=4))
            manifest_end = struct.unpack_from('<I', data, 25)[0] + 1024
            regions = ((0, 300), (1024, manifest_end), (manifest_end, len(data)), (0, len(data)))
            for _ in range(800):
                out = bytearray(data)
                for _ in range(r.randrange(1, 4)):
                    out[r.randrange(*r.choice(regions))] = r.choice((0, 1, 127, 128, 255, r.randrange(256)))
                if r.randrange(10) == 0:
                    out = out[:r.randrange(len(out))] if r.randrange(2) else out + bytes(r.randrange(1, 70))
                try:
                    weights = blob.read_blob(out)
                except blob.BadBlob:
                    continue
                accepted += bytes(out) != data
                model = Model(weights)
                model.generate([0] if weights.config['max_context'] else [], min(3, weights.config['max_context']))
        self.assertGreater(accepted, 20)

    def test_every_length_but_the_right_one_is_refused(self):
        data = recipe_blob.make(recipe())
        for length in list(range(0, len(data), 61)) + [1023, 1024, 1025, len(data) - 1]:
            self.assertRaises(blob.BadBlob, blob.read_blob, data[:length])
        self.assertRaises(blob.BadBlob, blob.read_blob, data + b'\0')

    def test_styles_and_shapes_stay_inside_every_domain(self):
        r = random.Random(9)
        for style in recipe_blob.STYLES:
            for scheme in ('dynamic', 'static'):
                for hidden, width, ff, norm, tied in ((1, 2, 1, 0, 1), (24, 12, 40, 1, 0), (20, 6, 48, 0, 0)):
                    model = model_of(recipe(style, r.getrandbits(64), scheme=scheme, hidden=hidden, head_dim=width, intermediate=ff, qk_norm=norm,
                                            tied=tied, heads=4, kv_heads=2))
                    self.assertEqual(len(model.generate([1, 2, 3], 3)[0]), 3)

    def test_halts_and_finishes(self):
        model = model_of(recipe(max_context=5))
        for prompt, halt in (([], ('EmptyPrompt',)), ([1] * 6, ('ContextExceeded',)), ([1, 18, -1], ('TokenOutOfRange', 1, 18)),
                             ([1 << 70], ('TokenOutOfRange', 0, 1 << 70))):
            with self.assertRaises(Halt) as caught:
                model.generate(prompt, 1)
            self.assertEqual(caught.exception.args, halt)
        first = model.generate([1], 1)[0][0]
        self.assertEqual([(len(t), f) for t, f in (model.generate([1] * n, k) for n, k in ((5, 0), (5, 1), (4, 1), (4, 2), (1, 9)))],
                         [(0, 'length'), (0, 'context'), (1, 'length'), (1, 'context'), (4, 'context')])
        self.assertEqual(model_of(recipe(stop_ids=[first])).generate([1], 9), ([first], 'stop'))

    def test_recipes_out_of_bounds_are_refused(self):
        for bad in (dict(hidden=0), dict(vocab=1 << 20, accepted_ids=1), dict(scheme='other'), dict(heads=3, kv_heads=2), dict(stop_ids=[3, 3]),
                    dict(eps=True), dict(head_dim=3), dict(extra=1)):
            self.assertRaises(BadFile, recipe_blob.make, recipe(**bad))

    def test_the_published_answer(self):
        if not os.path.exists(DEFAULT_MODEL):
            self.skipTest('the default model is not here')
        with open(DEFAULT_MODEL, 'rb') as file:
            data = file.read()
        self.assertEqual(commitment.commitment(data).hex(), '92e39a68509f47a37bb597808eeda08c1205b2049c1a3b670ca421efa2162b24')
        model = Model(blob.read_blob(data))
        cache, x = model.prefill([1, 7, 13, 2, 500, 1023, 1532, 0])
        self.assertEqual(keccak256(int32_bytes(model.logits(x))).hex(), '9a03f2eb8eef86fb905d340d546cea1d4c5c149e83593803fa0f1c3a90426df4')
        self.assertEqual(model.decode(cache, x, 16),
                         ([314, 1, 1091, 262, 11, 331, 280, 304, 11, 412, 40, 446, 737, 301, 538, 359], 'length'))


class Toy(unittest.TestCase):
    def test_the_published_answer(self):
        self.assertEqual(toy.generate(toy.weights(), [1, 7, 13, 2], 10)[4:], [4, 28, 21, 17, 2, 19, 43, 35, 36, 15])

    def test_packed_calls(self):
        weights = toy.weights()
        good = bytes.fromhex('01000000' '00000002' '00000001' '00000007')
        self.assertEqual(len(toy.packed_call(weights, good, 200000)), 16)
        for data, gas, error in ((good, 199999, 'OutOfGas'), (good[:3], 10 ** 6, 'InputTooShort'), (b'\2' + good[1:], 10 ** 6, 'UnknownSelector'),
                                 (good[:11], 10 ** 6, 'InputTooShort'), (good[:13], 10 ** 6, 'InputNotWords'), (good[:15] + b'\x30', 10 ** 6, 'TokenOutOfRange'),
                                 (good[:7] + b'\x41' + good[8:], 10 ** 7, 'TooManyNewTokens'), (good[:7] + b'\x40' + bytes(4 * 193), 10 ** 7, 'SequenceTooLong')):
            with self.assertRaises(toy.CallError) as caught:
                toy.packed_call(weights, data, gas)
            self.assertEqual(caught.exception.args[0], error)


def op_file(op, *cases):
    """A level-op file."""
    return {'schema': 'blue-kat-1', 'spec_version': 1, 'level': 'op', 'op': op, 'cases': [{'name': n, 'in': i, 'out': o} for n, i, o in cases]}


def sample_files():
    """path -> value of a small valid set, made by the oracle itself."""
    given = recipe(max_context=4)
    data = recipe_blob.make(given)
    model = Model(blob.read_blob(data))
    run = DigestRun(model, [1, 2])
    tokens, finish = model.decode(run.cache, run.residual, 3)
    weights = toy.weights()
    call = bytes.fromhex('01000000' '00000001' '00000005')
    answer = toy.packed_call(weights, call, 150000).hex()
    head = {'schema': 'blue-kat-1', 'spec_version': 1}
    long_row = {'splitmix64': {'seed': '18446744073709551615', 'count': 100, 'low': -5, 'high': str(1 << 61)}}
    halved = [ops.rdbpot(v, 1) for v in expand(long_row, Budget())]
    return {
        'ops/rdbpot.json': op_file('rdbpot', ('a', {'x': [3, -3, str(1 << 62)], 'e': 1}, [2, -2, str(1 << 61)]),
                                   ('b', {'x': long_row, 'e': 1}, {'count': 100, 'keccak256': row_digest(halved)})),
        'ops/dynq.json': op_file('dynq', ('a', {'u': {'join': [[1, -2], {'fill': {'value': 4, 'count': 2}}]}}, {'q': [32, -64, 127, 127], 'm': 4})),
        'ops/requantize.json': op_file('requantize', ('a', dict(acc=[5], psh=0, scale=None, mult=[1 << 30], shift=[0], limit=32767), [3]),
                                       ('b', dict(acc=[5], psh=-1, scale=[1 << 30, -2], mult=[1 << 30], shift=[0], limit=32767), [12])),
        'models/small.json': dict(head, level='model', model={'recipe': given}, blob={'bytes': len(data), 'keccak256': keccak256(data).hex()},
                                  commitment=commitment.commitment(data).hex(),
                                  runs=[dict(name='r', prompt=[1, 2], max_new=3, layers=run.layers, logits=run.logits, tokens=tokens, finish=finish)],
                                  halts=[dict(name='h', prompt=[1, 99], max_new=1, halt='TokenOutOfRange', position=1, id=99)],
                                  edits=[dict(name='e', edit=[[0, '00']], accepted=False), dict(name='f', edit=[], length=9, accepted=False)]),
        'toy.json': dict(head, level='toy', logits=[dict(name='l', prompt=[3], logits=toy.logits(weights, [3]))],
                         tokens=[dict(name='t', prompt=[3], max_new=1, tokens=toy.generate(weights, [3], 1)[1:])],
                         halts=[dict(name='h', prompt=[], max_new=1, halt='EmptyPrompt')],
                         calls=[dict(name='c', input=call.hex(), gas=150000, output=answer), dict(name='d', input='', gas=100000, error='InputTooShort')]),
        'legacy/toy.json': [dict(Input=call.hex(), Expected=answer, Name='c', Gas=150000), dict(Input='02', ExpectedError='InputTooShort', Name='d')],
    }


def write_set(folder, files):
    """Writes the files and their index."""
    entries = []
    for path in sorted(files):
        full = os.path.join(folder, *path.split('/'))
        os.makedirs(os.path.dirname(full), exist_ok=True)
        raw = files[path] if isinstance(files[path], bytes) else json.dumps(files[path]).encode()
        with open(full, 'wb') as file:
            file.write(raw)
        level = path.split('/')[0].rstrip('s').replace('.json', '')
        cases = {'ops/rdbpot.json': 2, 'ops/dynq.json': 1, 'ops/requantize.json': 2, 'models/small.json': 6, 'toy.json': 5, 'legacy/toy.json': 2}[path]
        entries.append({'file': path, 'level': level, 'cases': cases, 'bytes': len(raw), 'keccak256': keccak256(raw).hex()})
    with open(os.path.join(folder, 'index.json'), 'w') as file:
        json.dump({'schema': 'blue-kat-1', 'spec_version': 1, 'level': 'index', 'files': entries}, file)


class Files(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = holder.name

    def verify(self, *options):
        """(exit status, rows, standard error) of the program on the folder."""
        status, out, err = quietly(['verify', self.folder, '--json'] + list(options))
        return status, json.loads(out) if out else None, err

    def test_a_valid_set_passes(self):
        write_set(self.folder, sample_files())
        status, rows, _ = self.verify()
        self.assertEqual((status, {row['result'] for row in rows}), (0, {'PASS'}), rows)
        self.assertEqual({row['target'] for row in rows}, {'oracle', 'index'})
        self.assertEqual([row['file'] for row in self.verify('--level', 'toy')[1] if row['target'] == 'oracle'], ['toy.json'])

    def test_an_empty_folder_and_none_fail(self):
        self.assertEqual(self.verify()[0], 2)
        self.assertEqual(quietly(['verify', os.path.join(self.folder, 'none')])[0], 2)

    def test_every_altered_answer_is_noticed(self):
        for path, value in sample_files().items():
            for where in answers_of(value):
                changed = copy.deepcopy(value)
                at = changed
                for step in where[:-1]:
                    at = at[step]
                old = at[where[-1]]
                at[where[-1]] = altered(old)
                try:
                    row = report.verify_file(path, changed, report.level_of(path, changed), cli.HOME, lambda what: None)
                    self.assertEqual(row['result'], 'FAIL', (path, where, old))
                except BadFile:
                    self.assertIn(where[-1], ('halt', 'halts', 'op'), (path, where, old))

    def test_the_work_of_a_model_is_bounded(self):
        run = dict(name='r', layers=[], logits=[], tokens=[], finish='length')
        fill = lambda count: {'fill': {'value': 0, 'count': count}}
        halt = dict(name='h', prompt=[], halt='EmptyPrompt')
        edits = lambda count, length: [dict(name=str(i), edit=[], length=length, accepted=False) for i in range(count)]
        for runs, halts, cut, length, fits in (
                ([dict(run, prompt=fill(4096), max_new=0)], [], [], 1 << 20, True),
                ([dict(run, prompt=fill(4096), max_new=1)], [], [], 1, False),
                ([], [dict(halt, max_new=4096)], [], 1 << 20, True),
                ([], [dict(halt, max_new=4097)], [], 1, False),
                ([], [dict(halt, max_new='18446744073709551615')], [], 0, False),
                ([dict(run, prompt=[0], max_new=127)], [dict(halt, max_new=127)], edits(1, 1), 1 << 24, True),
                ([dict(run, prompt=[0], max_new=127)], [dict(halt, max_new=128)], edits(1, 1), 1 << 24, False),
                ([], [], edits(256, 1 << 24), 0, True),
                ([], [], edits(257, 1 << 24), 0, False)):
            if fits:
                verify.asked(runs, halts, cut, length)
            else:
                self.assertRaisesRegex(BadFile, 'tokens|bytes', verify.asked, runs, halts, cut, length)
        files = sample_files()
        files['models/small.json']['runs'][0]['max_new'] = 4095
        write_set(self.folder, files)
        status, rows, _ = self.verify('--level', 'model')
        self.assertEqual(status, 2)
        self.assertTrue(any('4096' in row['detail'] for row in rows), rows)

    def test_a_failure_names_case_and_index(self):
        write_set(self.folder, {'ops/rdbpot.json': op_file('rdbpot', ('halves', {'x': [2, 4], 'e': 1}, [1, 3]))})
        status, rows, _ = self.verify()
        self.assertEqual((status, rows[0]['detail']), (3, 'case halves, index 1: expected 3, found 2'))

    def test_a_changed_file_is_named_by_the_index(self):
        files = sample_files()
        write_set(self.folder, files)
        with open(os.path.join(self.folder, 'toy.json'), 'a') as file:
            file.write(' ')
        status, rows, _ = self.verify()
        self.assertEqual((status, [(r['file'], r['target']) for r in rows if r['result'] == 'FAIL']), (3, [('toy.json', 'index')]))

    def test_a_file_that_is_not_listed_is_named(self):
        write_set(self.folder, sample_files())
        for name in ('notes.txt', 'more.json'):
            with open(os.path.join(self.folder, name), 'w') as file:
                json.dump(sample_files()['toy.json'], file)
            status, rows, _ = self.verify('--level', 'toy')
            self.assertEqual((status, [(r['file'], r['target']) for r in rows if r['result'] == 'FAIL']), (3, [(name, 'index')]))
            os.remove(os.path.join(self.folder, name))

    def test_hostile_json_has_a_message_and_status_2(self):
        good = json.dumps(op_file('rdbpot', ('a', {'x': [3], 'e': 1}, [2])))
        hostile = [b'', b'{', b'\xff', b'[' * 100000, b'{"a":' * 20 + b'1' + b'}' * 20, b'[NaN]', b'\xef\xbb\xbf{}', b'1' * 5000, b'null', b'[]'] + [text.encode() for text in (
                       good.replace('[3]', '[3.0]'), good.replace('[3]', '[3e2]'), good.replace('[3]', '[9007199254740992]'), good.replace('[3]', '["x"]'),
                       good.replace('[3]', '["%s"]' % ('9' * 5000)), good.replace('[3]', '[true]'), good.replace('[3]', '"\\ud800"'), good.replace('"e": 1', '"e": -1'),
                       good.replace('"e": 1', '"e": 1, "e": 1'), good.replace('"e": 1', '"e": 1, "f": 1'), good.replace('rdbpot', 'nothing'), good.replace('"a"', '{}'),
                       good.replace('[3]', '{"fill": {"value": 1, "count": 1048577}}'), good.replace('[3]', '{"fill": {"value": 1, "count": 0}}'),
                       good.replace('[3]', '{"join": [{"join": [[1]]}]}'), good.replace('blue-kat-1', 'blue-kat-2'))]
        self.assertRaisesRegex(BadFile, '4 MiB', parse, b' ' * (4 << 20) + b'{}')
        for raw in hostile:
            write_set(self.folder, {'ops/rdbpot.json': raw})
            status, rows, _ = self.verify()
            self.assertEqual((status, rows[0]['result']), (2, 'FAIL'), raw[:80])
            self.assertIn('malformed', rows[0]['detail'])

    def test_integers_have_one_form(self):
        for text, value in (('0', 0), ('7', 7), ('-7', -7), ('9' * 20, 10 ** 20 - 1), ('-' + '9' * 20, 1 - 10 ** 20)):
            self.assertEqual(integer(text), value)
        for text in ('', '-', '+', '+1', '-0', '00', '01', '-01', '--1', ' 1', '1 ', '1\n', '1.0', '1e2', '0x1', '1_0', '\u0661', '1' + '0' * 20):
            self.assertRaises(BadFile, integer, text)
        for raw in (b'[-0]', b'[01]', b'[+1]', b'[1e400]', b'[9007199254740992]', b'[-9007199254740992]'):
            self.assertRaises(BadFile, parse, raw)
        self.assertEqual(parse(b'[0, 9007199254740991]'), [0, 9007199254740991])

    def test_depth_and_long_texts_take_little_time(self):
        self.assertEqual(parse(b'[' * 16 + b']' * 16), parse(b'[' * 16 + b']' * 16))
        self.assertRaisesRegex(BadFile, 'nesting', parse, b'[' * 17 + b']' * 17)
        self.assertRaisesRegex(BadFile, 'nesting', parse, b'[' * 16 + b'{}' + b']' * 16)
        self.assertEqual(parse(b'"[[[[[[[[[[[[[[[[[[[[["'), '[' * 21)
        self.assertRaises(BadFile, parse, b'"' + b'\\"' * (1 << 20))
        names = ['"%d":0' % i for i in range(1 << 17)]
        self.assertRaisesRegex(BadFile, 'twice', parse, ('{%s}' % ','.join(names + names[-1:])).encode())

    def test_links_and_what_is_no_file_are_not_read(self):
        path = os.path.join(self.folder, 'toy.json')
        outside = tempfile.NamedTemporaryFile()
        outside.write(json.dumps(sample_files()['toy.json']).encode())
        outside.flush()

        def why():
            found = [row['detail'] for row in self.verify()[1] if row['file'] == 'toy.json' and row['target'] == 'oracle']
            os.rmdir(path) if os.path.isdir(path) and not os.path.islink(path) else os.remove(path)
            return found[0]
        write_set(self.folder, {})
        for make, message in ((lambda: os.symlink(outside.name, path), 'outside'), (lambda: os.symlink('/dev/zero', path), 'outside'),
                              (lambda: os.symlink('..', path), 'outside'), (lambda: os.symlink('.', path), 'not a regular file'),
                              (lambda: os.symlink('toy.json', path), ''), (lambda: os.mkfifo(path), 'not a regular file')):
            make()
            self.assertIn(message, why())
        os.symlink(outside.name, os.path.join(self.folder, 'model.blob'))
        for name in ('model.blob', '../' + os.path.basename(self.folder), '/dev/zero', 'a/./b', 'a//b', '', 'a\\b', 'a\0b', 'x' * 201):
            self.assertRaises(BadFile, verify.load_model, {'file': name}, self.folder)

    def test_random_changes_of_a_file_never_crash_the_reader(self):
        r = random.Random(10)
        junk = (None, True, -1, 0, 1 << 52, '', 'x', '18446744073709551616', '00' * 32, [], [[]], {}, {'fill': {'value': 1, 'count': 3}}, [0], ['a'])
        for path, value in sample_files().items():
            for _ in range(100 if path.startswith(('ops', 'legacy')) else 40):
                changed = copy.deepcopy(value)
                holders = [h for h in containers(changed) if len(h)]
                holder = r.choice(holders)
                key = r.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
                if r.randrange(4) == 0:
                    del holder[key]
                else:
                    holder[key] = copy.deepcopy(r.choice(junk))
                raw = json.dumps(changed).encode()
                try:
                    parsed = parse(raw)
                    row = report.verify_file(path, parsed, report.level_of(path, parsed), cli.HOME, lambda what: None)
                    self.assertIn(row['result'], ('PASS', 'FAIL'))
                except BadFile:
                    pass

    def test_a_reader_that_goes_away_is_no_traceback(self):
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer, 'wb') as out:
            command = [sys.executable, os.path.join(cli.HOME, 'kat', 'oracle'), 'verify', '--level', 'legacy']
            done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertNotIn(b'Traceback', done.stderr)

    def test_refused_command_lines(self):
        bad = os.path.join(self.folder, 'bad.blob')
        with open(bad, 'wb') as file:
            file.write(b'BLUEBLOB' + bytes(3000))
        good = os.path.join(self.folder, 'good.blob')
        with open(good, 'wb') as file:
            file.write(recipe_blob.make(recipe()))
        for argv, message in ((['run', bad, '--ids', '1'], 'not a blob'), (['run', self.folder, '--ids', '1'], self.folder),
                              (['run', good, '--ids', '99'], 'TokenOutOfRange at position 0, id 99'), (['trace', good, '--ids', ''], 'EmptyPrompt')):
            status, _, err = quietly(argv)
            self.assertEqual(status, 2)
            self.assertIn(message, err)
        status, out, _ = quietly(['run', good, '--ids', '1,2', '--max-new', '3', '--json'])
        self.assertEqual((status, len(json.loads(out)['tokens'])), (0, 3))

    def test_a_trace_names_every_op_of_every_layer(self):
        data = recipe_blob.make(recipe())
        made = [json.loads(line) for line in lines(Model(blob.read_blob(data)), data, [1, 2], values=True)]
        self.assertEqual(made[0]['schema'], 'blue-trace-1')
        per_layer = [line['op'] for line in made[1:] if line['position'] == 1 and line['layer'] == 1]
        self.assertEqual((len(per_layer), per_layer[0], per_layer[-1], made[-1]['op']), (25, 'attn_norm', 'mlp_residual', 'logits'))
        self.assertEqual(made[1]['digest'], row_digest([integer(v) for v in made[1]['values']]))


def containers(value):
    """Every list and object of a JSON value."""
    if isinstance(value, (list, dict)):
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from containers(inner)


def altered(old):
    """Another value of the same kind."""
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        return old ^ 1
    return old[:-1] + ('0' if old[-1] != '0' else '1')


def answers_of(value):
    """The paths of the answers in a file: every value below the members that state a result."""
    results = ('out', 'layers', 'logits', 'tokens', 'finish', 'halt', 'position', 'id', 'accepted', 'commitment', 'blob', 'output', 'gas', 'error',
               'Expected', 'Gas', 'ExpectedError')

    def walk(node, path, inside):
        if isinstance(node, (list, dict)):
            for key, inner in node.items() if isinstance(node, dict) else enumerate(node):
                yield from walk(inner, path + (key,), inside or (key in results and not isinstance(inner, list)) or
                                (key in results and not any(isinstance(v, dict) for v in inner)))
        elif inside:
            yield path
    return list(walk(value, (), False))


class Recipes(unittest.TestCase):
    def test_the_stream(self):
        s = Stream(0)
        self.assertEqual(['%016x' % s.word() for _ in range(3)], ['e220a8397b1dcdaf', '6e789e6aa1b965f4', '06c45d188009454f'])

    def test_operations_refuse_what_lies_outside_their_domain(self):
        for op, given in (('isqrt', {'n': [1 << 62]}), ('norm_scale', {'m': [-1]}), ('had_forward', {'x': [0] * 28, 'B': 28}), ('srdhm', {'a': [1], 'b': [1, 2]}),
                          ('quantize', {'u': [1], 'm': 0}), ('argmax', {'values': [1], 'accepted_ids': 2}), ('swiglu', {'g': [(1 << 26) + 1], 'u': [0]}), ('rdbpot', {'x': [1], 'e': 1 << 32}),
                          ('argmax', {'values': [-1 << 31], 'accepted_ids': 1}), ('toy_gemm', {'weight': [1], 'x': [1], 'shift': 32}),
                          ('toy_norm', {'x': [1], 'w': [1], 'mult': 0, 'eps': 0}), ('toy_attend', {'q': [1], 'k': [1] * 257, 'v': [1] * 257}),
                          ('verify_chunk', {'commitment': '00' * 32, 'total_len': (1 << 64) + 1, 'index': 0, 'chunk': [], 'proof': []})):
            self.assertRaises(ops.DomainError, evaluate, op, given, Budget())

    def test_domains_of_the_toy_and_of_proofs(self):
        def row(n):
            return {'fill': {'value': -128, 'count': n}}

        def proof(total, index):
            return 'verify_chunk', {'commitment': '0' * 64, 'total_len': total, 'index': index, 'chunk': [1], 'proof': []}

        def gemm(weight, x, shift):
            return 'toy_gemm', {'weight': row(weight), 'x': row(x), 'shift': shift}

        def norm(mult, eps):
            return 'toy_norm', {'x': [1], 'w': [1], 'mult': mult, 'eps': eps}

        def attend(dim, keys):
            return 'toy_attend', {'q': row(dim), 'k': row(dim * keys), 'v': row(dim * keys)}
        for op, given in (gemm(65536, 65536, 31), norm(1 << 16, (1 << 30) - 1), norm(1, 0), attend(256, 256), attend(1, 1), proof(str(1 << 64), -1),
                          ('toy_swiglu', {'gate': [-128], 'up': [127]}), ('argmax', {'values': [-ops.INT32_MAX], 'accepted_ids': 1})):
            evaluate(op, given, Budget())
        for op, given in (gemm(65537, 65537, 0), gemm(4, 4, 32), gemm(4, 4, -1), gemm(5, 4, 0), norm(0, 0), norm((1 << 16) + 1, 0), norm(1, 1 << 30), norm(1, -1),
                          attend(257, 1), attend(1, 257), ('toy_swiglu', {'gate': [-129], 'up': [0]}),
                          ('argmax', {'values': [-ops.INT32_MAX - 1], 'accepted_ids': 1})):
            self.assertRaises((ops.DomainError, BadFile), evaluate, op, given, Budget())


if __name__ == '__main__':
    unittest.main()
