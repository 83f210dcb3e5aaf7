"""blue's oracle: the integer decoder, its blobs and its vector files in plain Python.

    python3 kat/oracle verify [DIR] [--json] [--level op,model,toy,legacy] [--root DIR]
    python3 kat/oracle run BLOB --ids 1,7,13 [--max-new 16] [--json]
    python3 kat/oracle trace BLOB --ids 1,7,13 [-o FILE] [--logits all|last|none] [--values]
    python3 kat/oracle commitment BLOB

Exit status: 0 everything agrees, 3 an answer differs, 2 input is malformed or refused, or there is nothing to verify,
1 nobody reads the output any more.
"""
import argparse
import json
import os
import sys

import blob
import commitment
import report
import tables
import tracing
import verify
from keccak import int32_bytes, keccak256
from model import Halt, Model

HOME = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEFAULT = os.path.join(HOME, 'kat', 'vectors', 'v1-draft')


class Refused(Exception):
    """Input that the command line cannot work on."""


def ids(given):
    """The ids of a comma-separated list."""
    try:
        return [int(part) for part in given.split(',')] if given else []
    except ValueError:
        raise argparse.ArgumentTypeError('ids are integers with commas between') from None


def levels(given):
    """The levels of a comma-separated list."""
    chosen = given.split(',')
    for level in chosen:
        if level not in verify.LEVELS:
            raise argparse.ArgumentTypeError('the levels are ' + ', '.join(verify.LEVELS))
    return chosen


def arguments(argv):
    """The parsed command line."""
    parser = argparse.ArgumentParser(prog='oracle', description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest='command', required=True)
    command = commands.add_parser('verify', help='check the vector files of a folder')
    command.add_argument('dir', nargs='?', default=DEFAULT, help='the set: a folder with index.json (default: kat/vectors/v1-draft of the repository)')
    command.add_argument('--root', default=HOME, help='the folder that the paths of model files start from')
    command.add_argument('--level', metavar='LIST', type=levels, default=list(verify.LEVELS), help='only files of these levels: op, model, toy, legacy')
    command.add_argument('--json', action='store_true', help='the report as JSON (spec 7.8)')
    for name, text in (('run', 'generate greedily'), ('trace', 'write every intermediate row'), ('commitment', 'print the commitment')):
        command = commands.add_parser(name, help=text)
        command.add_argument('blob')
        if name != 'commitment':
            command.add_argument('--ids', metavar='1,2,3', type=ids, required=True, help='the prompt as token ids between commas')
        if name == 'run':
            command.add_argument('--max-new', type=int, default=16)
            command.add_argument('--json', action='store_true')
        if name == 'trace':
            command.add_argument('-o', '--output')
            command.add_argument('--logits', choices=('all', 'last', 'none'), default='all', help='the positions after which the head is traced')
            command.add_argument('--values', action='store_true', help='write the values beside their digest')
    return parser.parse_args(argv)


def read_file(path):
    """A file's bytes."""
    try:
        with open(path, 'rb') as file:
            return file.read()
    except OSError as error:
        raise Refused('%s: %s' % (path, error.strerror)) from None


def load(path):
    """(bytes, model) of a blob file."""
    data = read_file(path)
    try:
        return data, Model(blob.read_blob(data))
    except blob.BadBlob as error:
        raise Refused('%s is not a blob: %s' % (path, error)) from None


def command_verify(args):
    """Exit status of verify."""
    if not os.path.isdir(args.dir):
        raise Refused('%s is not a folder' % args.dir)

    def emit(row):
        if not args.json:
            print('%-4s  %-6s  %-40s  %6d  %s' % (row['result'], row['target'], row['file'], row['cases'], row['detail']), flush=True)

    rows, malformed = report.run(args.dir, args.root, args.level, emit)
    if args.json:
        print(json.dumps(rows, indent=1))
    if not any(row['target'] == verify.TARGET for row in rows):
        raise Refused('there are no vector files of these levels in %s' % args.dir)
    if malformed:
        return 2
    return 3 if any(row['result'] == 'FAIL' for row in rows) else 0


def command_run(args):
    """Exit status of run."""
    data, model = load(args.blob)
    if args.max_new < 0:
        raise Refused('--max-new is negative')
    model.check_prompt(args.ids)
    cache, x = model.prefill(args.ids)
    digest = keccak256(int32_bytes(model.logits(x)))
    tokens, finish = model.decode(cache, x, args.max_new)
    if args.json:
        print(json.dumps({'commitment': commitment.commitment(data).hex(), 'prompt': args.ids, 'logits': digest.hex(), 'tokens': tokens,
                          'finish': finish}))
    else:
        print('commitment  %s\nlogits      %s\ntokens      %s\nfinish      %s' % (
            commitment.commitment(data).hex(), digest.hex(), ','.join(map(str, tokens)), finish))
    return 0


def command_trace(args):
    """Exit status of trace."""
    data, model = load(args.blob)
    model.check_prompt(args.ids)
    lines = tracing.lines(model, data, args.ids, args.logits, args.values)
    if args.output is None:
        for line in lines:
            print(line)
        return 0
    try:
        with open(args.output, 'w', encoding='utf-8', newline='\n') as file:
            file.writelines(line + '\n' for line in lines)
    except OSError as error:
        raise Refused('%s: %s' % (args.output, error.strerror)) from None
    return 0


def command_commitment(args):
    """Exit status of commitment."""
    data = read_file(args.blob)
    if len(data) <= commitment.RECORD:
        raise Refused('%s is too short for a blob' % args.blob)
    print(commitment.commitment(data).hex())
    return 0


def main(argv):
    """The exit status of a command line."""
    args = arguments(argv)
    if tables.check():
        raise SystemExit('the tables computed here do not have the digests of spec 2: ' + ', '.join(tables.check()))
    try:
        return {'verify': command_verify, 'run': command_run, 'trace': command_trace, 'commitment': command_commitment}[args.command](args)
    except Refused as error:
        print('oracle: %s' % error, file=sys.stderr)
    except Halt as halt:
        name, *at = halt.args
        print('oracle: the prompt halts: %s%s' % (name, ' at position %d, id %d' % tuple(at) if at else ''), file=sys.stderr)
    except BrokenPipeError:
        # The reader went away. What is still buffered goes nowhere, so that the interpreter's last flush succeeds.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 2
