"""Calls of the library that the cases of checks are tried on.

Each function makes one call from a number of rows and of tokens: the module or function
and its tensors. Where a mask is taken it holds integers, where positions are taken they
are given: what costs most to check.
"""

import torch

from lib.alibi import alibi_attention, alibi_bias, alibi_slopes
from lib.attention import MultiHeadAttention, attention, causal_attention
from lib.kv_cache import decode_positions
from lib.learned import LearnedPositionalEmbedding, positions_from_mask
from lib.one_hot import one_hot, one_hot_lookup
from lib.sinusoidal import SinusoidalPositionalEncoding
from lib.t5_bias import T5RelativeBias, t5_buckets
from lib.token_embedding import TokenEmbedding


def ids(batch, tokens):
    return torch.randint(0, 7, (batch, tokens))


def mask(batch, tokens):
    return (torch.arange(tokens) > 0).long().expand(batch, tokens).clone()


def places(batch, tokens):
    return torch.arange(tokens).expand(batch, tokens).clone()


def heads(batch, tokens):
    return [torch.randn(batch, count, tokens, 8) for count in (4, 2, 2)]


def embedding(batch, tokens):
    return TokenEmbedding(7, 4, padding_idx=1, scale=2.0), [ids(batch, tokens)]


def one_hot_vectors(batch, tokens):
    return lambda ids: one_hot(ids, 7), [ids(batch, tokens)]


def one_hot_product(batch, tokens):
    table = torch.randn(7, 4)
    return lambda ids: one_hot_lookup(ids, table), [ids(batch, tokens)]


def learned(batch, tokens):
    module = LearnedPositionalEmbedding(4096, 4, offset=2)
    return module, [places(batch, tokens)]


def counted(batch, tokens):
    return positions_from_mask, [mask(batch, tokens)]


def sinusoidal(batch, tokens):
    module = SinusoidalPositionalEncoding(6, 4)
    return module, [torch.randn(batch, tokens, 6), places(batch, tokens)]


def sinusoidal_in_order(batch, tokens):
    module = SinusoidalPositionalEncoding(6, 4096)
    return module, [torch.randn(batch, tokens, 6)]


def plain_attention(batch, tokens):
    visible = mask(batch, tokens).bool()[:, None, None]
    bias = torch.randn(batch, 4, 1, tokens)
    return attention, [*heads(batch, tokens), visible, bias]


def causal(batch, tokens):
    return causal_attention, heads(batch, tokens)


def causal_masked(batch, tokens):
    def call(q, k, v, mask, now, held):
        return causal_attention(q, k, v, mask, None, now, held)

    positions = places(batch, tokens), places(batch, tokens)
    return call, [*heads(batch, tokens), mask(batch, tokens), *positions]


def multi_head(batch, tokens):
    module = MultiHeadAttention(16, num_heads=4, num_kv_heads=2)
    return module, [torch.randn(batch, tokens, 16), mask(batch, tokens)]


def multi_head_full(batch, tokens):
    module = MultiHeadAttention(16, num_heads=4, causal=False)
    return module, [torch.randn(batch, tokens, 16), mask(batch, tokens)]


def alibi(batch, tokens):
    slopes = alibi_slopes(4)
    return lambda q, k, v: alibi_attention(q, k, v, slopes), heads(batch, tokens)


def alibi_masked(batch, tokens):
    def call(q, k, v, mask):
        return alibi_attention(q, k, v, slopes, mask=mask)

    slopes = alibi_slopes(4)
    return call, [*heads(batch, tokens), mask(batch, tokens)]


def alibi_by_position(batch, tokens):
    def call(q, k, v, mask, now, held):
        return alibi_attention(q, k, v, slopes, now, held, mask)

    slopes = alibi_slopes(4)
    positions = places(batch, tokens), places(batch, tokens)
    return call, [*heads(batch, tokens), mask(batch, tokens), *positions]


def alibi_in_order(batch, tokens):
    def call(q, k, v, mask, now, held):
        return alibi_attention(q, k, v, slopes, now, held, mask, in_order=True)

    slopes = alibi_slopes(4)
    positions = places(batch, tokens), places(batch, tokens)
    return call, [*heads(batch, tokens), mask(batch, tokens), *positions]


def alibi_whole(batch, tokens):
    slopes = alibi_slopes(4)
    positions = [places(batch, tokens), places(batch, tokens)]
    return lambda now, held: alibi_bias(slopes, now, held), positions


def t5(batch, tokens):
    return T5RelativeBias(4), [places(batch, tokens), places(batch, tokens)]


def buckets(batch, tokens):
    return t5_buckets, [places(batch, tokens), places(batch, tokens)]


def decoded(batch, tokens):
    def call(lengths, mask, delta):
        return decode_positions(lengths, 2, mask, delta)

    full = torch.ones(batch, tokens + 2, dtype=torch.long)
    lengths = torch.full((batch,), tokens)
    return call, [lengths, full, torch.zeros(batch, 1, dtype=torch.long)]


CALLS = [
    embedding,
    one_hot_vectors,
    one_hot_product,
    learned,
    counted,
    sinusoidal,
    sinusoidal_in_order,
    plain_attention,
    causal,
    causal_masked,
    multi_head,
    multi_head_full,
    alibi,
    alibi_masked,
    alibi_by_position,
    alibi_in_order,
    alibi_whole,
    t5,
    buckets,
    decoded,
]
