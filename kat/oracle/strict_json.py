"""The JSON of spec 7.1, read strictly: what a reader has to refuse is a `BadFile`."""
import json
import os
import re
import stat
from collections import Counter

MAX_BYTES, MAX_DEPTH = 4 << 20, 16
_INTEGER = re.compile(r'(0|-?[1-9][0-9]{0,19})\Z')
_PATH = re.compile(r'[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*\Z')
_HEX = re.compile(r'(?:[0-9a-f]{2})*\Z')


class BadFile(Exception):
    """A file that is not a vector file. The message says why."""


def need(holds, what):
    """Raises BadFile unless the statement holds."""
    if not holds:
        raise BadFile(what)


def _object(pairs):
    found = dict(pairs)
    if len(found) != len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise BadFile('the member %.40r appears twice' % next(name for name in counts if counts[name] > 1))
    return found


def _number(text):
    need(text != '-0' and len(text) <= 17 and abs(int(text)) < 1 << 53, 'the number %.40s is -0 or not below 2^53' % text)
    return int(text)


def _no_number(text):
    raise BadFile('%.40s is not an integer in decimal digits' % text)


def parse(raw):
    """The value of a file's bytes."""
    need(len(raw) <= MAX_BYTES, 'more than 4 MiB')
    try:
        text = raw.decode('utf-8')
    except UnicodeDecodeError:
        raise BadFile('not UTF-8') from None
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_int=_number, parse_float=_no_number, parse_constant=_no_number)
    except RecursionError:
        raise BadFile('nesting deeper than %d' % MAX_DEPTH) from None
    except ValueError as error:
        raise BadFile('not JSON: %s' % error) from None
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        containers = [v for v in level if isinstance(v, (list, dict))]
        level = [inner for v in containers for inner in (v if isinstance(v, list) else v.values())]
    need(not containers, 'nesting deeper than %d' % MAX_DEPTH)
    return value


def read_below(folder, path, most=MAX_BYTES):
    """The bytes of the regular file at a relative path with /, which no link leads out of the folder."""
    try:
        need('\0' not in path, 'a path with a NUL')
        folder = os.path.realpath(folder)
        real = os.path.realpath(os.path.join(folder, *path.split('/')))
        need(os.path.commonpath([folder, real]) == folder, 'the file is outside of the folder')
        need(stat.S_ISREG(os.stat(real).st_mode), 'not a regular file')
        with open(real, 'rb') as file:
            raw = file.read(most + 1)
    except OSError as error:
        raise BadFile('cannot be read: %s' % error.strerror) from None
    need(len(raw) <= most, 'more than %d bytes' % most)
    return raw


def members(value, required, optional=()):
    """The object, after the check of its members' names."""
    need(isinstance(value, dict), 'an object is wanted, with the members ' + ', '.join(required))
    for name in required:
        need(name in value, 'the member %s is missing' % name)
    for name in value:
        need(name in required or name in optional, 'the member %r is unknown' % name)
    return value


def integer(value, low=None, high=None, what='an integer'):
    """An integer in either form of 7.1, within low..=high."""
    if isinstance(value, str):
        need(_INTEGER.match(value), '%s: %.40r is not 1 to 20 decimal digits without leading zeros, -0 and +' % (what, value))
        value = int(value)
    need(isinstance(value, int) and not isinstance(value, bool), '%s is not a number or a string of digits' % what)
    need((low is None or value >= low) and (high is None or value <= high), '%s is %d, out of range' % (what, value))
    return value


def integers(value, what):
    """A list of integers."""
    return [integer(v, what=what) for v in listed(value, what)]


def text(value, what):
    """A string of Unicode scalar values."""
    need(isinstance(value, str) and not any('\ud800' <= c <= '\udfff' for c in value), '%s is not a string' % what)
    return value


def relative(value, what):
    """A relative path of plain names with / between."""
    need(len(text(value, what)) <= 200 and _PATH.match(value) and not {'.', '..'} & set(value.split('/')), '%s is not a relative path' % what)
    return value


def listed(value, what):
    """A list."""
    need(isinstance(value, list), '%s is not a list' % what)
    return value


def hexadecimal(value, what, length=None):
    """The bytes of a lower-case hexadecimal string."""
    need(_HEX.match(text(value, what)), '%s is not lower-case hexadecimal' % what)
    need(length is None or len(value) == 2 * length, '%s has not %s digits' % (what, length and 2 * length))
    return bytes.fromhex(value)


def digest(value, what):
    """A digest in hexadecimal, checked."""
    hexadecimal(value, what, 32)
    return value
