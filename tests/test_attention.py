"""`lib.attention` against a slow float64 loop, and the faults of others."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaAttention

from lib.alibi import alibi_bias
from lib.attention import MultiHeadAttention, attention, causal_attention, visible_keys

HALVES = [torch.float16, torch.bfloat16]
FLOATS = [*HALVES, torch.float32, torch.float64]


def slow(q, k, v, visible, bias=None, scale=None):
    """One query at a time, in Python numbers; `visible(b, i, j)` says who sees whom."""
    batch, heads, queries, width = q.shape
    group = heads // k.shape[1]
    out = torch.zeros(batch, heads, queries, v.shape[3], dtype=torch.float64)
    for b, h, i in itertools.product(range(batch), range(heads), range(queries)):
        keys = [j for j in range(k.shape[2]) if visible(b, i, j)]
        scores = []
        for j in keys:
            dot = float(q[b, h, i].double() @ k[b, h // group, j].double())
            score = dot / math.sqrt(width) if scale is None else dot * scale
            if bias is not None:
                score += float(bias[b % len(bias), h, i, j])
            scores.append(score)
        highest = max(scores, default=0.0)
        weights = [math.exp(score - highest) for score in scores]
        for weight, j in zip(weights, keys, strict=True):
            out[b, h, i] += weight / sum(weights) * v[b, h // group, j].double()
    return out


def draw(batch=2, heads=4, kv_heads=2, queries=5, keys=5, width=8, **options):
    generator = torch.Generator().manual_seed(0)
    shapes = [(heads, queries), (kv_heads, keys), (kv_heads, keys)]
    return [
        torch.randn(batch, *shape, width, generator=generator).to(**options)
        for shape in shapes
    ]


def close(found, expected, dtype=torch.float32):
    tolerance = {torch.float16: 2e-3, torch.bfloat16: 2e-2}.get(dtype, 1e-6)
    assert found.dtype == dtype
    assert (found.cpu().double() - expected).abs().max() < tolerance


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_causal_equals_the_slow_loop(device, dtype, kv_heads):
    q, k, v = draw(kv_heads=kv_heads, dtype=dtype, device=device)
    close(causal_attention(q, k, v), slow(q, k, v, lambda b, i, j: j <= i), dtype)


@pytest.mark.parametrize("dtype", FLOATS)
def test_full_attention_equals_the_slow_loop(device, dtype):
    q, k, v = draw(queries=3, dtype=dtype, device=device)
    close(attention(q, k, v), slow(q, k, v, lambda b, i, j: True), dtype)
    found = attention(q, k, v, scale=0.3)
    close(found, slow(q, k, v, lambda b, i, j: True, scale=0.3), dtype)


@settings(max_examples=30)
@given(st.data())
def test_any_positions_mask_and_bias(data):
    queries, keys = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 5))
    q, k, v = draw(queries=queries, keys=keys)
    numbers = st.integers(-3, 6)
    q_pos = torch.tensor(data.draw(rows(numbers, queries)))
    k_pos = torch.tensor(data.draw(rows(numbers, keys)))
    mask = torch.tensor(data.draw(rows(st.booleans(), keys)))
    bias = torch.randn(2, 4, queries, keys) if data.draw(st.booleans()) else None

    def visible(b, i, j):
        return bool(mask[b, j]) and int(k_pos[b, j]) <= int(q_pos[b, i])

    found = causal_attention(q, k, v, mask, bias, q_pos, k_pos)
    close(found, slow(q, k, v, visible, bias))


def rows(values, length, count=2):
    row = st.lists(values, min_size=length, max_size=length)
    return st.lists(row, min_size=count, max_size=count)


def test_equals_llama_with_grouped_heads():
    config = LlamaConfig(
        hidden_size=32, num_attention_heads=4, num_key_value_heads=2, head_dim=8
    )
    config._attn_implementation = "eager"
    peer = LlamaAttention(config, layer_idx=0).eval()
    ours = MultiHeadAttention(32, 4, num_kv_heads=2)
    with torch.no_grad():
        ours.q.weight.copy_(peer.q_proj.weight)
        ours.k.weight.copy_(peer.k_proj.weight)
        ours.v.weight.copy_(peer.v_proj.weight)
        ours.out.weight.copy_(peer.o_proj.weight)
    x = torch.randn(2, 6, 32)
    unturned = torch.ones(1, 6, 8), torch.zeros(1, 6, 8)  # cos, sin of position 0
    future = torch.full((6, 6), -math.inf).triu(1)
    expected, _ = peer(x, unturned, future[None, None])
    assert torch.allclose(ours(x), expected, atol=1e-6)


# A cached step sees what the full pass saw: queries are the last of the keys.
@pytest.mark.parametrize("start", [0, 1, 4])
@pytest.mark.parametrize("explicit", [False, True])
def test_cached_equals_full(device, start, explicit):
    q, k, v = draw(device=device)
    full = causal_attention(q, k, v)
    positions = torch.arange(start, 5, device=device) if explicit else None
    step = causal_attention(q[:, :, start:], k, v, q_positions=positions)
    assert torch.allclose(step, full[:, :, start:], atol=1e-6)


def test_keys_of_a_window_keep_their_positions(device):
    q, k, v = draw(device=device)
    held = torch.arange(2, 5, device=device)
    places = torch.arange(5, device=device)
    k, v = k[:, :, 2:], v[:, :, 2:]
    found = causal_attention(q, k, v, q_positions=places, k_positions=held)
    close(found, slow(q, k, v, lambda b, i, j: j + 2 <= i))


# Z11: a row that sees nothing is zero, and so is all that it would send back.
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("hidden_rows", [[0], [0, 1], [0, 1, 2, 3, 4]])
def test_fully_masked_rows(device, dtype, with_bias, hidden_rows):
    q, k, v = (x.requires_grad_() for x in draw(dtype=dtype, device=device))
    mask = torch.ones(2, 5, dtype=torch.long, device=device)
    mask[0, hidden_rows] = 0
    bias = torch.randn(1, 4, 5, 5, device=device) if with_bias else None
    out = causal_attention(q, k, v, mask, bias)
    assert out.isfinite().all()
    assert out[0, :, hidden_rows].count_nonzero() == 0
    out.float().square().sum().backward()
    for x in (q, k, v):
        assert x.grad.isfinite().all()
        assert x.grad[0, :, hidden_rows].count_nonzero() == 0
        assert x.grad[1].count_nonzero() > 0


# Some fused kernels make NaN of an empty row, so none is ever handed to them.
@pytest.mark.parametrize("with_bias", [False, True])
def test_no_kernel_gets_an_empty_row(monkeypatch, with_bias):
    seen = []

    def spy(*args, attn_mask, **options):
        allowed = attn_mask if attn_mask.dtype == torch.bool else attn_mask > -math.inf
        seen.append(allowed.any(dim=-1).all().item())
        return scaled_dot_product_attention(*args, attn_mask=attn_mask, **options)

    monkeypatch.setattr("lib.attention.scaled_dot_product_attention", spy)
    places = torch.arange(5)
    bias = alibi_bias(torch.ones(4), places, places) if with_bias else None
    mask = torch.tensor([[0, 0, 1, 1, 1], [0] * 5])
    out = causal_attention(*draw(), mask, bias)
    later = torch.full((5,), 9)  # every key stands after every query
    causal_attention(*draw(), None, bias, places, later)
    if with_bias:
        attention(*draw(), mask.bool()[:, None, None], bias)
    assert seen
    assert all(seen)
    assert out[1].count_nonzero() == 0


# Z13: three masks summed at the type's lowest number overflow; booleans do not.
@pytest.mark.parametrize("dtype", FLOATS)
def test_left_padding_causal_and_bias_in_half(device, dtype):
    q, k, v = draw(queries=8, keys=8, dtype=dtype, device=device)
    mask = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1], [1] * 8], device=device)
    slopes = torch.full((4,), 0.5, device=device)
    places = torch.arange(8, device=device)
    bias = alibi_bias(slopes, places, places, causal=False)
    bias = bias.masked_fill(bias < -3, torch.finfo(torch.float32).min)
    out = causal_attention(q, k, v, mask, bias)
    assert out.isfinite().all()
    bias = bias.cpu()
    close(out, slow(q, k, v, lambda b, i, j: j <= i and bool(mask[b, j]), bias), dtype)
    changed = v.clone()
    changed[0, :, :3] = 1e4  # a masked key has weight 0, not a small one
    assert torch.equal(causal_attention(q, k, changed, mask, bias.to(device)), out)


# Z6: the bias is added after 1/√d, as it is.
def test_bias_is_not_scaled(device):
    q, k, v = draw(width=64, device=device)
    places = torch.arange(5, device=device)
    bias = alibi_bias(torch.full((4,), 0.5), places, places)
    scores = q @ k.repeat_interleave(2, dim=1).mT / math.sqrt(64)
    values = v.repeat_interleave(2, dim=1)
    by_hand = (scores + bias).softmax(-1) @ values
    found = causal_attention(q, k, v, bias=bias)
    assert torch.allclose(found, by_hand, atol=1e-6)
    wrong = (scores + bias / math.sqrt(64)).softmax(-1) @ values
    assert (found - wrong).abs().max() > 1e-2


# Z9: a bias of fp32 is not rounded to the inputs' dtype, not even by autocast.
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("automatic", [False, True])
def test_bias_keeps_its_precision(device, dtype, automatic):
    q, k, v = draw(1, 1, 1, 1, 600, dtype=torch.float32, device=device)
    q, k, v = q.to(dtype) * 0, k.to(dtype), v.to(dtype)
    # Two neighbours of which one wins; half precision would make them equal.
    bias = torch.full((1, 1, 1, 600), -1e4, device=device)
    bias[..., 0], bias[..., 1] = 3000.0, 3001.0
    with torch.autocast(device.type, dtype, enabled=automatic):
        out = causal_attention(q, k, v, bias=bias)
    share = torch.sigmoid(torch.tensor(1.0, device=device))
    expected = share * v[:, :, 1].float() + (1 - share) * v[:, :, 0].float()
    assert torch.allclose(out[:, :, 0].float(), expected, atol=2e-2)


def test_minus_infinity_in_a_bias_hides_the_key(device):
    q, k, v = draw(device=device)
    places = torch.arange(5, device=device)
    bias = alibi_bias(torch.ones(4), places, places)  # −inf at future keys
    mask = torch.tensor([[0, 1, 1, 1, 1], [1, 1, 1, 1, 0]], device=device)
    alone = attention(q, k, v, mask.bool()[:, None, None], bias)
    assert torch.equal(alone, causal_attention(q, k, v, mask, bias))
    assert alone[0, :, 0].count_nonzero() == 0


def test_documents_packed_in_one_row(device):
    q, k, v = draw(1, device=device)
    document = torch.tensor([[0, 0, 1, 1, 1]], device=device)
    same = document[:, :, None] == document[:, None, :]  # [B, Tq, Tk]
    places = torch.tensor([0, 1, 0, 1, 2], device=device)
    found = causal_attention(q, k, v, same, q_positions=places, k_positions=places)
    for piece in (slice(0, 2), slice(2, 5)):
        alone = causal_attention(q[:, :, piece], k[:, :, piece], v[:, :, piece])
        assert torch.allclose(found[:, :, piece], alone, atol=1e-6)


def test_a_mask_of_queries_and_keys(device):
    q, k, v = draw(queries=3, device=device)
    mask = torch.rand(2, 3, 5, generator=torch.Generator().manual_seed(1)) < 0.6
    found = causal_attention(q, k, v, mask.int().to(device))
    close(found, slow(q, k, v, lambda b, i, j: bool(mask[b, i, j]) and j <= i + 2))


@pytest.mark.parametrize("shape", [(1, 4, 5, 5), (2, 4, 5, 5)])
def test_a_learned_bias_gets_its_gradient(shape):
    q, k, v = draw(dtype=torch.float64)
    bias = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[0, 1, 1, 1, 1], [1] * 5])
    assert torch.autograd.gradcheck(
        lambda b: causal_attention(q, k, v, mask, b), (bias,)
    )


def test_gradients_with_a_mask():
    inputs = [x.requires_grad_() for x in draw(dtype=torch.float64, queries=3, keys=4)]
    mask = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])
    assert torch.autograd.gradcheck(
        lambda *qkv: causal_attention(*qkv, mask), tuple(inputs)
    )


# Chapter 7. Full attention moves with its tokens at any depth.
@pytest.mark.parametrize("depth", [1, 2, 5])
def test_full_attention_is_permutation_equivariant(device, depth):
    torch.manual_seed(depth)
    layers = stack(depth, causal=False).to(device)
    x = torch.randn(1, 7, 16, dtype=torch.float64, device=device)
    order = torch.randperm(7, device=device)
    assert torch.allclose(run(layers, x[:, order]), run(layers, x)[:, order])


# One causal layer gives its last token the same set in any order; two do not.
@pytest.mark.parametrize(("depth", "blind"), [(1, True), (2, False), (3, False)])
def test_a_causal_mask_leaks_order_from_two_layers_on(device, depth, blind):
    torch.manual_seed(0)
    layers = stack(depth, causal=True).to(device)
    x = torch.randn(1, 7, 16, dtype=torch.float64, device=device)
    order = torch.tensor([3, 1, 5, 0, 4, 2, 6], device=device)  # the last one stays
    moved = (run(layers, x[:, order]) - run(layers, x))[:, -1].abs().max()
    assert (moved < 1e-12) if blind else (moved > 1e-4)


# A module with a mask: padding changes nothing, wherever it stands.
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("real", [slice(2, 7), slice(0, 5)])
def test_padding_changes_nothing(device, causal, real):
    torch.manual_seed(0)
    layers = stack(2, causal).to(device)
    x = torch.randn(1, 7, 16, dtype=torch.float64, device=device)
    mask = torch.zeros(1, 7, dtype=torch.long, device=device)
    mask[:, real] = 1
    alone, padded = x[:, real], x
    for layer in layers:
        alone, padded = alone + layer(alone), padded + layer(padded, mask)
    assert torch.allclose(padded[:, real], alone)
    noticed = (run(layers, x)[:, real] - alone).abs().max() > 1e-4  # without a mask
    assert noticed == (not causal or real.start > 0)


@pytest.mark.parametrize("causal", [True, False])
def test_packed_documents_do_not_meet(device, causal):
    torch.manual_seed(0)
    layer = stack(1, causal)[0].to(device)
    x = torch.randn(2, 5, 16, dtype=torch.float64, device=device)
    document = torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 1, 1]], device=device)
    packed = layer(x, document[:, :, None] == document[:, None, :])
    for row, cut in ((0, 2), (1, 1)):
        for piece in (slice(0, cut), slice(cut, 5)):
            alone = layer(x[row : row + 1, piece])
            assert torch.allclose(packed[row : row + 1, piece], alone)


@pytest.mark.parametrize("causal", [True, False])
def test_masks_that_a_module_refuses(causal):
    layer, x = MultiHeadAttention(16, 4, causal=causal), torch.randn(2, 5, 16)
    with pytest.raises(ValueError, match=r"mask must be \[2, 5\]"):
        layer(x, torch.ones(2, 4, dtype=torch.long))
    with pytest.raises(ValueError, match="0 and 1, got 2"):
        layer(x, torch.full((2, 5), 2))
    with pytest.raises(TypeError, match="mask must be bool or integers"):
        layer(x, torch.zeros(2, 5))


def stack(depth, causal):
    layers = [MultiHeadAttention(16, 4, 2, causal=causal) for _ in range(depth)]
    return nn.ModuleList(layers).double()


def run(layers, x):
    for layer in layers:
        x = x + layer(x)
    return x


def test_visible_keys():
    seen = visible_keys(torch.tensor([1, 2]), torch.tensor([[0, 1, 2, 3]]))
    assert seen.shape == (1, 1, 2, 4)
    assert seen[0, 0].int().tolist() == [[1, 1, 0, 0], [1, 1, 1, 0]]
    mask = torch.tensor([[0, 1, 1, 1], [1, 1, 0, 1]])
    seen = visible_keys(torch.tensor([1, 2]), torch.arange(4), mask)
    assert seen[1, 0].int().tolist() == [[1, 1, 0, 0], [1, 1, 0, 0]]


@pytest.mark.parametrize("masked", [False, True])
def test_compiles_to_one_graph(masked):
    compiled = torch.compile(causal_attention, fullgraph=True, backend="eager")
    for length in (4, 6):
        q, k, v = draw(queries=length, keys=length)
        mask = torch.ones(2, length, dtype=torch.bool) if masked else None
        assert torch.equal(compiled(q, k, v, mask), causal_attention(q, k, v, mask))


def test_the_plain_causal_call_makes_no_mask(monkeypatch):
    calls = []

    def spy(*args, **options):
        calls.append(options)
        return scaled_dot_product_attention(*args, **options)

    monkeypatch.setattr("lib.attention.scaled_dot_product_attention", spy)
    q, k, v = draw()
    causal_attention(q, k, v)
    causal_attention(q[:, :, -1:], k, v)
    assert [call.get("attn_mask") for call in calls] == [None, None]
    assert [call.get("is_causal") for call in calls] == [True, None]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q": (2, 4, 5)}, r"\[2, 4, 5\]"),
        ({"q": (2, 3, 5, 8)}, "3 query heads .* 2 key heads"),
        ({"q": (1, 4, 5, 8)}, r"\[1, 4, 5, 8\]"),
        ({"q": (2, 4, 5, 6)}, r"\[2, 4, 5, 6\]"),
        ({"v": (2, 2, 4, 8)}, r"\[2, 2, 4, 8\]"),
        ({"q": (2, 4, 6, 8)}, "6 queries .* 5 keys"),
    ],
)
def test_shapes_that_do_not_fit(change, message):
    q, k, v = draw()
    tensors = {"q": q, "k": k, "v": v}
    tensors |= {name: torch.zeros(shape) for name, shape in change.items()}
    with pytest.raises(ValueError, match=message):
        causal_attention(**tensors)


@pytest.mark.parametrize("shape", [(5,), (1, 5), (2, 4), (2, 4, 5), (2, 1, 1, 5)])
def test_masks_of_another_shape(shape):
    with pytest.raises(ValueError, match="mask must be"):
        causal_attention(*draw(), mask=torch.ones(shape, dtype=torch.bool))


@pytest.mark.parametrize("shape", [(4, 5, 5), (2, 1, 5, 5), (3, 4, 5, 5), (1, 4, 5, 4)])
def test_biases_of_another_shape(shape):
    with pytest.raises(ValueError, match="bias must be"):
        causal_attention(*draw(), bias=torch.zeros(shape))


@pytest.mark.parametrize("shape", [(5,), (3, 5), (1, 4), (2, 1, 5)])
def test_positions_of_another_shape(shape):
    for name in ("q_positions", "k_positions"):
        places = torch.zeros(shape, dtype=torch.long)
        if shape != (5,):
            with pytest.raises(ValueError, match=f"{name} must be"):
                causal_attention(*draw(), **{name: places})


@pytest.mark.parametrize("places", [torch.zeros(5), torch.zeros(5).bool(), [0] * 5])
def test_positions_of_another_type(places):
    with pytest.raises(TypeError, match="q_positions must be an integer"):
        causal_attention(*draw(), q_positions=places)


# An additive mask (0 and −inf) read as 1 = real would turn attention inside out.
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_additive_masks_are_refused(dtype):
    with pytest.raises(TypeError, match="mask must be bool or integers"):
        causal_attention(*draw(), mask=torch.zeros(2, 5, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.long, torch.uint8, torch.float32])
def test_visible_of_another_type(dtype):
    with pytest.raises(TypeError, match="visible must be bool"):
        attention(*draw(), torch.ones(1, 1, 5, 5, dtype=dtype))


def test_mask_of_other_numbers():
    with pytest.raises(ValueError, match="0 and 1, got 2"):
        causal_attention(*draw(), mask=torch.full((2, 5), 2))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((10, 4), "10 .*4"), ((16, 4, 3), "4 .*3"), ((16, 0), "0"), ((0, 1), "0")],
)
def test_head_counts_that_do_not_divide(arguments, message):
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention(*arguments)


def test_a_nan_in_the_bias_is_seen():
    q, k, v = torch.randn(3, 1, 1, 4, 8)
    bias = torch.zeros(1, 1, 4, 4)
    bias[..., 2] = math.nan
    assert causal_attention(q, k, v, bias=bias)[0, 0, 2:].isnan().all()
    bias[..., 2] = -math.inf
    assert causal_attention(q, k, v, bias=bias).isfinite().all()


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((torch.ones(3), torch.arange(3)), TypeError, "q_positions must be an integer"),
        ((torch.arange(3), torch.ones(3)), TypeError, "k_positions must be an integer"),
        (
            (torch.arange(3), torch.arange(3), torch.tensor([[-math.inf, 0.0, 0.0]])),
            TypeError,
            "mask must be bool or integers",
        ),
        (
            (torch.arange(3), torch.arange(3), torch.tensor([[2, 7, 1]])),
            ValueError,
            "mask must hold 0 and 1, got 7",
        ),
        (
            (torch.arange(3), torch.arange(3), torch.ones(1, 1).bool()),
            ValueError,
            r"mask must be \[1, 3\] or \[1, 3, 3\], got \[1, 1\]",
        ),
        (
            (torch.arange(6).view(2, 3), torch.arange(3), torch.ones(4, 3).bool()),
            ValueError,
            r"q_positions must be \[T\] or \[4, T\], got \[2, 3\]",
        ),
    ],
)
def test_p10_visible_keys_checks_what_it_is_given(arguments, error, words):
    with pytest.raises(error, match=words):
        visible_keys(*arguments)


def test_no_key_heads_are_refused():
    q, k = torch.zeros(1, 2, 3, 4), torch.zeros(1, 0, 3, 4)
    with pytest.raises(ValueError, match="2 query heads cannot share 0 key heads"):
        causal_attention(q, k, k)
