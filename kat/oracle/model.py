"""One token through the network, and greedy generation (spec 3).

Every function that computes an operation of a layer reports it to a probe, called as
probe(layer or None, op, values); the names and forms of the values are those of spec 7.
"""
from hadamard import had_forward, had_transpose, headroom
from ops import INT16_MAX, INT32_MAX, add_residual, attend, dynq, head_norm, norm_scale, quantize, ratio, rdbpot, requantize, rms, \
    rope, rope_angle, sat, swiglu

HIDDEN_LIMIT, GATE_LIMIT = 1 << 22, 1 << 26


class Halt(Exception):
    """A refused call: args[0] is the consensus name; for TokenOutOfRange position and id follow (3.5)."""


def no_probe(layer, op, values):
    """The probe of a plain run."""


def linear(w, codes, scale, limit):
    """An int8 matrix times a row of codes, requantised for each output (3.2)."""
    return [requantize(acc, w.psh, scale, mult, shift, limit) for acc, mult, shift in zip(w.packed.product(codes), w.mult, w.shift)]


def dynamic_norm(x, eps):
    """(codes, scale) of a normalised row, quantised by its own maximum (3.3)."""
    codes, m = dynq(x)
    return codes, ratio(m, *rms(x, eps))


def static_norm(x, eps, c):
    """(codes, scale) of a normalised row, quantised by the root times c / 2^16 (3.3, static)."""
    r, e = rms(x, eps)
    m = max(1, min(INT32_MAX, (r * c) >> (16 + e)))
    return quantize(x, m), ratio(m, r, e)


def reduced(x, block):
    """(values, shift): the row shifted right just enough for a rotation in blocks of `block`."""
    shift = max(0, max(map(abs, x)).bit_length() - headroom(block))
    return [rdbpot(v, shift) for v in x], shift


def heads_of(row, width):
    """The row cut into heads."""
    return [row[i:i + width] for i in range(0, len(row), width)]


def argmax(values, accepted_ids):
    """The lowest accepted id with the largest logit (3.5)."""
    best = 0
    for index in range(1, accepted_ids):
        if values[index] > values[best]:
            best = index
    return best


class Cache:
    """For each layer and kv head the lists k8, mk, v8, mv; and the number of positions fed."""

    def __init__(self, config):
        self.length = 0
        self.layers = [[([], [], [], []) for _ in range(config['kv_heads'])] for _ in range(config['layers'])]


class Model:
    """An accepted blob's function."""

    def __init__(self, weights):
        self.weights, self.config = weights, weights.config
        block = weights.head_block
        self.head_shift = next(r for r in range(9) if 4 ** r >= block)

    def step(self, cache, token, probe=no_probe):
        """Feeds one accepted id at the next position; returns the residual (3.4)."""
        w = self.weights
        cos_sin = [rope_angle(phase, cache.length) for phase in w.rope_phase]
        mult, shift = w.embed.mult[token], w.embed.shift[token]
        x = [requantize(code << 24, 0, None, mult, shift, INT32_MAX) for code in w.embed.row(token)]
        probe(None, 'embed', x)
        for index, (layer, store) in enumerate(zip(w.layers, cache.layers)):
            x = self._attention(index, layer, store, x, cos_sin, probe)
            x = self._mlp(index, layer, x, probe)
        cache.length += 1
        return x

    def _norm(self, index, op, x, constant, probe):
        eps = self.config['eps']
        codes, scale = dynamic_norm(x, eps) if constant is None else static_norm(x, eps, constant)
        probe(index, op, codes + list(scale))
        return codes, scale

    def _attention(self, index, layer, store, x, cos_sin, probe):
        c, statics = self.config, layer.statics
        width, normed = c['head_dim'], bool(c['qk_norm'])
        codes, scale = self._norm(index, 'attn_norm', x, statics and statics.c_attn_norm, probe)
        # With q/k norm the token scale cancels and is left out.
        projected = (None, INT32_MAX) if normed else (scale, HIDDEN_LIMIT)
        q, k = linear(layer.q, codes, *projected), linear(layer.k, codes, *projected)
        v = linear(layer.v, codes, scale, INT16_MAX)
        for op, row in (('q', q), ('k', k), ('v', v)):
            probe(index, op, row)
        q, k, v = heads_of(q, width), heads_of(k, width), heads_of(v, width)
        if normed:
            q, k = [head_norm(h, layer.q_gain) for h in q], [head_norm(h, layer.k_gain) for h in k]
            probe(index, 'q_norm', sum(q, []))
            probe(index, 'k_norm', sum(k, []))
        q, k = ([self._rope(h, cos_sin) for h in heads] for heads in (q, k))
        probe(index, 'q_rope', sum(q, []))
        probe(index, 'k_rope', sum(k, []))
        q, k = ([self._rotate(h) for h in heads] for heads in (q, k))
        probe(index, 'q_rotate', sum(q, []))
        probe(index, 'k_rotate', sum(k, []))
        q, k, v = ([dynq(h) for h in heads] for heads in (q, k, v))
        for op, heads in (('q_quant', q), ('k_quant', k), ('v_quant', v)):
            probe(index, op, [value for head, m in heads for value in head + [m]])
        for (k8, mk, v8, mv), (key, key_max), (value, value_max) in zip(store, k, v):
            k8.append(key)
            mk.append(key_max)
            v8.append(value)
            mv.append(value_max)
        group = c['heads'] // c['kv_heads']
        out = []
        for head, (codes, m) in enumerate(q):
            out += attend(codes, m, *store[head // group], layer.score_mult, layer.score_shift)
        probe(index, 'attend', out)
        codes, m = dynq(out) if statics is None else (quantize(out, statics.m_o), statics.m_o)
        scale = norm_scale(m)
        probe(index, 'o_quant', codes + list(scale))
        return self._add(index, 'o', 'attn_residual', layer.o, codes, scale, x, probe)

    def _rope(self, row, cos_sin):
        y = rope(row, cos_sin)
        return [sat(v, INT16_MAX) for v in y] if self.config['qk_norm'] else y

    def _rotate(self, row):
        return [sat(rdbpot(v, self.head_shift), INT16_MAX) for v in had_forward(row, self.weights.head_block)]

    def _mlp(self, index, layer, x, probe):
        statics, block = layer.statics, self.weights.down_block
        codes, scale = self._norm(index, 'mlp_norm', x, statics and statics.c_mlp_norm, probe)
        gate = linear(layer.gate, codes, scale, GATE_LIMIT)
        up = linear(layer.up, codes, scale, GATE_LIMIT)
        h = [swiglu(g, u) for g, u in zip(gate, up)]
        for op, row in (('gate', gate), ('up', up), ('swiglu', h)):
            probe(index, op, row)
        if statics is None:
            h, shift = reduced(h, block)
        else:
            shift, bound = statics.c_down, 1 << headroom(block)
            h = [sat(rdbpot(v, shift), bound) for v in h]
        h = had_forward(h, block)
        probe(index, 'mlp_rotate', h)
        codes, m = dynq(h) if statics is None else (quantize(h, statics.m_down), statics.m_down)
        t, e = norm_scale(m)
        scale = (t, e - shift)
        probe(index, 'mlp_quant', codes + list(scale))
        return self._add(index, 'down', 'mlp_residual', layer.down, codes, scale, x, probe)

    def _add(self, index, op, sum_op, w, codes, scale, x, probe):
        y = linear(w, codes, scale, INT32_MAX)
        probe(index, op, y)
        x = add_residual(x, y)
        probe(index, sum_op, x)
        return x

    def logits(self, x, probe=no_probe):
        """The Q16 logits of a residual (3.4)."""
        w, block = self.weights, self.weights.hidden_block
        r, e = rms(x, self.config['eps'])
        y, first = reduced(x, block)
        y = had_transpose(y, block)
        probe(None, 'head_unrotate', y)
        y = [v * g for v, g in zip(y, w.final_gain)]
        probe(None, 'head_gain', y)
        y, second = reduced(y, block)
        y = had_forward(y, block)
        probe(None, 'head_rotate', y)
        codes, m = dynq(y)
        t, te = ratio(m, r, e)
        scale = (t, te - first - second)
        probe(None, 'head_quant', codes + list(scale))
        out = linear(w.head, codes, scale, INT32_MAX)
        probe(None, 'logits', out)
        return out

    def check_prompt(self, prompt):
        """Raises the Halt of a refused prompt (3.5)."""
        if not prompt:
            raise Halt('EmptyPrompt')
        if len(prompt) > self.config['max_context']:
            raise Halt('ContextExceeded')
        for position, token in enumerate(prompt):
            if not 0 <= token < self.config['accepted_ids']:
                raise Halt('TokenOutOfRange', position, token)

    def prefill(self, prompt, probe=no_probe):
        """(cache, residual) after an accepted prompt."""
        cache, x = Cache(self.config), None
        for token in prompt:
            x = self.step(cache, token, probe)
        return cache, x

    def decode(self, cache, x, max_new):
        """(new ids, 'stop' | 'length' | 'context') after the positions in the cache, the last with residual x (3.5)."""
        made = []
        while len(made) < max_new:
            if made:
                x = self.step(cache, made[-1])
            if cache.length == self.config['max_context']:
                return made, 'context'
            made.append(argmax(self.logits(x), self.config['accepted_ids']))
            if made[-1] in self.config['stop_ids']:
                return made, 'stop'
        return made, 'length'

    def generate(self, prompt, max_new):
        """The new ids and the finish of a prompt; raises Halt (3.5)."""
        self.check_prompt(prompt)
        return self.decode(*self.prefill(prompt), max_new)
