"""The walk over a folder of vector files and the rows of its report (spec 7.1 and 7.8)."""
import os
import sys

import verify
from keccak import keccak256_many
from strict_json import BadFile, digest, integer, listed, members, need, parse, read_below, relative, text


def row(file, level, target, result, cases=0, detail=''):
    """One row of a report."""
    return {'file': file, 'level': level, 'target': target, 'result': result, 'cases': cases, 'detail': detail}


def files_under(folder):
    """The paths of the files below a folder, with / and ascending as bytes, without the index. A link is a file."""
    found = []
    for base, folders, names in os.walk(folder):
        for name in names + [name for name in folders if os.path.islink(os.path.join(base, name))]:
            path = os.path.relpath(os.path.join(base, name), folder).replace(os.sep, '/')
            found.append(path.encode('utf-8', 'backslashreplace').decode())
    return sorted(set(found) - {'index.json'}, key=str.encode)


def read_bytes(folder, path):
    """A file's bytes; BadFile where there are none, or too many."""
    return read_below(folder, path)


def level_of(path, value):
    """The level of a file, from its content; a file in legacy/ is an array, and so are most in precompile/."""
    if path.startswith('legacy/'):
        return 'legacy'
    if path.startswith('precompile/'):
        return verify.NOT_COVERED
    need(isinstance(value, dict), 'the file is not one object')
    level = value.get('level')
    need(level in ('op', 'model', 'toy'), 'the level %.40r is unknown' % (level,))
    return level


def read_index(folder):
    """path -> (level, cases, bytes, keccak256) of the index."""
    value = verify.check_header(parse(read_bytes(folder, 'index.json')), 'index', ('files',))
    entries, last = {}, None
    for entry in listed(value['files'], 'files'):
        members(entry, ('file', 'level', 'cases', 'bytes', 'keccak256'))
        path = relative(entry['file'], 'file')
        need(last is None or last < path.encode(), 'the files are not strictly ascending')
        last = path.encode()
        entries[path] = (text(entry['level'], 'level'), integer(entry['cases'], 0, what='cases'), integer(entry['bytes'], 0, what='bytes'),
                         digest(entry['keccak256'], 'keccak256'))
    return entries


def index_rows(folder, raws, passed):
    """The rows of the index: one if it describes every file, else one for each that it does not.

    `passed` has the level and the cases of each file that passed.
    """
    try:
        entries = read_index(folder)
    except BadFile as error:
        return [row('index.json', 'index', 'index', 'FAIL', 0, str(error))]
    digests = dict(zip(raws, keccak256_many(raws.values())))
    rows = []
    for path in sorted(set(raws) | set(entries), key=str.encode):
        level, cases, size, stated = entries.get(path, ('', 0, 0, ''))
        if path not in entries:
            detail = 'the index does not list the file'
        elif path not in raws:
            detail = 'the file is missing'
        elif len(raws[path]) != size:
            detail = 'expected %d bytes, found %d' % (size, len(raws[path]))
        elif digests[path].hex() != stated:
            detail = 'expected keccak256 %s, found %s' % (stated, digests[path].hex())
        elif passed.get(path, (level, cases)) != (level, cases):
            detail = 'expected level %s and %d cases, found level %s and %d' % ((level, cases) + passed[path])
        else:
            continue
        rows.append(row(path, level, 'index', 'FAIL', 0, detail))
    return rows or [row('index.json', 'index', 'index', 'PASS', len(entries))]


def verify_file(path, value, level, root, progress):
    """The row of one file."""
    check = {'op': verify.verify_op, 'toy': verify.verify_toy, 'legacy': verify.verify_legacy,
             'model': lambda v, p: verify.verify_model(v, root, p)}[level]
    try:
        return row(path, level, verify.TARGET, 'PASS', check(value, progress))
    except verify.Mismatch as error:
        return row(path, level, verify.TARGET, 'FAIL', 0, str(error))


def run(folder, root, levels, emit):
    """Verifies a folder. Calls emit(row) for each row; returns (rows, whether a file was malformed).

    Vector files are those whose name ends in .json; of others only the index has something to say.
    """
    raws, rows, passed, malformed = {}, [], {}, False

    def add(new):
        rows.append(new)
        emit(new)

    for path in files_under(folder):
        level = ''
        try:
            raws[path] = read_bytes(folder, path)
            if not path.endswith('.json'):
                continue
            value = parse(raws[path])
            level = level_of(path, value)
            if level == verify.NOT_COVERED and set(levels) == set(verify.LEVELS):
                add(row(path, level, verify.TARGET, 'SKIP', 0, 'the oracle does not cover this level'))
            if level not in levels:
                continue

            def progress(what, path=path):
                print('%s: %s' % (path, what), file=sys.stderr, flush=True)

            add(verify_file(path, value, level, root, progress))
            if rows[-1]['result'] == 'PASS':
                passed[path] = (level, rows[-1]['cases'])
        except BadFile as error:
            malformed = True
            add(row(path, level, verify.TARGET, 'FAIL', 0, 'malformed: %s' % error))
    for new in index_rows(folder, raws, passed):
        add(new)
    return rows, malformed
