"""Calls of section 6 from files and from lines of JSON."""
import json, os


class Models(dict):
    """commitment -> model, or None for bytes that section 4 refuses; made when it is first asked for."""
    def __init__(self, spec):
        self.spec, self.blobs = spec, {}

    def add(self, commitment, blob):
        """A function that gives the blob's bytes."""
        self.blobs[commitment] = blob

    def __missing__(self, commitment):
        try:
            self[commitment] = self.spec['read_blob'](self.blobs[commitment]())
        except self.spec['BadBlob']:
            self[commitment] = None
        return self[commitment]


def read(path):
    with open(path, 'rb') as file:
        return file.read()


def model_blob(s, root, folder, model):
    """The bytes of a model of states.json."""
    file = json.loads(read(os.path.join(folder, model['file'])))
    source = file['model']
    blob = bytearray(s['recipe_blob'](source['recipe']) if 'recipe' in source else read(os.path.join(root, source['file'])))
    if 'edit' in model:
        edit = {e['name']: e for e in file['edits']}[model['edit']]
        for offset, data in edit['edit']:
            data = bytes.fromhex(data)
            blob[offset:offset + len(data)] = data
        length = int(edit.get('length', len(blob)))
        blob = blob[:length] + bytes(max(0, length - len(blob)))
    return bytes(blob)


def check_set(s, root, folder):
    """Every call of the level precompile of the set in a folder; the number of calls."""
    file = json.loads(read(os.path.join(folder, 'precompile', 'states.json')))
    states, models, count = {state['name']: state for state in file['states']}, Models(s), 0
    for model in file['models']:
        blob = model_blob(s, root, folder, model)
        commitment = int(model['commitment'], 16)
        # The largest one's commitment is that of its own file, which other readers check.
        assert len(blob) > 1 << 20 or s['commitment'](blob) == s['b32'](commitment), model['name']
        models.add(commitment, lambda blob=blob: blob)
        assert ('edit' in model) == (models[commitment] is None), model['name']
    for to in ('REGISTRY', 'INFERENCE'):
        for prefix in ('', 'fail-'):
            for case in json.loads(read(os.path.join(folder, 'precompile', prefix + to.lower() + '.json'))):
                assert ('Expected' in case) == (prefix == ''), case['Name']
                s['check_call'](states, models, s[to], case)
                count += 1
    return count


def answer_line(s, world, line):
    """The answer to one line, or None where there is nothing to answer."""
    if 'models' in line:
        for commitment, path in line['models'].items():
            world.models.add(int(commitment, 16), lambda path=path: read(path))
    if 'state' in line:
        world.storage = {int(k, 16): int(w, 16) for k, w in line['state'].items()}
    if 'block' in line:
        world.block = int(line['block'])
    if 'price' in line:
        f, c, counts = line['price'], line['sizes'], line['tokens']
        world.storage, active, name = {}, 1, 1
        words = s['record_words']({**c, 'qk_norm': 0, 'tied': 0, 'eps': 0, 'total_len': 0, 'manifest_len': 0, 'stop_ids': [],
                                   'tokenizer_digest': bytes(32)})
        for i, word in enumerate(words):
            world.write(s['slot'](b'blue.rec', s['b32'](active), bytes([i])), word)
        world.write(s['slot'](b'blue.srv', s['b32'](name)), active)
        data = s['selector'](f) + b''.join(s['b32'](v) for v in [name, 0, *counts])
        return s['precompile'](world, s['INFERENCE'], data, 2**63)[2].hex()
    if 'call' not in line:
        return None
    call, before, logs = line['call'], dict(world.storage), len(world.logs)
    kind, gas, data = s['precompile'](world, s[call['to']], bytes.fromhex(call['data']), int(call['gas']), int(call['caller'], 16),
                                      call['value'], call['static'], call['direct'])
    changed = {s['b32'](k).hex(): s['b32'](world.read(k)).hex() for k in sorted({*before, *world.storage}) if before.get(k, 0) != world.read(k)}
    return {'kind': kind, 'gas': str(gas), 'data': data if kind == 'halt' else data.hex(), 'storage': changed,
            'logs': [[[s['b32'](t).hex() for t in topics], data.hex()] for topics, data in world.logs[logs:]]}


def run_lines(s, lines, out):
    """Answers lines of JSON on one chain."""
    world = s['World']()
    world.models = Models(s)
    for text in lines:
        answer = answer_line(s, world, json.loads(text))
        if answer is not None:
            out.write(json.dumps(answer) + '\n')


# Keys of the registry that exists on other chains: admin 0xa1, version and commitment of name 1.
PUBLISHED = [(b'adm', 20, 0xA1, '1b008afa4aa1ed15a87c1c0a6811b61d26d57c311d618395d3892b1ee4ebc119'),
             (b'mv', 32, 1, '3fb2615003335f00c62495689f7b7af01ee17f77bdde8e55ab0bb633625a8c41'),
             (b'mw', 32, 1, '560a60af8a5ca6c011ac62def4ae2d8500ee3f54332f537a0ca1ba92145c483f')]


def self_check(s):
    for tag, size, about, key in PUBLISHED:
        assert s['b32'](s['slot'](tag, about.to_bytes(size, 'big'))).hex() == key, tag
    data = b''.join(v.to_bytes(4, 'big') for v in [1 << 24, 10, 1, 7, 13, 2])
    kind, gas, out = s['precompile'](s['World'](), s['INFERENCE'], data, 600_000)
    assert (kind, gas, out[16:24]) == ('return', 600_000, bytes([0, 0, 0, 4, 0, 0, 0, 28]))
