"""Rows and recipes of spec 7.2."""
from strict_json import integer, listed, members, need

WORD = (1 << 64) - 1
MAX_ROW, MAX_FILE, VALUE = 1 << 20, 1 << 24, 1 << 62


class Stream:
    """splitmix64."""

    def __init__(self, seed):
        self.state = seed & WORD

    def word(self):
        """The next 64-bit word."""
        self.state = (self.state + 0x9E3779B97F4A7C15) & WORD
        z = self.state
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            z = ((z ^ (z >> shift)) * factor) & WORD
        return z ^ (z >> 31)

    def draw(self, low, high):
        """A value in low ..= high."""
        return low + self.word() % (high - low + 1)

    def pick(self, values):
        """One of the values."""
        return values[self.word() % len(values)]


class Budget:
    """What the rows of one file may still hold."""

    def __init__(self, left=MAX_FILE):
        self.left = left

    def spend(self, count):
        """Counts values."""
        need(count <= MAX_ROW, 'a row of more than 2^20 values')
        self.left -= count
        need(self.left >= 0, 'rows of more than 2^24 values together')


def _simple(row, budget):
    if isinstance(row, list):
        budget.spend(len(row))
        return [integer(v, what='a value of a row') for v in row]
    need(isinstance(row, dict) and len(row) == 1, 'a row is a list or one recipe')
    (kind, recipe), = row.items()
    need(kind in ('fill', 'splitmix64'), 'the recipe %r is unknown here' % kind)
    if kind == 'fill':
        members(recipe, ('value', 'count'))
    else:
        members(recipe, ('seed', 'count', 'low', 'high'))
    count = integer(recipe['count'], 1, MAX_ROW, 'count')
    budget.spend(count)
    if kind == 'fill':
        return [integer(recipe['value'], what='value')] * count
    low = integer(recipe['low'], -VALUE, VALUE, 'low')
    high = integer(recipe['high'], low, VALUE, 'high')
    stream = Stream(integer(recipe['seed'], 0, WORD, 'seed'))
    return [stream.draw(low, high) for _ in range(count)]


def expand(row, budget):
    """The values of a row."""
    if isinstance(row, dict) and list(row) == ['join']:
        parts = [_simple(part, budget) for part in listed(row['join'], 'join')]
        need(0 < sum(map(len, parts)) <= MAX_ROW, 'a joined row has 1 to 2^20 values')
        return [value for part in parts for value in part]
    return _simple(row, budget)
