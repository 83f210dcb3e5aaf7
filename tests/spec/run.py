#!/usr/bin/env python3
"""Runs the specification: the code blocks of spec/*.md, in page order, as one program.

  run.py self                     the published answers of the toy model, Keccak and gemmlowp values; the stated bounds
  run.py blob FILE IDS MAX_NEW    JSON: commitment, output, finish reason and logits of the last prompt position
  run.py calls DIR                every call of the level precompile of a set of known answers
  run.py precompile [FILE]        answers lines of JSON, of a file or of standard input, on one chain; members of a line, all optional:
                                    models  commitment -> path of a blob at hand
                                    state   key -> word: the registry's storage from now on
                                    block   the number of the block from now on
                                    call    {to, data, gas, caller, value, static, direct}: answers kind, gas, data, storage, logs
                                    price   signature of a gasOf function, with sizes and tokens: answers its result
"""
import json, os, re, sys

sys.dont_write_bytecode = True
import bounds, precompiles

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
TABLES = os.path.join(ROOT, 'int-engine', 'tables')


def load():
    env, pages = {}, {}
    folder = os.path.join(ROOT, 'spec')
    for page in sorted(f for f in os.listdir(folder) if re.match(r'\d-', f)):
        text = pages[page[0]] = open(os.path.join(folder, page), encoding='utf-8').read()
        for match in re.finditer(r'^```python\n(.*?)^```', text, re.S | re.M):
            line = text[:match.start()].count('\n') + 1
            exec(compile('\n' * line + match.group(1), 'spec/' + page, 'exec'), env)
    env['load_tables'](TABLES)
    env['load_toy_tables'](TABLES)
    return env, pages


# Keccak-256 of so many letters a, computed by PyCryptodome: around one block of 136 bytes, and two whole ones.
KECCAK = {
    0: 'c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470',
    1: '3ac225168df54212a25c1c01fd35bebfea408fdac2e31ddd6f80a4bbf9a5f1cb',
    135: '34367dc248bbd832f4e3e69dfaac2f92638bd0bbd18f2912ba4ef454919cf446',
    136: 'a6c4d403279fe3e0af03729caada8374b5ca54d8065329a3ebcaeb4b60aa386e',
    137: 'd869f639c7046b4929fc92a4d988a8b22c55fbadb802c0c66ebcd484f1915f39',
    272: 'cf7fcd4f705ee749930d19ca84561a9bf62516bd90a471545fa2f49fdc7e63c8',
}


def self_check(s, pages):
    for n, want in KECCAK.items():
        assert s['keccak256'](b'a' * n).hex() == want, n
    for args, want in [((7984, 1583594044, 9), 12), ((1, 2**30, 1), 1), ((5, 2**30, 1), 2), ((-1, 2**30, 0), 0), ((-3, 2**30, 1), -1),
                       ((-2**31, -2**31, 0), 2**31 - 1), ((2**31 - 1, 2**31 - 1, 0), 2**31 - 2), ((-966241705, 1373157221, 0), -617840222)]:
        x, m, e = args
        assert s['rdbpot'](s['srdhm'](x, m), e) == want, args
    W = s['toy_weights']()
    assert W['embed'][0][0][:4] == [-41, 14, 127, -94]
    for prompt, count, want in [([1, 7, 13, 2], 10, [4, 28, 21, 17, 2, 19, 43, 35, 36, 15]), ([0], 8, [32, 12] * 4),
                                ([5, 9, 2], 16, [4, 1, 12, 0, 36, 13, 18, 1, 45, 7, 25, 39, 5, 10, 26, 17]), ([8, 1, 0, 46, 41, 6], 1, [13])]:
        assert s['toy_generate'](W, prompt, count) == prompt + want
    for n in (1, 2, 12, 20, 24, 60, 80, 96, 144, 192, 576):
        B = s['had_block'](n)
        H = s['hadamard'](B)
        for i in (0, 1 % B, B - 1):
            for j in range(B):
                assert sum(H[i][k] * H[j][k] for k in range(B)) == (B if i == j else 0)
    for m in range(1, 20):
        leaves = [bytes([i]) * 32 for i in range(m)]
        for i in range(m):
            proof = s['prove'](leaves, i)
            assert s['root_from_proof'](leaves[i], i, m, proof) == s['tree_root'](leaves)
            assert s['root_from_proof'](leaves[i], i, m, proof + [leaves[0]]) != s['tree_root'](leaves)
    bounds.check(s, pages)
    precompiles.self_check(s)
    print('spec: self-check passed')


def run_blob(s, path, ids, max_new):
    blob = open(path, 'rb').read()
    model = s['read_blob'](blob)
    cache = s['new_cache'](model['config'])
    for t in ids:
        x = s['step'](model, cache, t)
    last = s['logits'](model, x)
    output, finish = s['generate'](model, ids, max_new)
    print(json.dumps({'commitment': s['commitment'](blob).hex(), 'output': output, 'finish': finish, 'logits': last}))


if __name__ == '__main__':
    env, pages = load()
    if sys.argv[1:2] == ['self']:
        self_check(env, pages)
    elif sys.argv[1:2] == ['blob'] and len(sys.argv) == 5:
        run_blob(env, sys.argv[2], [int(t) for t in sys.argv[3].split(',')], int(sys.argv[4]))
    elif sys.argv[1:2] == ['calls'] and len(sys.argv) == 3:
        print('%d calls' % precompiles.check_set(env, ROOT, sys.argv[2]))
    elif sys.argv[1:2] == ['precompile'] and len(sys.argv) <= 3:
        with open(sys.argv[2], encoding='utf-8') if sys.argv[2:] else sys.stdin as lines:
            precompiles.run_lines(env, lines, sys.stdout)
    else:
        sys.exit(__doc__)
