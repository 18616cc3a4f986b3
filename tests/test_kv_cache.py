"""`lib.kv_cache`: step by step gives what the whole sequence at once gives."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.alibi import alibi_bias, alibi_slopes
from lib.kv_cache import KVCache, decode_positions
from lib.learned import LearnedPositionalEmbedding
from lib.mrope import mrope_cos_sin, mrope_position_ids
from lib.rope import RotaryEmbedding, apply_rope, rope_inv_freq
from lib.sinusoidal import SinusoidalPositionalEncoding

HEADS, DIM, TRAINED = 2, 16, 8
WIDTH = HEADS * DIM
STEPS = (9, 1, 1, 3, 1, 1)  # tokens that come at once, first the prompt


@dataclass(frozen=True)
class Encoding:
    """What an encoding does to hidden states, to q and k, and to scores."""

    add: Callable = lambda x, positions: x  # x [B, n, WIDTH]
    turn: Callable = lambda x, positions: x  # x [B, H, n, DIM]
    bias: Callable = lambda q_positions, k_positions: 0.0  # [B, H, q, k]
    turn_at_read: bool = False  # the angles change with the length
    sees_images: bool = False  # positions are [3, B, n]


def rope(turn_at_read=False, **options):
    module = RotaryEmbedding(DIM, **options)
    return Encoding(
        turn=lambda x, positions: module(x, x, positions)[0], turn_at_read=turn_at_read
    )


def scaled(**rope_parameters):
    return rope(
        turn_at_read=True,
        rope_parameters=rope_parameters,
        max_position_embeddings=TRAINED,
    )


def mrope(section, interleaved):
    inv_freq = rope_inv_freq(2 * sum(section))

    def turn(x, positions):
        return apply_rope(x, *mrope_cos_sin(positions, inv_freq, section, interleaved))

    return Encoding(turn=turn, sees_images=True)


def sinusoidal():
    """A table of the first rows; later ones are computed as they come."""
    wave = SinusoidalPositionalEncoding(WIDTH, max_len=TRAINED)
    return Encoding(add=lambda x, positions: wave.to(x.device)(x, positions))


def learned(offset=0):
    """One row for each token, and not one more."""
    table = LearnedPositionalEmbedding(sum(STEPS), WIDTH, offset=offset, std=1.0)
    return Encoding(add=lambda x, positions: x + table.to(x.device)(positions).detach())


def alibi():
    """What a distance costs, and −inf at later keys."""
    slopes = alibi_slopes(HEADS)
    return Encoding(
        bias=lambda q_places, k_places: alibi_bias(slopes, q_places, k_places)
    )


PAIRS = DIM // 2
LONGROPE = {
    "rope_type": "longrope",
    "short_factor": [1.0 + 0.1 * i for i in range(PAIRS)],
    "long_factor": [2.0 + i for i in range(PAIRS)],
    "original_max_position_embeddings": TRAINED,
    "factor": 4.0,
}

# Every encoding of the book stands here: one that adds to the hidden states fills in
# `add`, one that changes the scores `bias`.
ENCODINGS = {
    "none": Encoding(),
    "sinusoidal": sinusoidal(),
    "learned": learned(),
    "learned, offset": learned(offset=2),
    "alibi": alibi(),
    "rope, half": rope(),
    "rope, interleaved": rope(layout="interleaved"),
    "rope, partial": rope(partial_rotary_factor=0.5),
    "rope, dynamic": scaled(rope_type="dynamic", factor=2.0),
    "rope, longrope": scaled(**LONGROPE),
    "mrope, blocks": mrope((2, 3, 3), interleaved=False),
    "mrope, interleaved": mrope((4, 2, 2), interleaved=True),
}


def attend(encoding, q, k, v, q_positions, k_positions, visible):
    """Softmax attention in float64; visible is [B, q, k]."""
    scores = q.double() @ k.double().transpose(-1, -2) / DIM**0.5  # [B, H, q, k]
    scores = scores + encoding.bias(q_positions, k_positions)
    scores = scores.masked_fill(~visible[:, None], -torch.inf)
    return scores.softmax(-1).nan_to_num(0) @ v.double()  # rows of padding see nothing


class Layer:
    """One attention layer, with hidden states of its own instead of an earlier layer's.

    Where the angles change with the length, what an earlier layer gave at a shorter
    length is another thing than what the full pass gives: only scores can agree.
    """

    def __init__(self, generator, shape, device):
        def draw(*size):
            return torch.randn(*size, generator=generator).to(device)

        self.x = draw(*shape, WIDTH)  # [B, T, WIDTH]
        self.weights = [draw(WIDTH, WIDTH) / WIDTH**0.5 for _ in range(3)]

    def project(self, encoding, tokens, positions):
        x = encoding.add(self.x[:, tokens], positions)
        heads = [
            (x @ w).unflatten(-1, (HEADS, DIM)).transpose(1, 2) for w in self.weights
        ]
        return heads  # q, k, v, each [B, H, n, DIM]


class Batch:
    """Three rows of 16 tokens; with images, each has one of 2 × 3 at its start."""

    steps, length = STEPS, sum(STEPS)

    def __init__(self, sees_images, padding, device):
        pads = torch.tensor([2, 0, 1] if padding == "left" else [0, 0, 0])[:, None]
        place = torch.arange(self.length)
        self.mask = (place >= pads).long().to(device)  # [B, T]
        self.types = torch.zeros_like(self.mask)
        self.grids = None
        if sees_images:
            self.types[:, 3:9] = 1
            self.grids = torch.tensor([[1, 4, 6]] * 3, device=device)

    def all_positions(self, length):
        """Positions of the first tokens, as the whole sequence at once has them."""
        mask = self.mask[:, :length]
        if self.grids is None:
            return (mask.cumsum(1) - 1).clamp(min=0), None
        return mrope_position_ids(self.types[:, :length], self.grids, mask=mask)

    def visible(self, length, gone):
        """Real keys up to the query that have not been dropped, [B, q, k]."""
        place = torch.arange(length, device=self.mask.device)
        seen = (place <= place[:, None]) & (place >= gone)
        return seen & (self.mask[:, None, :length] > 0)


def full_pass(encoding, layer, batch, length, gone):
    """The outputs of the first `length` tokens, with the first `gone` keys dropped."""
    positions, _ = batch.all_positions(length)
    q, k, v = layer.project(encoding, slice(0, length), positions)
    q, k = encoding.turn(q, positions), encoding.turn(k, positions)
    visible = batch.visible(length, gone)
    return attend(encoding, q, k, v, positions, positions, visible)


def step_by_step(encoding, layers, batch, window):
    """Yield layer, tokens so far, keys dropped so far and the new tokens' outputs."""
    cache, gone, delta = KVCache(len(layers)), 0, None
    shape = (3, 3, 0) if encoding.sees_images else (3, 0)
    positions = batch.mask.new_zeros(shape)  # of every token so far
    for n in batch.steps:
        start, end = cache.seq_len, cache.seq_len + n
        drop = min(max(0, end - window), start) - gone
        cache.evict(drop)
        gone += drop
        if encoding.sees_images and start == 0:
            new, delta = batch.all_positions(n)
        else:
            new = decode_positions(start, n, batch.mask[:, :end], delta)
        positions = torch.cat([positions, new], dim=-1)
        kept = positions[..., gone:]
        visible = batch.visible(end, gone)[:, start:, gone:]
        for i, layer in enumerate(layers):
            assert cache.seq_len == start  # until the last layer has its tokens
            q, k, v = layer.project(encoding, slice(start, end), new)
            if not encoding.turn_at_read:
                k = encoding.turn(k, new)
            k, v = cache.update(i, k, v)
            if encoding.turn_at_read:
                k = encoding.turn(k, kept)
            q = encoding.turn(q, new)
            yield i, end, gone, attend(encoding, q, k, v, new, kept, visible)


def largest_difference(encoding, padding="left", window=16, device="cpu"):
    batch = Batch(encoding.sees_images, padding, device)
    generator = torch.manual_seed(0)
    layers = [Layer(generator, batch.mask.shape, device) for _ in range(2)]
    errors = []
    for i, end, gone, out in step_by_step(encoding, layers, batch, window):
        n = out.shape[2]
        whole = full_pass(encoding, layers[i], batch, end, gone)[:, :, -n:]
        real = batch.mask[:, end - n : end].bool()[:, None, :, None]
        errors.append(((out - whole) * real).abs().max().item())
    assert len(errors) == len(layers) * len(batch.steps)
    return max(errors)


@pytest.mark.parametrize("window", [16, 6])
@pytest.mark.parametrize("padding", ["none", "left"])
@pytest.mark.parametrize("name", ENCODINGS)
def test_step_by_step_is_the_full_pass(name, padding, window, device):
    error = largest_difference(ENCODINGS[name], padding, window, device)
    assert error < 1e-5


@pytest.mark.parametrize("name", ["rope, dynamic", "rope, longrope"])
def test_the_comparison_sees_keys_of_two_lengths(name):
    """Keys rotated as they come are wrong once the length changes the angles."""
    assert largest_difference(replace(ENCODINGS[name], turn_at_read=False)) > 0.05


def count_padding(monkeypatch):
    """Let left padding count as tokens, and forget the delta."""
    right = decode_positions

    def forgetful(cache_len, n, mask, delta):
        if delta is None:
            return right(cache_len, n).expand(len(mask), n)
        return right(cache_len, n, mask, delta * 0)

    monkeypatch.setitem(globals(), "decode_positions", forgetful)


@pytest.mark.parametrize("name", ["sinusoidal", "learned", "mrope, blocks"])
def test_the_comparison_sees_positions_that_are_off(name, monkeypatch):
    count_padding(monkeypatch)
    assert largest_difference(ENCODINGS[name]) > 0.05


@pytest.mark.parametrize("name", ["none", "rope, half", "alibi"])
def test_distances_do_not_notice_left_padding(name, monkeypatch):
    count_padding(monkeypatch)
    assert largest_difference(ENCODINGS[name]) < 1e-5


def scores_of_last_query(rotary, q, k, steps, turn_at_read):
    """Feed k in steps, then score the last query against all keys, [H, T]."""
    cache, start = KVCache(1), 0
    for n in steps:
        positions = decode_positions(start, n)
        new = k[:, :, start : start + n]
        if not turn_at_read:
            _, new = rotary(new, new, positions)
        keys, _ = cache.update(0, new, new)
        start += n
    if turn_at_read:
        _, keys = rotary(keys, keys, decode_positions(0, start))
    last, _ = rotary(q[:, :, -1:], q[:, :, -1:], decode_positions(start - 1, 1))
    return (last @ keys.transpose(-1, -2))[0, :, 0]


@pytest.mark.parametrize(
    ("rope_parameters", "trained", "steps"),
    [
        ({"rope_type": "dynamic", "factor": 2.0}, 64, [1] * 80),
        ({"rope_type": "dynamic", "factor": 2.0}, 8, [5, 7, 20]),
        (LONGROPE, 8, [8, 1]),
        (LONGROPE, 8, [4, 4, 1, 3]),
    ],
)
def test_keys_of_a_growing_length(rope_parameters, trained, steps):
    rotary = RotaryEmbedding(
        DIM, rope_parameters=rope_parameters, max_position_embeddings=trained
    )
    generator = torch.manual_seed(0)
    q, k = torch.randn(2, 1, HEADS, sum(steps), DIM, generator=generator)
    turned_q, turned_k = rotary(q, k, torch.arange(sum(steps)))
    expected = (turned_q[:, :, -1:] @ turned_k.transpose(-1, -2))[0, :, 0]
    got = scores_of_last_query(rotary, q, k, steps, turn_at_read=True)
    assert (got - expected).abs().max() <= 1e-5
    wrong = scores_of_last_query(rotary, q, k, steps, turn_at_read=False)
    assert (wrong - expected).abs().max() > 1


def test_a_later_start_is_another_rotation():
    """Nothing is kept by length alone: 3 tokens at 0 and 3 tokens at 5 differ."""
    rotary = RotaryEmbedding(DIM)
    x = torch.randn(1, HEADS, 3, DIM, generator=torch.manual_seed(0))
    first, _ = rotary(x, x, decode_positions(0, 3))
    second, _ = rotary(x, x, decode_positions(5, 3))
    assert (first - second).abs().max() > 0.1
    assert torch.equal(second, RotaryEmbedding(DIM)(x, x, torch.arange(5, 8))[0])


# The cache itself.


def numbered(start, n, shape=(2, 3), width=4):
    """Keys whose every entry is the token's number."""
    return torch.arange(start, start + n).float()[:, None].expand(*shape, n, width)


def token_numbers(keys):
    assert (keys == keys[:1, :1, :, :1]).all()
    return keys[0, 0, :, 0].tolist()


@settings(max_examples=50)
@given(
    layers=st.integers(1, 3),
    steps=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 5)), max_size=6),
    order=st.randoms(use_true_random=False),
)
def test_cache_holds_the_newest_in_order(layers, steps, order):
    cache, oldest, total = KVCache(layers), 0, 0
    for n, drop in steps:
        drop = min(drop, total - oldest)
        cache.evict(drop)
        oldest += drop
        for layer in order.sample(range(layers), layers):
            assert cache.seq_len == total
            new = numbered(total, n)
            keys, values = cache.update(layer, new, -new[..., :2])
            assert token_numbers(keys) == [*range(oldest, total + n)]
            assert token_numbers(-values) == [*range(oldest, total + n)]
        total += n
        assert cache.seq_len == total


def test_two_caches_share_nothing_and_no_gradient_is_cut():
    one, two = KVCache(1), KVCache(1)
    k = torch.randn(1, 1, 2, 4, requires_grad=True)
    one.update(0, k, k)
    keys, _ = one.update(0, k, k)
    assert two.seq_len == 0
    keys.sum().backward()
    assert torch.equal(k.grad, torch.full_like(k, 2.0))


@pytest.mark.parametrize("num_layers", [0, -1])
def test_a_cache_has_layers(num_layers):
    with pytest.raises(ValueError, match=f"num_layers.*{num_layers}"):
        KVCache(num_layers)


@pytest.mark.parametrize("layer", [-1, 2])
def test_unknown_layer(layer):
    k = numbered(0, 1)
    with pytest.raises(IndexError, match=f"layer {layer} .*2 layers"):
        KVCache(2).update(layer, k, k)


@pytest.mark.parametrize("n", [-1, 4])
def test_evict_what_is_there(n):
    cache = KVCache(2)
    for layer in range(2):
        cache.update(layer, numbered(0, 3), numbered(0, 3))
    with pytest.raises(ValueError, match=f"evict {n} .*3"):
        cache.evict(n)
    with pytest.raises(ValueError, match=r"evict 1 .*0"):
        KVCache(2).evict(1)
    cache.evict(3)
    assert cache.seq_len == 3
    keys, _ = cache.update(0, numbered(3, 2), numbered(3, 2))
    assert token_numbers(keys) == [3, 4]


def test_a_layer_has_one_turn_a_step():
    cache = KVCache(3)
    k = numbered(0, 2)
    cache.update(0, k, k)
    with pytest.raises(ValueError, match=r"layer 0 .*\[1, 2\]"):
        cache.update(0, k, k)
    with pytest.raises(ValueError, match="layer 2 gets 1 tokens, other layers got 2"):
        cache.update(2, k[:, :, :1], k[:, :, :1])
    for layer in (2, 1):  # a refused update leaves no trace
        keys, _ = cache.update(layer, k, k)
        assert token_numbers(keys) == [0, 1]
    assert cache.seq_len == 2


@pytest.mark.parametrize(
    ("k", "v", "error", "words"),
    [
        (numbered(0, 2), numbered(0, 1), ValueError, ["[2, 3, 2, 4]", "[2, 3, 1, 4]"]),
        (numbered(0, 2)[0], numbered(0, 2)[0], ValueError, ["[3, 2, 4]"]),
        (numbered(0, 1, (1, 3)), numbered(0, 1, (1, 3)), ValueError, ["[1, 3, 1, 4]"]),
        (numbered(0, 1, (2, 1)), numbered(0, 1, (2, 1)), ValueError, ["[2, 1, 1, 4]"]),
        (numbered(0, 1, width=8), numbered(0, 1), ValueError, ["k ", "[2, 3, 1, 8]"]),
        (numbered(0, 1), numbered(0, 1, width=8), ValueError, ["v ", "[2, 3, 1, 8]"]),
        (
            numbered(0, 1).half(),
            numbered(0, 1),
            TypeError,
            ["k ", "float16", "float32"],
        ),
        (numbered(0, 1), numbered(0, 1).double(), TypeError, ["v ", "float64"]),
    ],
)
def test_new_tokens_fit_the_old_ones(k, v, error, words):
    cache = KVCache(1)
    cache.update(0, numbered(0, 3), numbered(0, 3))
    with pytest.raises(error) as caught:
        cache.update(0, k, v)
    assert all(word in str(caught.value) for word in words), caught.value
    assert cache.seq_len == 3


# Positions of the next tokens.


def slow_positions(row, n, delta):
    """Count the real tokens of one row of the mask, one by one."""
    count, positions = 0, []
    for real in row:
        positions.append(count + delta if real else 0)
        count += real
    return positions[len(row) - n :]


@settings(max_examples=100)
@given(
    rows=st.integers(1, 9).flatmap(
        lambda t: st.lists(
            st.lists(st.integers(0, 1), min_size=t, max_size=t), min_size=1, max_size=4
        )
    ),
    data=st.data(),
)
def test_positions_count_real_tokens(rows, data):
    n = data.draw(st.integers(1, len(rows[0])))
    deltas = data.draw(
        st.lists(st.integers(-9, 9), min_size=len(rows), max_size=len(rows))
    )
    past, mask = len(rows[0]) - n, torch.tensor(rows)
    plain = [slow_positions(row, n, 0) for row in rows]
    for given_mask in (mask, mask.bool()):
        assert decode_positions(past, n, given_mask).tolist() == plain
    shifted = [slow_positions(row, n, d) for row, d in zip(rows, deltas, strict=True)]
    got = decode_positions(past, n, mask, torch.tensor(deltas)[:, None])
    assert got.tolist() == [shifted] * 3


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_each_row_has_its_own_length(device, dtype):
    lengths = torch.tensor([3, 5, 0], dtype=dtype, device=device)
    delta = torch.tensor([[-2], [0], [7]], dtype=dtype, device=device)
    positions = decode_positions(lengths, 2)
    assert positions.tolist() == [[3, 4], [5, 6], [0, 1]]
    assert positions.dtype == torch.int64
    assert positions.device.type == device.type
    with_delta = decode_positions(lengths, 2, delta=delta)
    assert with_delta.tolist() == [[[1, 2], [5, 6], [7, 8]]] * 3
    assert with_delta.dtype == torch.int64
    mask = torch.tensor([[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0]], device=device)
    both = decode_positions(lengths[:2], 1, mask)
    assert both.tolist() == [[3], [0]]
    assert decode_positions(5, 1, mask, delta[:2]).tolist() == [[[1], [0]]] * 3


def test_left_padding_counts_for_nothing():
    mask = torch.tensor([[0, 0, 1, 1, 1]])
    assert decode_positions(0, 5, mask).tolist() == [[0, 0, 0, 1, 2]]
    assert decode_positions(4, 1, mask).tolist() == [[2]]


# K7: a length check that looks at the new tokens alone forgets the past.
@pytest.mark.parametrize("dropped", [0, 4])
def test_a_table_counts_what_the_cache_has_seen(dropped):
    cache, table = KVCache(1), LearnedPositionalEmbedding(8, 4)
    cache.update(0, numbered(0, 6), numbered(0, 6))
    cache.evict(dropped)
    assert decode_positions(cache.seq_len, 3).tolist() == [[6, 7, 8]]
    assert table(decode_positions(cache.seq_len, 2)).shape == (1, 2, 4)
    with pytest.raises(IndexError, match="position 8 needs 9 rows, the table has 8"):
        table(decode_positions(cache.seq_len, 3))


def test_one_delta_a_row_reaches_every_axis():
    delta = torch.tensor([[0], [-2]])
    assert decode_positions(6, 2, delta=delta).tolist() == [[[6, 7], [4, 5]]] * 3


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"cache_len": -1}, ValueError, ["cache_len", "-1"]),
        ({"cache_len": torch.tensor([3, -2])}, ValueError, ["cache_len", "-2"]),
        ({"cache_len": torch.tensor(3)}, ValueError, ["cache_len", "[]"]),
        ({"cache_len": torch.tensor([[3]])}, ValueError, ["cache_len", "[1, 1]"]),
        ({"cache_len": 3.0}, TypeError, ["cache_len", "3.0"]),
        ({"cache_len": True}, TypeError, ["cache_len", "True"]),
        ({"cache_len": torch.tensor([3.0])}, TypeError, ["cache_len", "float32"]),
        ({"n": 0}, ValueError, ["n ", "0"]),
        ({"mask": torch.ones(2, 4).long()}, ValueError, ["[B, 5]", "[2, 4]"]),
        ({"mask": torch.ones(5).long()}, ValueError, ["[B, 5]", "[5]"]),
        ({"mask": torch.ones(2, 5)}, TypeError, ["mask", "float32"]),
        ({"mask": torch.full((2, 5), 3)}, ValueError, ["mask", "3"]),
        (
            {"cache_len": torch.tensor([3, 2]), "mask": torch.ones(3, 4).long()},
            ValueError,
            ["[2, 4]", "[3, 4]"],
        ),
        (
            {"cache_len": torch.tensor([3, 2]), "mask": torch.ones(2, 4).long()},
            ValueError,
            ["[3, 2]", "[3, 3]"],
        ),
        ({"delta": torch.zeros(2).long()}, ValueError, ["[B, 1]", "[2]"]),
        ({"delta": torch.zeros(2, 2).long()}, ValueError, ["[B, 1]", "[2, 2]"]),
        ({"delta": torch.zeros(2, 1)}, TypeError, ["delta", "float32"]),
        (
            {"mask": torch.ones(2, 5).long(), "delta": torch.zeros(1, 1).long()},
            ValueError,
            ["[2, 1]", "[1, 1]"],
        ),
        (
            {"cache_len": torch.tensor([3]), "delta": torch.zeros(2, 1).long()},
            ValueError,
            ["[1, 1]", "[2, 1]"],
        ),
    ],
)
def test_bad_input_names_the_number(arguments, error, words):
    with pytest.raises(error) as caught:
        decode_positions(**{"cache_len": 4, "n": 1, **arguments})
    assert all(word in str(caught.value) for word in words), caught.value
