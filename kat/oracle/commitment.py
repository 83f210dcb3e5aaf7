"""The Merkle commitment of spec 5, iteratively: no function calls itself."""
from keccak import keccak256, keccak256_many

RECORD = 1024
CHUNK = 65536
TAG = b'blue.commitment.v1'


def chunk_bounds(total_len):
    """(start, end) of each chunk of a blob of total_len bytes (5.1)."""
    return [(0, min(RECORD, total_len))] + [(a, min(a + CHUNK, total_len)) for a in range(RECORD, total_len, CHUNK)]


def leaves(blob):
    """The leaf hashes of a blob (5.2)."""
    return keccak256_many([b'\x00' + bytes(blob[a:b]) for a, b in chunk_bounds(len(blob))])


def node(left, right):
    """The hash of an inner node (5.2)."""
    return keccak256(b'\x01' + left + right)


def tree_root(hashes):
    """The root: full subtrees are merged as they complete, the rest folded from the right (5.2)."""
    stack = []
    for count, leaf in enumerate(hashes, 1):
        while count % 2 == 0:
            leaf, count = node(stack.pop(), leaf), count // 2
        stack.append(leaf)
    root = stack.pop()
    while stack:
        root = node(stack.pop(), root)
    return root


def seal(total_len, root):
    """The commitment of a length and a root (5.2)."""
    return keccak256(b'\x02' + TAG + total_len.to_bytes(8, 'big') + root)


def commitments(blobs):
    """The 32-byte commitments of some blobs, whose chunks are hashed together."""
    chunks = [b'\x00' + bytes(blob[a:b]) for blob in blobs for a, b in chunk_bounds(len(blob))]
    hashes = iter(keccak256_many(chunks))
    return [seal(len(blob), tree_root([next(hashes) for _ in chunk_bounds(len(blob))])) for blob in blobs]


def commitment(blob):
    """The 32-byte commitment of a blob."""
    return commitments([blob])[0]


def prove(hashes, index):
    """The sibling hashes of a leaf from the leaf upwards (5.3)."""
    proof, low, high = [], 0, len(hashes)
    while high - low > 1:
        half = 1
        while 2 * half < high - low:
            half *= 2
        middle = low + half
        if index < middle:
            proof.append(tree_root(hashes[middle:high]))
            high = middle
        else:
            proof.append(tree_root(hashes[low:middle]))
            low = middle
    return proof[::-1]


def root_from_proof(leaf, index, count, proof):
    """The root that a proof implies, or None where its length is wrong.

    The walk goes upwards: `index` and `last` are the numbers of this node and of the level's last
    one. A last node with an even number has no sibling on its level and rises unchanged.
    """
    last = count - 1
    for sibling in proof:
        if last == 0:
            return None
        while index % 2 == 0 and index == last:
            index, last = index // 2, last // 2
        leaf = node(sibling, leaf) if index % 2 else node(leaf, sibling)
        index, last = index // 2, last // 2
    return leaf if last == 0 else None


def verify_chunk(expected, total_len, index, chunk, proof):
    """Whether `chunk` is chunk `index` of the blob of total_len bytes that has the expected commitment."""
    if not RECORD < total_len < 1 << 64:
        return False
    count = 1 + (total_len - RECORD + CHUNK - 1) // CHUNK
    if not 0 <= index < count:
        return False
    size = RECORD if index == 0 else min(CHUNK, total_len - RECORD - (index - 1) * CHUNK)
    if len(chunk) != size:
        return False
    root = root_from_proof(keccak256(b'\x00' + bytes(chunk)), index, count, proof)
    return root is not None and seal(total_len, root) == expected
