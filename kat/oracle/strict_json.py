"""The JSON of spec 7.1, read strictly: what a reader has to refuse is a `BadFile`."""
import json
import os
import re

MAX_BYTES, MAX_DEPTH, MAX_DIGITS = 4 << 20, 16, 64
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_INTEGER = re.compile(r'-?[0-9]+\Z')
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
        names = [name for name, _ in pairs]
        raise BadFile('the member %r appears twice' % next(n for n in names if names.count(n) > 1))
    return found


def _number(text):
    need(len(text) <= 17 and abs(int(text)) < 1 << 53, 'the number %.40s is not below 2^53' % text)
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
    depth = 0
    for mark in re.findall(r'[\[\]{}]', _STRING.sub('', text)):
        depth += 1 if mark in '[{' else -1
        need(depth <= MAX_DEPTH, 'nesting deeper than %d' % MAX_DEPTH)
    try:
        return json.loads(text, object_pairs_hook=_object, parse_int=_number, parse_float=_no_number, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise BadFile('not JSON: %s' % error) from None


def read(path):
    """(bytes, value) of a file."""
    try:
        size = os.path.getsize(path)
        need(size <= MAX_BYTES, 'more than 4 MiB')
        with open(path, 'rb') as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise BadFile('cannot be read: %s' % error.strerror) from None
    return raw, parse(raw)


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
        need(len(value) <= MAX_DIGITS and _INTEGER.match(value), '%s: %.40r is not decimal digits' % (what, value))
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
