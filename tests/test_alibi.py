"""`lib.alibi` against BLOOM, MPT, slow float64 loops, and the faults of others."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import BloomConfig, FalconConfig, MptConfig
from transformers.models.bloom.modeling_bloom import (
    BloomAttention,
    _get_alibi_slopes,
    build_alibi_tensor,
)
from transformers.models.falcon.modeling_falcon import FalconAttention
from transformers.models.falcon.modeling_falcon import (
    build_alibi_tensor as build_falcon_alibi,
)
from transformers.models.mpt.modeling_mpt import MptAttention, build_mpt_alibi_tensor

from lib.alibi import (
    alibi_attention,
    alibi_bias,
    alibi_slopes,
    attention,
    with_coordinates,
)
from lib.attention import causal_attention
from lib.learned import positions_from_mask


@pytest.fixture(scope="module", autouse=True, params=["coordinates", "bias"])
def way(request):
    """Both ways to attend to a short text: that of a long one, and its own."""
    few, attention.FEW = attention.FEW, {"coordinates": 0, "bias": 64}[request.param]
    yield request.param
    attention.FEW = few


HALVES = [torch.float16, torch.bfloat16]
FLOATS = [*HALVES, torch.float32, torch.float64]
HEADS = [*range(1, 65), 112]


def draw(batch=2, heads=4, kv_heads=2, queries=5, keys=5, width=8, **options):
    generator = torch.Generator().manual_seed(0)
    shapes = [(heads, queries), (kv_heads, keys), (kv_heads, keys)]
    return [
        torch.randn(batch, *shape, width, generator=generator).to(**options)
        for shape in shapes
    ]


def slow(q, k, v, slopes, q_places, k_places, mask=None, by_index=False):
    """One query at a time, in Python numbers; a query without keys gives zeros.

    The queries are the last ones; indices or positions say who sees whom.
    """
    q, k, v = q.detach(), k.detach(), v.detach()
    batch, heads, queries, width = q.shape
    group = heads // k.shape[1]
    out = torch.zeros(q.shape, dtype=torch.float64)
    for b, h, i in itertools.product(range(batch), range(heads), range(queries)):
        scores = {}
        for j in range(k.shape[2]):
            distance = int(q_places[b % len(q_places), i])
            distance -= int(k_places[b % len(k_places), j])
            ahead = j > i + k.shape[2] - queries if by_index else distance < 0
            if not ahead and (mask is None or bool(mask[b, j])):
                dot = float(q[b, h, i].double() @ k[b, h // group, j].double())
                scores[j] = dot / math.sqrt(width) - float(slopes[h]) * distance
        highest = max(scores.values(), default=0.0)
        weights = {j: math.exp(score - highest) for j, score in scores.items()}
        for j, weight in weights.items():
            share = weight / sum(weights.values())
            out[b, h, i] += share * v[b, h // group, j].double()
    return out


def exact(q, k, v, slopes, rows):
    """Some rows of a long causal pass, in float64."""
    places = torch.arange(k.shape[2], device=q.device)
    distance = (rows[:, None] - places).double()  # [R, Tk]
    scores = q[:, :, rows].double() @ k.double().mT / math.sqrt(q.shape[3])
    scores = scores - slopes.double()[:, None, None] * distance
    return scores.masked_fill(distance < 0, -math.inf).softmax(-1) @ v.double()


def close(found, expected, dtype=torch.float32):
    tolerance = {torch.float16: 2e-3, torch.bfloat16: 2e-2}.get(dtype, 1e-6)
    assert found.dtype == dtype
    assert (found.cpu().double() - expected).abs().max() < tolerance


# Z1: slopes of any head count.
@pytest.mark.parametrize("heads", HEADS)
def test_slopes_equal_bloom_and_mpt(heads):
    slopes = alibi_slopes(heads)
    assert slopes.dtype == torch.float32
    assert slopes.shape == (heads,)
    bloom = _get_alibi_slopes(heads, torch.device("cpu"))
    assert torch.allclose(slopes, bloom, rtol=2e-6, atol=0)
    mpt = -build_mpt_alibi_tensor(heads, 2)[:, 0, 0]  # the key one token back
    assert torch.allclose(slopes, mpt, rtol=2e-6, atol=0)


def test_slopes_of_twelve_and_six_heads():
    extra = [2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5]
    expected = torch.tensor([2.0**-i for i in range(1, 9)] + extra)
    assert torch.equal(alibi_slopes(12), expected)
    six = [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125]
    assert alibi_slopes(6).tolist() == six


@pytest.mark.parametrize("heads", [0, -8])
def test_slopes_of_no_heads(heads):
    with pytest.raises(ValueError, match=f"at least 1, got {heads}"):
        alibi_slopes(heads)


@pytest.mark.parametrize("heads", [8.0, "8", True, None])
def test_slopes_of_another_type(heads):
    with pytest.raises(TypeError, match="num_heads must be an int"):
        alibi_slopes(heads)


# The softmax, not the bias: BLOOM's is slope · j, MPT's slope · (j − last).
@pytest.mark.parametrize("heads", HEADS)
def test_softmax_equals_bloom_and_mpt(heads):
    tokens = 9
    torch.manual_seed(heads)
    scores = torch.randn(1, heads, tokens, tokens, dtype=torch.float64)
    places = torch.arange(tokens)
    ours = alibi_bias(alibi_slopes(heads), places, places)
    future = torch.full((tokens, tokens), -math.inf, dtype=torch.float64).triu(1)
    bloom = build_alibi_tensor(torch.ones(1, tokens), heads, torch.float32)[None]
    mpt = build_mpt_alibi_tensor(heads, tokens)[None]
    assert (ours[0, :, -1] - mpt[0, :, 0]).abs().max() < 1e-5
    for peer in (bloom, mpt):
        expected = (scores + peer + future).softmax(-1)
        assert ((scores + ours).softmax(-1) - expected).abs().max() < 1e-5


@pytest.mark.parametrize("heads", [1, 6, 8])
def test_attention_equals_blooms_with_left_padding(heads):
    config = BloomConfig(hidden_size=8 * heads, n_head=heads)
    peer = BloomAttention(config, layer_idx=0).eval()
    x = torch.randn(2, 7, 8 * heads)
    mask = torch.tensor([[1] * 7, [0, 0, 0, 1, 1, 1, 1]])
    lowest = torch.finfo(torch.float32).min
    hidden = torch.ones(7, 7).triu(1).bool() | ~mask.bool()[:, None, None]
    with torch.no_grad():
        alibi = build_alibi_tensor(mask, heads, torch.float32)
        added = torch.zeros(2, 1, 7, 7).masked_fill(hidden, lowest)
        expected, _ = peer(x, torch.zeros_like(x), alibi, added)
        q, k, v = peer._reshape(peer.query_key_value(x))
        mixed = alibi_attention(q, k, v, alibi_slopes(heads), mask=mask)
        ours = peer.dense(mixed.transpose(1, 2).flatten(2))
    assert torch.allclose(ours[0], expected[0], atol=1e-6)
    assert torch.allclose(ours[1, 3:], expected[1, 3:], atol=1e-6)


@pytest.mark.parametrize("heads", [1, 6, 8])
def test_attention_equals_mpts(heads):
    config = MptConfig(d_model=8 * heads, n_heads=heads, max_seq_len=32)
    peer = MptAttention(config, layer_idx=0).eval()
    x = torch.randn(2, 7, 8 * heads)
    with torch.no_grad():
        bias = build_mpt_alibi_tensor(heads, 32)
        expected, _ = peer(x, bias, attention_mask=torch.ones(7, 7).triu(1).bool())
        q, k, v = (
            part.unflatten(-1, (heads, 8)).transpose(1, 2)
            for part in peer.Wqkv(x).chunk(3, dim=-1)
        )
        mixed = alibi_attention(q, k, v, alibi_slopes(heads))
        ours = peer.out_proj(mixed.transpose(1, 2).flatten(2))
    assert torch.allclose(ours, expected, atol=1e-6)


@pytest.mark.parametrize("heads", [4, 6])
def test_falcon_adds_its_bias_before_the_scale(heads):
    sizes = {"hidden_size": 16 * heads, "num_attention_heads": heads}
    config = FalconConfig(**sizes, alibi=True, multi_query=False)
    config._attn_implementation = "eager"
    peer = FalconAttention(config, layer_idx=0).eval()
    x = torch.randn(1, 7, 16 * heads)
    hidden = torch.zeros(1, 1, 7, 7)
    hidden.masked_fill_(torch.ones(7, 7).triu(1).bool(), torch.finfo(x.dtype).min)
    with torch.no_grad():
        alibi = build_falcon_alibi(torch.ones(1, 7), heads, torch.float32)
        expected = peer(x, alibi, hidden)[0]
        q, k, v = (
            part.transpose(1, 2) for part in peer._split_heads(peer.query_key_value(x))
        )
        slopes = alibi_slopes(heads).bfloat16().float()
        outputs = {
            name: peer.dense(alibi_attention(q, k, v, m).transpose(1, 2).flatten(2))
            for name, m in (("before", slopes / 4), ("after", slopes))  # √16 = 4
        }
    assert torch.allclose(outputs["before"], expected, atol=1e-6)
    assert not torch.allclose(outputs["after"], expected, atol=1e-3)


# Z5: a single query of a cached step stands where it stands.
def test_bias_of_one_decoded_query(device):
    slopes = torch.tensor([0.5], device=device)
    q_places, k_places = torch.tensor([3], device=device), torch.arange(4).to(device)
    bias = alibi_bias(slopes, q_places, k_places)
    assert bias.tolist() == [[[[-1.5, -1.0, -0.5, 0.0]]]]


# Z7: the price of distance 0 is 0, exactly.
@pytest.mark.parametrize("heads", [1, 8, 12, 112])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("start", [0, 5, 10**6])
def test_diagonal_is_zero(heads, causal, start):
    places = torch.arange(start, start + 6)
    bias = alibi_bias(alibi_slopes(heads), places, places, causal)
    assert (bias.diagonal(dim1=-2, dim2=-1) == 0).all()
    assert bias.shape == (1, heads, 6, 6)
    assert (bias[..., 1, 0] == -alibi_slopes(heads)).all()


# Z9: each distance keeps its own number, whatever dtype the model has.
@pytest.mark.parametrize("dtype", FLOATS)
def test_bias_is_fp32_and_keeps_distances_apart(device, dtype):
    slopes = torch.tensor([0.5], device=device, dtype=dtype)
    places = torch.arange(1024, device=device)
    bias = alibi_bias(slopes, torch.tensor([1023], device=device), places)
    assert bias.dtype == torch.float32
    assert len(bias.unique()) == 1024
    assert len(bias.bfloat16().unique()) == 513


@given(st.data())
def test_bias_of_any_positions(data):
    queries, keys = data.draw(st.integers(0, 4)), data.draw(st.integers(0, 4))
    numbers = st.integers(-(10**6), 10**6)
    q_places = torch.tensor(data.draw(rows(numbers, queries, 2)), dtype=torch.long)
    k_places = torch.tensor(data.draw(rows(numbers, keys, 1)), dtype=torch.long)
    slopes = alibi_slopes(3)
    one_way = alibi_bias(slopes, q_places, k_places[0])
    both_ways = alibi_bias(slopes, q_places, k_places, causal=False)
    assert one_way.shape == both_ways.shape == (2, 3, queries, keys)
    for b, h, i, j in itertools.product(*map(range, one_way.shape)):
        distance = int(q_places[b, i]) - int(k_places[0, j])
        price = torch.tensor(-abs(distance)) * slopes[h]
        assert both_ways[b, h, i, j] == price
        assert one_way[b, h, i, j] == (price if distance >= 0 else -math.inf)


def rows(values, length, count=2):
    row = st.lists(values, min_size=length, max_size=length)
    return st.lists(row, min_size=count, max_size=count)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32])
def test_small_integers_do_not_wrap(dtype):
    places = torch.arange(100).to(dtype)
    wide = alibi_bias(alibi_slopes(2), torch.arange(100), torch.arange(100))
    assert torch.equal(alibi_bias(alibi_slopes(2), places, places), wide)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_attention_equals_the_slow_loop(device, dtype, kv_heads):
    q, k, v = draw(kv_heads=kv_heads, dtype=dtype, device=device)
    places = torch.arange(5)[None]
    expected = slow(q, k, v, alibi_slopes(4), places, places)
    close(alibi_attention(q, k, v, alibi_slopes(4)), expected, dtype)


@settings(max_examples=40)
@given(st.data())
def test_any_positions_and_mask(data):
    queries, keys = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 5))
    q, k, v = draw(queries=queries, keys=keys)
    start = data.draw(st.sampled_from([0, -70_000, 10**6]))
    numbers = st.integers(start - 3, start + 6)
    q_places = torch.tensor(data.draw(rows(numbers, queries)))
    k_places = torch.tensor(data.draw(rows(numbers, keys)))
    mask = torch.tensor(data.draw(rows(st.booleans(), keys)))
    slopes = alibi_slopes(4)
    found = alibi_attention(q, k, v, slopes, q_places, k_places, mask)
    close(found, slow(q, k, v, slopes, q_places, k_places, mask))


# The absolute form loses 1e-3 of probability here in fp32, and all of it in bf16.
@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float32, 2e-6), (torch.bfloat16, 2e-2), (torch.float16, 2e-3)],
)
@pytest.mark.parametrize("width", [16, 20])
@pytest.mark.parametrize("explicit", [False, True])
def test_long_inputs_are_as_exact_as_short_ones(
    device, dtype, tolerance, width, explicit
):
    tokens, slopes = 3000, torch.tensor([0.917, 0.5, 2**-0.5, 2**-8], device=device)
    q, k, v = draw(1, 4, 4, tokens, tokens, width, device=device)
    q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
    places = torch.arange(tokens, device=device) + 10**6 if explicit else None
    found = alibi_attention(q, k, v, slopes, places, places)
    if explicit:
        named = alibi_attention(q, k, v, slopes, places, places, in_order=True)
        assert (named - found).abs().max() < tolerance
    # Among them rows where the digits of the positions turn over.
    some = [0, 1, 7, 823, 824, 1500, 2870, 2871, 2872, 2998, 2999]
    some = torch.tensor(some, device=device)
    error = (found[:, :, some].double() - exact(q, k, v, slopes, some)).abs().max()
    assert error < tolerance


# Heads go in groups, where there are groups: nothing may depend on it.
@pytest.mark.parametrize(
    ("heads", "kv_heads"), [(4, 2), (8, 8), (3, 3), (6, 2), (4, 1)]
)
def test_heads_of_a_long_text_equal_each_head_alone(device, heads, kv_heads):
    slopes = alibi_slopes(heads).to(device)
    q, k, v = draw(2, heads, kv_heads, 1030, 1030, device=device)
    mask = torch.arange(1030, device=device) >= torch.tensor([[0], [5]], device=device)
    found = alibi_attention(q, k, v, slopes, mask=mask)
    for h in range(heads):
        own = h * kv_heads // heads
        one = [q[:, h : h + 1], k[:, own : own + 1], v[:, own : own + 1]]
        alone = alibi_attention(*one, slopes[h : h + 1], mask=mask)
        torch.testing.assert_close(found[:, h : h + 1], alone)


# The terms themselves, multiplied in float64: what casting them has left.
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("start", [0, 10**9])
def test_coordinates_hold_long_distances(device, dtype, start):
    tokens, scale = 70_000, 0.125
    keys = torch.arange(start, start + tokens, device=device)[None]
    now = keys[:, [0, 127, 40_000, tokens - 1]]
    q, k, v = draw(1, 3, 1, 4, tokens, 1, dtype=dtype, device=device)
    slopes = torch.tensor([0.917, 2**-0.5, 2**-8], device=device)
    of_q, of_k, _ = with_coordinates(q, k, v, slopes, scale, now, keys, None)
    assert of_q.dtype == of_k.dtype == dtype
    of_q, of_k = of_q[..., :-1].double(), of_k[..., :-1].double()
    found = of_q @ of_k.mT * scale  # [1, 3, 4, tokens]
    found -= found.gather(-1, (now - start)[:, None, :, None].expand(1, 3, 4, 1))
    distance = (keys[:, None] - now[..., None]).double()  # [1, 4, tokens]
    error = (found - slopes.double()[:, None, None] * distance[:, None]).abs()
    share = {torch.float16: 2**-16, torch.bfloat16: 2**-16}.get(dtype, 2**-23)
    assert (error <= share * distance.abs()[:, None]).all()


@pytest.mark.parametrize("dtype", HALVES)
def test_half_is_as_good_as_the_relative_form(device, dtype):
    tokens, slopes = 2048, alibi_slopes(8).to(device)
    q, k, v = draw(1, 8, 8, tokens, tokens, 64, device=device)
    q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
    some = torch.arange(0, tokens, 97, device=device)
    truth = exact(q, k, v, slopes, some)
    places = torch.arange(tokens, device=device)
    bias = alibi_bias(slopes, some, places)
    relative = causal_attention(q[:, :, some], k, v, None, bias, some)
    ours = alibi_attention(q, k, v, slopes)[:, :, some]
    ours, relative = ((x.double() - truth).abs().max() for x in (ours, relative))
    assert ours < 2 * relative


# Autocast turns the inputs of the fused call into bf16: the distances must survive.
def test_autocast_keeps_distances(device):
    q, k, v = draw(1, 2, 2, 1200, 1200, device=device)
    slopes = torch.tensor([0.5, 0.9], device=device)
    with torch.autocast(device.type, torch.bfloat16):
        found = alibi_attention(q, k, v, slopes)
    some = torch.tensor([0, 3, 600, 1199], device=device)
    error = (found[:, :, some].double() - exact(q, k, v, slopes, some)).abs().max()
    assert error < 5e-2


@pytest.mark.slow
@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_gradients(explicit, masked):
    inputs = [x.requires_grad_() for x in draw(dtype=torch.float64)]
    slopes = alibi_slopes(4).double().requires_grad_()
    places = torch.tensor([0, 0, 1, 2, 3]) if explicit else None
    mask = torch.tensor([[0, 0, 1, 1, 1], [1] * 5]) if masked else None
    assert torch.autograd.gradcheck(
        lambda *args: alibi_attention(*args, places, places, mask), (*inputs, slopes)
    )


@pytest.mark.parametrize("dtype", HALVES)
def test_gradients_in_half(device, dtype):
    inputs = draw(1, 4, 2, 600, 600, 16, device=device)
    slopes = torch.tensor([0.9, 0.5, 0.1, 0.01], device=device)
    places = torch.arange(600, device=device)
    half = [x.to(dtype).requires_grad_() for x in inputs]
    whole = [x.detach().double().requires_grad_() for x in half]
    factors = torch.randn(1, 4, 600, 16, device=device, dtype=torch.float64)
    bias = alibi_bias(slopes, places, places).double()
    (causal_attention(*whole, bias=bias) * factors).sum().backward()
    (alibi_attention(*half, slopes) * factors.to(dtype)).sum().backward()
    for ours, truth in zip(half, whole, strict=True):
        error = (ours.grad.double() - truth.grad).norm() / truth.grad.norm()
        assert error < {torch.float16: 2e-3, torch.bfloat16: 1.5e-2}[dtype]


# Z11, Z13: left padding, causality and slopes together, in every dtype.
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("explicit", [False, True])
def test_fully_masked_rows(device, dtype, explicit):
    q, k, v = (
        x.requires_grad_() for x in draw(queries=8, keys=8, dtype=dtype, device=device)
    )
    mask = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1], [0] * 8], device=device)
    places = torch.tensor([-1, -1, -1, 0, 1, 2, 3, 4], device=device)
    places = places if explicit else None
    slopes = torch.full((4,), 0.5, device=device)
    out = alibi_attention(q, k, v, slopes, places, places, mask)
    index = torch.arange(8)[None]
    close(out, slow(q, k, v, slopes, index, index, mask), dtype)
    assert out[1].count_nonzero() == out[0, :, :3].count_nonzero() == 0
    out.float().square().sum().backward()
    for x in (q, k, v):
        assert x.grad.isfinite().all()
        assert x.grad[1].count_nonzero() == x.grad[0, :, :3].count_nonzero() == 0
        assert x.grad[0, :, 4:].count_nonzero() > 0


# Some fused kernels make NaN of an empty row, so none is ever handed to them.
def test_no_kernel_gets_an_empty_row(monkeypatch):
    seen = []

    def spy(*args, attn_mask, **options):
        seen.append(attn_mask.any(dim=-1).all().item())
        return scaled_dot_product_attention(*args, attn_mask=attn_mask, **options)

    monkeypatch.setattr("lib.alibi.attention.scaled_dot_product_attention", spy)
    monkeypatch.setattr("lib.alibi.attention.FEW", 0)
    now, held = torch.tensor([0, 1, 2, 3, 9]), torch.tensor([3, 2, 5, 4, 4])
    mask = torch.tensor([[1, 0, 1, 1, 1], [0] * 5])
    out = alibi_attention(*draw(), alibi_slopes(4), now, held, mask)
    assert seen == [True]
    assert out[0, :, :3].count_nonzero() == out[1].count_nonzero() == 0
    assert out[0, :, 3:].count_nonzero() > 0


# Positions counted from a left-padded mask repeat: order is not that of indices.
@pytest.mark.parametrize("masked", [False, True])
def test_positions_that_repeat(device, masked):
    q, k, v = draw(device=device)
    mask = torch.tensor([[0, 0, 1, 1, 1], [1] * 5]) if masked else None
    places = torch.tensor([[0, 0, 0, 1, 2], [0, 1, 2, 3, 4]])
    on_device = None if mask is None else mask.to(device)
    here = places.to(device)
    found = alibi_attention(q, k, v, alibi_slopes(4), here, here, on_device)
    close(found, slow(q, k, v, alibi_slopes(4), places, places, mask))


def test_masked_values_have_no_weight(device):
    q, k, v = draw(1, device=device)
    mask = torch.tensor([[0, 1, 0, 1, 1]], device=device)
    out = alibi_attention(q, k, v, alibi_slopes(4), mask=mask)
    v[:, :, 0], v[:, :, 2], k[:, :, 2] = 1e30, -1e30, 100.0
    assert torch.equal(alibi_attention(q, k, v, alibi_slopes(4), mask=mask), out)


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_far_real_key_comes_before_a_near_masked_one(device, dtype):
    q, k, v = draw(1, 2, 2, 1, 3, dtype=dtype, device=device)
    now, held = torch.tensor([10**6]), torch.tensor([0, 999_998, 999_999])
    mask = torch.tensor([[1, 0, 0]], device=device)
    slopes = torch.tensor([0.5, 1.0])
    out = alibi_attention(q, k, v, slopes, now.to(device), held.to(device), mask)
    assert torch.equal(out[:, :, 0], v[:, :, 0])


@pytest.mark.parametrize("cut", [1, 3, 4])
def test_cached_equals_full(device, cut):
    q, k, v = draw(device=device)
    slopes = alibi_slopes(4)
    full = alibi_attention(q, k, v, slopes)
    for places in (None, torch.arange(cut, 5, device=device)):
        step = alibi_attention(q[:, :, cut:], k, v, slopes, places)
        assert torch.allclose(step, full[:, :, cut:], atol=1e-6)


def test_a_window_of_keys_keeps_its_positions(device):
    q, k, v = draw(queries=1, device=device)
    for now in (torch.tensor([9]), torch.tensor([[9], [12]])):
        held = now[..., -1:] + torch.arange(-4, 1)
        found = alibi_attention(
            q, k, v, alibi_slopes(4), now.to(device), held.to(device)
        )
        now, held = now.reshape(-1, 1), held.reshape(-1, 5)
        close(found, slow(q, k, v, alibi_slopes(4), now, held))


def test_many_queries_by_position(device):
    """More queries than a block, whose indices are not their positions."""
    q, k, v = draw(1, 2, 2, 600, 600, device=device)
    slopes = alibi_slopes(2).to(device)
    order, places = torch.randperm(600, device=device), torch.arange(600, device=device)
    found = alibi_attention(q[:, :, order], k, v, slopes, order, places)
    assert (
        found.double() - exact(q, k, v, slopes, places)[:, :, order]
    ).abs().max() < 1e-6


# Values of another width; the identity shows the weights themselves.
@pytest.mark.parametrize("width", [3, 5, 8, 20])
@pytest.mark.parametrize("explicit", [False, True])
def test_values_of_another_width(device, width, explicit):
    q, k, _ = draw(device=device)
    v = torch.eye(5, width, device=device).expand(2, 2, 5, width)
    places = torch.arange(5, device=device)
    now = places.flip(0) if explicit else places
    bias = alibi_bias(alibi_slopes(4), now, places)
    expected = causal_attention(q, k, v, None, bias, now)
    found = alibi_attention(q, k, v, alibi_slopes(4), now if explicit else None)
    assert found.shape == (2, 4, 5, width)
    assert torch.allclose(found, expected, atol=1e-6)


class Largest(TorchDispatchMode):
    """Remember how many numbers the largest tensor has that any operation makes."""

    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self.numbers = max(self.numbers, leaf.numel())
        return result


# Whether given positions ascend is known without a read only if the caller says so.
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("explicit", [False, True])
def test_nothing_of_size_t_by_t_is_made(device, masked, explicit):
    tokens = 512
    q, k, v = (x.requires_grad_() for x in draw(1, 2, 2, tokens, tokens, device=device))
    mask = torch.ones(1, tokens, dtype=torch.bool, device=device) if masked else None
    places = torch.arange(7, tokens + 7, device=device) if explicit else None
    with Largest() as largest:
        out = alibi_attention(
            q, k, v, alibi_slopes(2), places, places, mask, in_order=explicit
        )
        out.sum().backward()
    assert 0 < largest.numbers <= 2 * tokens * 16


@pytest.mark.parametrize("explicit", [False, True])
def test_by_position_no_mask_is_longer_than_a_block(device, explicit):
    q, k, v = draw(1, 2, 2, 1024, 1024 if explicit else 1300, device=device)
    places = torch.arange(1024, device=device) if explicit else None
    with Largest() as largest, torch.no_grad():
        alibi_attention(q, k, v, alibi_slopes(2), places, places)
    assert 0 < largest.numbers <= 256 * k.shape[2]


# In order: padding may stand anywhere, positions counted from the mask repeat there.
@settings(max_examples=40)
@given(st.data())
def test_in_order_who_sees_whom_goes_by_indices(data):
    keys = data.draw(st.integers(1, 6))
    queries = data.draw(st.integers(1, keys))
    q, k, v = draw(queries=queries, keys=keys)
    mask = torch.tensor(data.draw(rows(st.booleans(), keys)))
    places = positions_from_mask(mask)
    now = places[:, keys - queries :]
    slopes = alibi_slopes(4)
    found = alibi_attention(q, k, v, slopes, now, places, mask, in_order=True)
    close(found, slow(q, k, v, slopes, now, places, mask, by_index=True))


@pytest.mark.parametrize("count", [1, 3, 5])
def test_left_padding_needs_no_positions(device, count):
    q, k, v = draw(queries=count, device=device)
    mask = torch.tensor([[0, 0, 1, 1, 1], [1] * 5], device=device)
    places = positions_from_mask(mask)
    slopes = alibi_slopes(4)
    by_mask = alibi_attention(q, k, v, slopes, mask=mask)
    now = places[:, -count:]
    given = alibi_attention(q, k, v, slopes, now, places, mask, in_order=True)
    assert torch.allclose(by_mask, given, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("explicit", [False, True])
def test_compiles_to_one_graph(explicit):
    compiled = torch.compile(alibi_attention, fullgraph=True, backend="eager")
    for length in (4, 6):
        q, k, v = draw(queries=length, keys=length)
        places = torch.arange(length) if explicit else None
        mask = torch.ones(2, length, dtype=torch.bool)
        arguments = (q, k, v, alibi_slopes(4), places, places, mask)
        expected = alibi_attention(*arguments)
        assert torch.allclose(compiled(*arguments), expected, atol=1e-6)


def test_no_tokens():
    q, k, v = draw(queries=0, keys=0)
    assert alibi_attention(q, k, v, alibi_slopes(4)).shape == (2, 4, 0, 8)
    q, k, v = draw(queries=0, keys=3)
    assert alibi_attention(q, k, v, alibi_slopes(4)).shape == (2, 4, 0, 8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q": (2, 4, 5)}, r"\[2, 4, 5\]"),
        ({"q": (2, 3, 5, 8)}, "3 query heads .* 2"),
        ({"q": (1, 4, 5, 8)}, r"\[1, 4, 5, 8\]"),
        ({"q": (2, 4, 5, 6)}, r"\[2, 4, 5, 6\]"),
        ({"v": (2, 2, 4, 8)}, r"\[2, 2, 4, 8\]"),
        ({"q": (2, 4, 6, 8)}, "6 queries .* 5 keys"),
        ({"slopes": (3,)}, "3 slopes for 4 "),
        ({"slopes": (1,)}, "1 slopes for 4 "),
        ({"slopes": (4, 1)}, r"slopes must be .* \[4, 1\]"),
        ({"mask": (2, 4)}, r"mask must be \[2, 5\], got \[2, 4\]"),
        ({"mask": (1, 5)}, r"mask must be \[2, 5\], got \[1, 5\]"),
        ({"q_positions": (3, 5)}, r"q_positions must be .* got \[3, 5\]"),
        ({"k_positions": (4,)}, r"k_positions must be .* got \[4\]"),
    ],
)
def test_shapes_that_do_not_fit(change, message):
    q, k, v = draw()
    tensors = {"q": q, "k": k, "v": v, "slopes": alibi_slopes(4)}
    for name, shape in change.items():
        whole = name in ("mask", "q_positions", "k_positions")
        tensors[name] = torch.zeros(shape, dtype=torch.long if whole else torch.float)
    with pytest.raises(ValueError, match=message):
        alibi_attention(**tensors)


@pytest.mark.parametrize("places", [torch.zeros(5), torch.zeros(5).bool(), [0] * 5])
def test_positions_of_another_type(places):
    for name in ("q_positions", "k_positions"):
        with pytest.raises(TypeError, match=f"{name} must be an integer"):
            alibi_attention(*draw(), alibi_slopes(4), **{name: places})
    with pytest.raises(TypeError, match="q_positions must be an integer"):
        alibi_bias(alibi_slopes(4), places, torch.arange(5))


def test_bias_of_rows_that_do_not_match():
    with pytest.raises(ValueError, match="2 rows, k_positions 3"):
        alibi_bias(alibi_slopes(4), torch.zeros(2, 1).long(), torch.zeros(3, 1).long())


def test_slopes_of_integers():
    with pytest.raises(TypeError, match="slopes must be floating"):
        alibi_attention(*draw(), torch.ones(4).long())


def test_masks_that_are_not_zero_and_one():
    with pytest.raises(TypeError, match="mask must be bool or integers"):
        alibi_attention(*draw(), alibi_slopes(4), mask=torch.zeros(2, 5))
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, -1, 1, 1]])
    with pytest.raises(ValueError, match="0 and 1, got -1"):
        alibi_attention(*draw(), alibi_slopes(4), mask=mask)


@pytest.mark.parametrize("gap", [100, 10_000, 1_000_000, 2**25])
@pytest.mark.parametrize("tokens", [2, 4, 12, 64])
def test_few_tokens_may_stand_any_distance_apart(gap, tokens, monkeypatch):
    monkeypatch.setattr(attention, "FEW", 64)
    torch.manual_seed(gap)
    q, k, v = torch.randn(3, 1, 8, tokens, 64)
    slopes, places = alibi_slopes(8), torch.arange(tokens)
    places[tokens // 2 :] += gap
    found = alibi_attention(q, k, v, slopes, places, places)
    back = places[:, None] - places[None]
    scores = q.double() @ k.double().mT / 8 - slopes.double()[:, None, None] * back
    expected = scores.masked_fill(back < 0, -math.inf).softmax(-1) @ v.double()
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=2e-6)
