"""Comparison of a result with the stated one (spec 7.3): the first difference, in words."""
from keccak import row_digest
from strict_json import BadFile, digest, integer, listed, members, text

LONGEST_LIST = 96


def shown(value):
    """A value in a message, shortened."""
    return '%.80s' % (value,)


def _differs(expected, found):
    return 'expected %s, found %s' % (shown(expected), shown(found))


def _lists(expected, found, convert):
    for index, (want, have) in enumerate(zip(expected, found)):
        if convert(want) != have:
            return 'index %d: %s' % (index, _differs(want, have))
    if len(expected) != len(found):
        return 'expected %d values, found %d' % (len(expected), len(found))
    return None


def _result(expected, found):
    if isinstance(found, dict):
        members(expected, list(found))
        for name in found:
            difference = _result(expected[name], found[name])
            if difference:
                return '%s, %s' % (name, difference)
        return None
    if isinstance(found, list):
        strings = bool(found) and isinstance(found[0], str)
        if isinstance(expected, list):
            return _lists(expected, found, (lambda v: text(v, 'a digest')) if strings else lambda v: integer(v, what='a value of a result'))
        members(expected, ('count', 'keccak256'))
        if integer(expected['count']) != len(found):
            return 'expected %d values, found %d' % (integer(expected['count']), len(found))
        own = row_digest(found)
        return None if digest(expected['keccak256'], 'keccak256') == own else 'digest: ' + _differs(expected['keccak256'], own)
    want = digest(expected, 'the result') if isinstance(found, str) else integer(expected, what='the result')
    return None if want == found else _differs(want, found)


def result(expected, found):
    """None, or where and how a found row, integer, digest or object differs from the expected JSON."""
    try:
        return _result(expected, found)
    except BadFile as error:
        return 'the stated result is malformed: %s' % error


def values(what, expected, found):
    """None, or the difference of two lists (of integers, or of lists, or of strings)."""
    for index, (want, have) in enumerate(zip(listed(expected, what), found)):
        if isinstance(have, list):
            difference = values(what, want, have)
            if difference:
                return '%s of %d, %s' % (what, index, difference[len(what) + 1:] if difference.startswith(what) else difference)
        elif (integer(want, what=what) if isinstance(have, int) else text(want, what)) != have:
            return '%s %d: %s' % (what, index, _differs(want, have))
    if len(expected) != len(found):
        return '%s: expected %d, found %d' % (what, len(expected), len(found))
    return None
