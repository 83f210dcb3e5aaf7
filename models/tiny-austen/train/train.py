#!/usr/bin/env python3
"""Trains a Qwen3-architecture decoder of 2,066,624 parameters on the output of data.py.

Usage: train.py DATA_DIR OUT_DIR [--steps N | --seconds N]      needs the PyPI packages torch, numpy and safetensors
Writes OUT_DIR/model.safetensors (bf16), config.json and log.csv, and prints the held-out loss in nats per token.
"""
import argparse
import csv
import json
import math
import os
import time

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

VOCAB, HIDDEN, MLP, LAYERS, HEADS, KV_HEADS, HEAD_DIM = 1536, 192, 512, 4, 4, 2, 64
THETA, EPS, SEQUENCE, BATCH = 1e4, 1e-6, 256, 4
PEAK_RATE, WARM_UP, FLOOR = 2.5e-3, 100, 0.05


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS))


def rope(x):
    half = HEAD_DIM // 2
    angle = torch.outer(torch.arange(x.shape[-2]), THETA ** (-torch.arange(half) / half))
    cos, sin = angle.cos(), angle.sin()
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(HIDDEN, HEADS * HEAD_DIM, bias=False)
        self.k_proj = nn.Linear(HIDDEN, KV_HEADS * HEAD_DIM, bias=False)
        self.v_proj = nn.Linear(HIDDEN, KV_HEADS * HEAD_DIM, bias=False)
        self.o_proj = nn.Linear(HEADS * HEAD_DIM, HIDDEN, bias=False)
        self.q_norm, self.k_norm = RmsNorm(HEAD_DIM), RmsNorm(HEAD_DIM)

    def forward(self, x):
        split = lambda y, n: y.unflatten(-1, (n, HEAD_DIM)).transpose(1, 2)
        q = rope(self.q_norm(split(self.q_proj(x), HEADS)))
        k = rope(self.k_norm(split(self.k_proj(x), KV_HEADS)))
        v = split(self.v_proj(x), KV_HEADS)
        k, v = (t.repeat_interleave(HEADS // KV_HEADS, 1) for t in (k, v))
        return self.o_proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj = nn.Linear(HIDDEN, MLP, bias=False)
        self.up_proj = nn.Linear(HIDDEN, MLP, bias=False)
        self.down_proj = nn.Linear(MLP, HIDDEN, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_layernorm, self.self_attn = RmsNorm(HIDDEN), Attention()
        self.post_attention_layernorm, self.mlp = RmsNorm(HIDDEN), Mlp()

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCAB, HIDDEN)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = RmsNorm(HIDDEN)
        for name, p in self.named_parameters():
            if p.ndim == 2:
                scale = 1 / math.sqrt(2 * LAYERS) if name.endswith(('o_proj.weight', 'down_proj.weight')) else 1
                nn.init.normal_(p, std=0.02 * scale)

    def loss(self, ids):
        x = self.embed_tokens(ids[:, :-1])
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(F.linear(self.norm(x), self.embed_tokens.weight).flatten(0, 1), ids[:, 1:].flatten())


def batches(ids, seed):
    order = torch.Generator().manual_seed(seed)
    while True:
        offset = int(torch.randint(0, SEQUENCE, (1,), generator=order))
        starts = torch.randperm((len(ids) - 1 - offset) // SEQUENCE, generator=order) * SEQUENCE + offset
        for i in range(0, len(starts) - BATCH + 1, BATCH):
            yield torch.stack([ids[s:s + SEQUENCE + 1] for s in starts[i:i + BATCH]])


@torch.no_grad()
def held_out(model, ids):
    windows = [ids[i:i + SEQUENCE + 1] for i in range(0, len(ids) - SEQUENCE, SEQUENCE)]
    losses = [model.loss(torch.stack(windows[i:i + 16])).item() * len(windows[i:i + 16]) for i in range(0, len(windows), 16)]
    return sum(losses) / len(windows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('data')
    parser.add_argument('out')
    length = parser.add_mutually_exclusive_group()
    length.add_argument('--steps', type=int, default=4553, help='steps; the cosine follows them')
    length.add_argument('--seconds', type=float, help='stop by the clock; the cosine follows it')
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    load = lambda name: torch.from_numpy(np.fromfile(os.path.join(args.data, name), '<u2').astype(np.int64))
    train, heldout = load('train.ids'), load('heldout.ids')
    torch.manual_seed(1234)
    model = Decoder()
    print('parameters', sum(p.numel() for p in model.parameters()))
    decayed = [p for p in model.parameters() if p.ndim == 2]
    others = [p for p in model.parameters() if p.ndim < 2]
    optimizer = torch.optim.AdamW([{'params': decayed, 'weight_decay': 0.1}, {'params': others, 'weight_decay': 0.0}],
                                  lr=PEAK_RATE, betas=(0.9, 0.95), eps=1e-8)
    start, average, source = time.time(), None, batches(train, 99)
    with open(os.path.join(args.out, 'log.csv'), 'w', newline='') as f:
        log = csv.writer(f)
        log.writerow(['step', 'seconds', 'tokens', 'lr', 'train_loss', 'held_loss'])
        step, last = 0, False
        while not last:
            step += 1
            elapsed = time.time() - start
            progress = min(1, elapsed / args.seconds) if args.seconds else (step - 1) / args.steps
            last = progress >= 1 if args.seconds else step == args.steps
            rate = PEAK_RATE * min(1, step / WARM_UP) * (FLOOR + (1 - FLOOR) * (1 + math.cos(math.pi * progress)) / 2)
            for group in optimizer.param_groups:
                group['lr'] = rate
            loss = model.loss(next(source))
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            average = loss.item() if average is None else 0.98 * average + 0.02 * loss.item()
            if step % 50 == 0 or last:
                held = f'{held_out(model, heldout):.4f}' if step % 500 == 0 or last else ''
                row = [step, f'{time.time() - start:.1f}', step * BATCH * SEQUENCE, f'{rate:.6f}', f'{average:.4f}', held]
                log.writerow(row)
                f.flush()
                print(*row, flush=True)
    tensors = {'model.' + n: p.detach().to(torch.bfloat16).contiguous() for n, p in model.named_parameters()}
    save_file(tensors, os.path.join(args.out, 'model.safetensors'), metadata={'format': 'pt'})
    config = dict(architectures=['Qwen3ForCausalLM'], model_type='qwen3', vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=MLP,
                  num_hidden_layers=LAYERS, num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, head_dim=HEAD_DIM,
                  max_position_embeddings=512, rms_norm_eps=EPS, rope_theta=THETA, rope_scaling=None, tie_word_embeddings=True,
                  attention_bias=False, hidden_act='silu', use_sliding_window=False, eos_token_id=VOCAB - 3, torch_dtype='bfloat16')
    with open(os.path.join(args.out, 'config.json'), 'w') as f:
        json.dump(config, f, indent=1)


if __name__ == '__main__':
    main()
