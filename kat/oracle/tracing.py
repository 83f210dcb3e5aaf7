"""Traces of every intermediate row (spec 7.10) and digests of residuals and logits (7.3)."""
import json
import platform

import commitment
from keccak import int32_bytes, int64_bytes, keccak256_many
from model import Cache

RESIDUALS = ('embed', 'mlp_residual')


class DigestRun:
    """A prompt fed with the layer and logits digests of every position."""

    def __init__(self, model, prompt, layers=True, logits=True):
        self._rows = []
        self.cache, self.residual = Cache(model.config), None
        counts = []
        for token in prompt:
            start = len(self._rows)
            self.residual = model.step(self.cache, token, self._residual) if layers else model.step(self.cache, token)
            stages = len(self._rows) - start
            if logits:
                self._rows.append(int32_bytes(model.logits(self.residual)))
            counts.append(stages)
        digests = iter(d.hex() for d in keccak256_many(self._rows))
        self.layers, self.logits = [], []
        for stages in counts:
            self.layers.append([next(digests) for _ in range(stages)])
            if logits:
                self.logits.append(next(digests))
        if not layers:
            self.layers = []

    def _residual(self, layer, op, values):
        if op in RESIDUALS:
            self._rows.append(int32_bytes(values))


def lines(model, blob, prompt, logits='all', values=False):
    """The lines of a trace file. `logits` is all, last or none: the positions whose logits are traced."""
    model.check_prompt(prompt)
    head = {'schema': 'blue-trace-1', 'commitment': commitment.commitment(blob).hex(), 'prompt': list(prompt), 'target': 'oracle',
            'machine': '%s, Python %s' % (platform.machine(), platform.python_version())}
    yield json.dumps(head)
    cache = Cache(model.config)
    for position, token in enumerate(prompt):
        rows = []

        def probe(layer, op, row):
            rows.append((layer, op, list(row)))

        x = model.step(cache, token, probe)
        if logits == 'all' or logits == 'last' and position + 1 == len(prompt):
            model.logits(x, probe)
        digests = keccak256_many([int64_bytes(row) for _, _, row in rows])
        for (layer, op, row), digest in zip(rows, digests):
            line = {'position': position, 'layer': layer, 'op': op, 'count': len(row), 'digest': digest.hex()}
            if values:
                line['values'] = [v if abs(v) < 1 << 53 else str(v) for v in row]
            yield json.dumps(line)
