"""`lib.t5_bias` against transformers' T5."""

import pytest
import torch
from transformers import T5Config
from transformers.models.t5.modeling_t5 import T5Attention

from lib.attention import attention, causal_attention
from lib.t5_bias import T5RelativeBias, t5_buckets


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(("count", "far"), [(32, 128), (8, 20), (64, 1000), (6, 7)])
def test_buckets_equal_t5(device, bidirectional, count, far):
    places = torch.arange(-1500, 1500, device=device)
    middle = torch.tensor([0], device=device)
    found = t5_buckets(middle, places, bidirectional, count, far)
    peer = T5Attention._relative_position_bucket(places, bidirectional, count, far)
    assert torch.equal(found[0], peer)
    assert found.max() == count - 1


@pytest.mark.parametrize("decoder", [False, True])
def test_attention_equals_t5(decoder):
    config = T5Config(d_model=16, d_kv=4, num_heads=4, is_decoder=decoder)
    config._attn_implementation = "eager"
    peer = T5Attention(config, has_relative_attention_bias=True, layer_idx=0).eval()
    ours = T5RelativeBias(4, bidirectional=not decoder)
    places, x = torch.arange(150), torch.randn(2, 150, 16)
    hidden = torch.zeros(150, 150)
    if decoder:
        hidden = hidden.masked_fill(torch.ones(150, 150).triu(1).bool(), -torch.inf)
    with torch.no_grad():
        peer.relative_attention_bias.weight.normal_()
        ours.weight.copy_(peer.relative_attention_bias.weight)
        expected = peer(x, mask=hidden[None, None])[0]
        q, k, v = (
            layer(x).unflatten(-1, (4, 4)).transpose(1, 2)
            for layer in (peer.q, peer.k, peer.v)
        )
        attend = causal_attention if decoder else attention
        mixed = attend(q, k, v, bias=ours(places, places), scale=1.0)
        found = peer.o(mixed.transpose(1, 2).flatten(2))
    assert torch.allclose(found, expected, atol=1e-5)


def test_rows_of_positions_and_a_cached_step(device):
    bias = T5RelativeBias(3, num_buckets=8, max_distance=10).to(device)
    places = torch.arange(6, device=device)
    full = bias(places, places)
    assert full.shape == (1, 3, 6, 6)
    assert torch.equal(bias(places[5:], places), full[:, :, 5:])
    moved = torch.stack([places, places + 40])
    assert torch.equal(bias(moved, moved), full.expand(2, -1, -1, -1))


def test_every_bucket_learns():
    bias = T5RelativeBias(2, num_buckets=8, max_distance=20)
    bias(torch.arange(30), torch.arange(30)).sum().backward()
    assert (bias.weight.grad > 0).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((False, 1, 128), "1 buckets"),
        ((True, 3, 128), "3 buckets"),
        ((False, 32, 16), "max_distance 16"),
    ],
)
def test_buckets_that_make_no_sense(options, message):
    with pytest.raises(ValueError, match=message):
        T5RelativeBias(2, *options)


@pytest.mark.parametrize("places", [torch.ones(3), torch.ones(3).bool(), [0, 1, 2]])
def test_positions_of_another_type(places):
    with pytest.raises(TypeError, match="k_positions must be an integer tensor"):
        t5_buckets(torch.arange(3), places)


@pytest.mark.parametrize(
    ("positions", "options", "words"),
    [
        ((torch.zeros(2, 3).long(), torch.zeros(5, 4).long()), {}, r"k_positions must"),
        ((torch.tensor(1), torch.arange(3)), {}, r"q_positions must be \[T\]"),
        ((torch.zeros(2, 2, 3).long(), torch.arange(3)), {}, r"q_positions must be"),
        (
            (torch.arange(3), torch.arange(3)),
            {"bidirectional": True, "num_buckets": 33},
            "num_buckets must be even in both ways, got 33",
        ),
    ],
)
def test_p10_shapes_and_counts_that_do_not_fit(positions, options, words):
    with pytest.raises(ValueError, match=words):
        t5_buckets(*positions, **options)
