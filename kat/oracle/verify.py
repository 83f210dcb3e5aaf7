"""Verification of the vector files of a folder (spec 7) and its report (7.8)."""

import blob
import commitment
import compare
import recipe_blob
import toy
from keccak import keccak256
from model import Halt, Model
from operations import OPS, evaluate
from ops import DomainError
from rows import Budget, expand
from strict_json import BadFile, digest, hexadecimal, integer, listed, members, need, read_below, relative, text
from tracing import DigestRun

TARGET = 'oracle'
HEADER = ('schema', 'spec_version', 'level')
LEVELS = ('op', 'model', 'toy', 'legacy')
NOT_COVERED = 'precompile'   # calls of section 6: their second implementation is the program of that page
ANY_COUNT, MAX_BLOB = (0, (1 << 64) - 1), 1 << 24
MAX_TOKENS, MAX_WORK = 4096, 1 << 32


class Mismatch(Exception):
    """A result that is not the stated one. The message names case and index."""


def agree(case, difference):
    """Raises Mismatch where a comparison found a difference."""
    if difference:
        raise Mismatch('case %s, %s' % (compare.shown(case), difference))


def same(case, what, expected, found):
    """Raises Mismatch unless two plain values are equal."""
    if expected != found:
        agree(case, '%s: expected %s, found %s' % (what, compare.shown(expected), compare.shown(found)))


def named(cases, key='name'):
    """The cases of a list, each after the check that it has a name and that no other has it."""
    used = set()
    for case in cases:
        need(isinstance(case, dict) and key in case, 'a case has no ' + key)
        name = text(case[key], 'a name')
        need(name not in used, 'the name %r appears twice' % name)
        used.add(name)
        yield case


def check_header(value, level, required, optional=()):
    """The members of a file's object."""
    members(value, HEADER + required, optional)
    need(value['schema'] == 'blue-kat-1', 'the schema is not blue-kat-1')
    need(integer(value['spec_version']) == 1, 'the spec_version is not 1')
    need(value['level'] == level, 'the level is not %s' % level)
    return value


def verify_op(value, progress):
    """The number of cases of a level-op file."""
    check_header(value, 'op', ('op', 'cases'))
    op = text(value['op'], 'op')
    need(op in OPS, 'the operation %r is unknown' % op)
    budget = Budget()
    for case in named(listed(value['cases'], 'cases')):
        name = case['name']
        members(case, ('name', 'in', 'out'))
        try:
            found = evaluate(op, case['in'], budget)
        except DomainError as error:
            raise BadFile('case %s: %s' % (name, error)) from None
        agree(name, compare.result(case['out'], found))
    return len(value['cases'])


def expected_halt(case, call):
    """Checks that a call halts as the case says."""
    name = case['name']
    wants_place = case.get('halt') == 'TokenOutOfRange'
    members(case, ('name', 'prompt', 'max_new', 'halt') + (('position', 'id') if wants_place else ()))
    try:
        call()
    except (Halt, toy.Halt) as halt:
        same(name, 'halt', case['halt'], halt.args[0])
        if wants_place:
            same(name, 'position', integer(case['position']), halt.args[1])
            same(name, 'id', integer(case['id']), halt.args[2])
        return
    same(name, 'halt', case['halt'], 'no halt')


def prompt_of(case, budget):
    """(prompt, max_new) of a case."""
    return expand(case['prompt'], budget), integer(case['max_new'], *ANY_COUNT, what='max_new')


def load_model(source, root):
    """The bytes of the blob of a model file."""
    need(isinstance(source, dict) and len(source) == 1, 'model is a file or a recipe')
    if 'recipe' in source:
        return recipe_blob.make(source['recipe'])
    return read_below(root, relative(members(source, ('file',))['file'], 'file'), MAX_BLOB)


def edited(data, case):
    """The blob after the edit of a case."""
    out = bytearray(data)
    for pair in listed(case['edit'], 'edit'):
        need(isinstance(pair, list) and len(pair) == 2, 'an edit is a list of pairs')
        offset, new = integer(pair[0], 0, len(out), 'offset'), hexadecimal(pair[1], 'the bytes of an edit')
        need(offset + len(new) <= len(out), 'an edit reaches past the end')
        out[offset:offset + len(new)] = new
    if 'length' in case:
        length = integer(case['length'], 0, MAX_BLOB, 'length')
        out = out[:length] + bytes(max(0, length - len(out)))
    return bytes(out)


def accepted(data):
    """Whether the bytes are a blob."""
    try:
        blob.read_blob(data)
        return True
    except blob.BadBlob:
        return False


def verify_edits(data, edits, progress):
    """Checks the edits of a blob, a batch at a time so that their commitments are computed together."""
    for start in range(0, len(edits), 64):
        if start:
            progress('edit %d of %d' % (start + 1, len(edits)))
        names, stated, blobs = [], [], []
        for case in edits[start:start + 64]:
            members(case, ('name', 'edit', 'accepted'), ('length', 'commitment'))
            need(isinstance(case['accepted'], bool), 'accepted is not true or false')
            changed = edited(data, case)
            same(case['name'], 'accepted', case['accepted'], accepted(changed))
            need(('commitment' in case) == case['accepted'], 'case %s: an edit has a commitment exactly when it is accepted' % case['name'])
            if case['accepted']:
                names.append(case['name'])
                stated.append(digest(case['commitment'], 'commitment'))
                blobs.append(changed)
        for name, want, found in zip(names, stated, commitment.commitments(blobs)):
            same(name, 'commitment', want, found.hex())


def asked(runs, halts, edits, length):
    """(prompt, max_new) of all runs and of all halts, after the check of what the cases together ask for."""
    budget, work, found = Budget(), 0, ([], [])
    for prompts, cases in zip(found, (runs, halts)):
        for case in named(cases):
            need('prompt' in case and 'max_new' in case, 'a run or halt has prompt and max_new')
            prompt, max_new = prompt_of(case, budget)
            need(len(prompt) + max_new <= MAX_TOKENS, 'case %s asks for more than %d tokens' % (case['name'], MAX_TOKENS))
            work += (len(prompt) + max_new) * length
            prompts.append((prompt, max_new))
    for case in named(edits):
        work += max(length, integer(case.get('length', 0), 0, MAX_BLOB, 'length'))
    need(work <= MAX_WORK, 'the cases read %d bytes, must be at most %d' % (work, MAX_WORK))
    return found


def verify_run(model, case, prompt, max_new):
    """Checks one run of a model."""
    name = case['name']
    members(case, ('name', 'prompt', 'max_new', 'layers', 'logits', 'tokens', 'finish'))
    try:
        model.check_prompt(prompt)
    except Halt as halt:
        agree(name, 'the prompt halts: %s' % halt.args[0])
    run = DigestRun(model, prompt, layers=bool(case['layers']), logits=bool(case['logits']))
    agree(name, compare.values('layers', case['layers'], run.layers))
    agree(name, compare.values('logits', case['logits'], run.logits))
    tokens, finish = model.decode(run.cache, run.residual, max_new)
    agree(name, compare.values('tokens', case['tokens'], tokens))
    same(name, 'finish', case['finish'], finish)


def verify_model(value, root, progress):
    """The number of cases of a level-model file."""
    check_header(value, 'model', ('model', 'blob', 'commitment', 'runs', 'halts', 'edits'))
    runs, halts, edits = (listed(value[kind], kind) for kind in ('runs', 'halts', 'edits'))
    stated = members(value['blob'], ('bytes', 'keccak256'))
    of_runs, of_halts = asked(runs, halts, edits, integer(stated['bytes'], 0, MAX_BLOB, 'bytes'))
    data = load_model(value['model'], root)
    same('blob', 'bytes', integer(stated['bytes']), len(data))
    same('blob', 'keccak256', digest(stated['keccak256'], 'keccak256'), keccak256(data).hex())
    same('blob', 'commitment', digest(value['commitment'], 'commitment'), commitment.commitment(data).hex())
    try:
        model = Model(blob.read_blob(data))
    except blob.BadBlob as error:
        raise Mismatch('the blob is refused: %s' % error) from None
    for case, given in zip(runs, of_runs):
        progress('run %s' % case['name'])
        verify_run(model, case, *given)
    for case, given in zip(halts, of_halts):
        expected_halt(case, lambda g=given: model.generate(*g))
    verify_edits(data, list(named(edits)), progress)
    return 2 + len(runs) + len(halts) + len(edits)


def verify_call(weights, case, data, gas):
    """(output or None, error or None) of a packed call."""
    try:
        return toy.packed_call(weights, data, gas), None
    except toy.CallError as error:
        return None, error.args[0]


def verify_toy(value, progress):
    """The number of cases of toy.json."""
    check_header(value, 'toy', ('logits', 'tokens', 'halts', 'calls'))
    weights, budget = toy.weights(), Budget()
    for case in named(listed(value['logits'], 'logits')):
        name = case['name']
        members(case, ('name', 'prompt', 'logits'))
        agree(name, compare.values('logits', case['logits'], toy_call(name, lambda: toy.logits(weights, expand(case['prompt'], budget)))))
    for case in named(listed(value['tokens'], 'tokens')):
        name = case['name']
        members(case, ('name', 'prompt', 'max_new', 'tokens'))
        prompt, max_new = prompt_of(case, budget)
        agree(name, compare.values('tokens', case['tokens'], toy_call(name, lambda: toy.generate(weights, prompt, max_new))[len(prompt):]))
    for case in named(listed(value['halts'], 'halts')):
        need('prompt' in case and 'max_new' in case, 'a halt has prompt and max_new')
        expected_halt(case, lambda c=case: toy.generate(weights, *prompt_of(c, budget)))
    for case in named(listed(value['calls'], 'calls')):
        name = case['name']
        failing = 'error' in case
        members(case, ('name', 'input', 'gas', 'error' if failing else 'output'))
        data, gas = hexadecimal(case['input'], 'input'), integer(case['gas'])
        same(name, 'gas', gas, toy.call_gas(data))
        output, error = verify_call(weights, case, data, gas)
        same(name, 'error', case['error'] if failing else None, error)
        same(name, 'output', None if failing else hexadecimal(case['output'], 'output').hex(), None if output is None else output.hex())
    return sum(len(value[kind]) for kind in ('logits', 'tokens', 'halts', 'calls'))


def toy_call(name, call):
    """The result of a toy call that must not halt."""
    try:
        return call()
    except toy.Halt as halt:
        raise Mismatch('case %s: halts with %s' % (name, halt.args[0])) from None


def verify_legacy(value, progress):
    """The number of cases of an array of packed calls (7.9)."""
    weights = toy.weights()
    for case in named(listed(value, 'a legacy file'), 'Name'):
        name = case['Name']
        if 'ExpectedError' in case:
            members(case, ('Input', 'ExpectedError', 'Name'), ('Gas',))
            data = hexadecimal(case['Input'], 'Input')
            gas = integer(case['Gas'], 0) if 'Gas' in case else toy.call_gas(data)
            same(name, 'error', case['ExpectedError'], verify_call(weights, case, data, gas)[1])
            continue
        members(case, ('Input', 'Expected', 'Name', 'Gas'), ('NoBenchmark',))
        need(isinstance(case.get('NoBenchmark', False), bool), 'NoBenchmark is not true or false')
        data, gas = hexadecimal(case['Input'], 'Input'), toy.call_gas(hexadecimal(case['Input'], 'Input'))
        same(name, 'Gas', integer(case['Gas']), gas)
        output, error = verify_call(weights, case, data, gas)
        same(name, 'error', None, error)
        same(name, 'Expected', hexadecimal(case['Expected'], 'Expected').hex(), output.hex())
        same(name, 'error with one gas less', 'OutOfGas', verify_call(weights, case, data, gas - 1)[1])
    return len(value)
