#!/usr/bin/env python3
"""Training data of tiny-austen: Jane Austen's six novels, from Debian's r-cran-janeaustenr.

Usage: data.py OUT_DIR        needs apt-get, dpkg-deb and the PyPI package tokenizers
Writes train.txt and heldout.txt (one paragraph a line, <|endoftext|> between chapters), tokenizer.json (byte-level BPE with
1,536 ids) and train.ids, heldout.ids (little-endian uint16).
"""
import array
import bz2
import glob
import lzma
import os
import re
import struct
import subprocess
import sys
import tempfile
import zlib

NOVELS = ['emma', 'mansfield_park', 'northanger_abbey', 'persuasion', 'pride_and_prejudice', 'sense_and_sensibility']
SPECIAL = ['<|endoftext|>', '<|im_start|>', '<|im_end|>']
VOCAB = 1536
HELD_OUT = (20, 9)  # of every 20 chapters of a book, the one with index 9


def objects(rdb):
    """Yields the decompressed objects of an R lazy-load file: big-endian length, then a type letter or zlib data."""
    at = 0
    while at < len(rdb):
        kind = rdb[at + 4:at + 5]
        stream = {b'2': bz2.BZ2Decompressor, b'Z': lzma.LZMADecompressor}.get(kind, zlib.decompressobj)()
        skip = 5 if kind in (b'2', b'Z') else 4
        yield stream.decompress(rdb[at + skip:])
        at = len(rdb) - len(stream.unused_data)


def character_vector(data):
    """The strings of a serialised R character vector (type 16, elements of type 9), or None."""
    version, = struct.unpack_from('>i', data, 2)
    at = 14
    if version == 3:
        at += 4 + struct.unpack_from('>i', data, at)[0]
    flags, count = struct.unpack_from('>ii', data, at)
    if flags & 255 != 16:
        return None
    at += 8
    lines = []
    for _ in range(count):
        size, = struct.unpack_from('>i', data, at + 4)
        lines.append(data[at + 8:at + 8 + max(size, 0)].decode('utf-8'))
        at += 8 + max(size, 0)
    return lines


def novels():
    with tempfile.TemporaryDirectory() as tmp:
        os.chmod(tmp, 0o755)
        if subprocess.run(['apt-get', '-o', 'APT::Sandbox::User=root', 'download', '-qq', 'r-cran-janeaustenr'], cwd=tmp).returncode:
            subprocess.run(['apt-get', 'update', '-qq'], check=True)
            subprocess.run(['apt-get', '-o', 'APT::Sandbox::User=root', 'download', '-qq', 'r-cran-janeaustenr'], cwd=tmp, check=True)
        subprocess.run(['dpkg-deb', '-x', glob.glob(tmp + '/*.deb')[0], tmp], check=True)
        with open(tmp + '/usr/lib/R/site-library/janeaustenr/data/Rdata.rdb', 'rb') as f:
            books = [b for b in map(character_vector, objects(f.read())) if b]
    assert len(books) == len(NOVELS), len(books)
    return ['\n'.join(b) for b in books]


def chapters(name, text):
    if name == 'northanger_abbey':
        text = text[:text.index('A NOTE ON THE TEXT')]
    text = text.replace('_', '').replace('\t', ' ').replace('\r', '')
    for part in re.split(r'(?im)^\s*chapter\s+[ivxlc\d]+\.?\s*$', text)[1:]:
        part = re.sub(r'(?im)^\s*(volume [ivx]+|finis|the end)\s*$', '', part)
        paragraphs = [' '.join(p.split()) for p in re.split(r'\n\s*\n', part)]
        chapter = '\n\n'.join(p for p in paragraphs if p.strip('* ')) + '\n'
        if len(chapter) > 200:
            yield chapter


def bpe(texts):
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    pattern = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), 'isolated'),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=VOCAB - len(SPECIAL), initial_alphabet=alphabet, show_progress=False))
    t.add_special_tokens(SPECIAL)
    return t


def main(out):
    os.makedirs(out, exist_ok=True)
    parts = {'train': [], 'heldout': []}
    for name, text in zip(NOVELS, novels()):
        for i, chapter in enumerate(chapters(name, text)):
            parts['heldout' if i % HELD_OUT[0] == HELD_OUT[1] else 'train'].append(chapter)
    tokenizer = bpe(parts['train'])
    tokenizer.save(os.path.join(out, 'tokenizer.json'))
    end = tokenizer.token_to_id(SPECIAL[0])
    for name, texts in parts.items():
        ids = array.array('H', [end])
        for encoded in tokenizer.encode_batch(texts):
            ids.extend(encoded.ids + [end])
        if sys.byteorder == 'big':
            ids.byteswap()
        with open(os.path.join(out, name + '.ids'), 'wb') as f:
            ids.tofile(f)
        with open(os.path.join(out, name + '.txt'), 'w', encoding='utf-8') as f:
            f.write((SPECIAL[0] + '\n').join(texts))
        print(f'{name}: {len(texts)} chapters, {sum(map(len, texts))} characters, {len(ids)} tokens')


if __name__ == '__main__':
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
