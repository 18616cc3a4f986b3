"""`lib.contextual`: maps against SciPy, and what turning them can and cannot do."""

import math

import pytest
import torch
from scipy.linalg import orthogonal_procrustes

from lib.contextual import layer_maps, turn_onto
from lib.geometry import pca, random_rotation


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("seed", range(4))
def test_turning_equals_scipy(seed):
    points, target = draw(9, 2, seed=seed), draw(9, 2, seed=seed + 10)
    rotation, _ = orthogonal_procrustes(points.numpy(), target.numpy())
    wanted = points @ torch.from_numpy(rotation)
    torch.testing.assert_close(turn_onto(points, target), wanted)


def test_turning_keeps_distances_and_undoes_a_rotation_or_a_mirror():
    target = draw(7, 3)
    for seed, flip in ((1, 1.0), (2, -1.0)):
        turned = target @ random_rotation(3, seed) * flip
        torch.testing.assert_close(turn_onto(turned, target), target)
    moved = turn_onto(draw(7, 3, seed=5), target)
    torch.testing.assert_close(
        torch.cdist(moved, moved), torch.cdist(draw(7, 3, seed=5), draw(7, 3, seed=5))
    )


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (torch.ones(3, 2), r"alike, got \[3, 2\] and \[4, 2\]"),
        (torch.ones(4), r"alike, got \[4\]"),
        (torch.full((4, 2), math.nan), "points must be finite"),
    ],
)
def test_points_that_do_not_fit_are_refused(points, message):
    with pytest.raises(ValueError, match=message):
        turn_onto(points, torch.ones(4, 2))


def test_maps_hold_what_pca_says_and_stand_still_where_layers_only_turn():
    layer = draw(8, 5)
    turned = layer @ random_rotation(5, seed=3)
    points, share = layer_maps(torch.stack([layer, -3 * turned, layer + 7]))
    wanted, kept = pca(layer, k=2)
    assert share.tolist() == pytest.approx([kept.sum().item()] * 3, abs=1e-5)
    wanted = wanted / wanted.square().sum(1).mean().sqrt()
    for found in points:
        torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)
    assert points.square().sum(2).mean(1).tolist() == pytest.approx([1, 1, 1])


def test_a_layer_of_one_vector_is_one_point():
    for layers in (torch.ones(1, 4, 3), draw(2, 1, 3)):
        points, share = layer_maps(layers)
        assert (points == 0).all()
        assert (share == 1).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_maps_of_any_floating_type(dtype):
    points, share = layer_maps(draw(2, 5, 4).to(dtype))
    assert points.dtype == share.dtype == dtype
    assert points.isfinite().all()


def test_large_numbers_do_not_overflow():
    points, target = draw(5, 2), draw(5, 2, seed=1)
    large = turn_onto(points * 1e30, target * 1e30)
    torch.testing.assert_close(large / 1e30, turn_onto(points, target))


def test_a_state_that_is_not_finite_is_named_with_its_layer():
    states = draw(3, 4, 5)
    states[2, 1, 0] = math.nan
    with pytest.raises(ValueError, match=r"states must be finite, row \[2, 1\]"):
        layer_maps(states)


def test_what_is_no_float_is_refused():
    with pytest.raises(TypeError, match="states must be floating point, got list"):
        layer_maps([[[1.0, 2.0]]])
    with pytest.raises(TypeError, match=r"one type, got torch\.float32 and"):
        turn_onto(torch.ones(2, 2), torch.ones(2, 2).double())


@pytest.mark.parametrize("shape", [(4, 3), (2, 4, 1), (0, 4, 3), (2, 0, 3)])
def test_states_without_two_features_are_refused(shape):
    with pytest.raises(ValueError, match=r"states must be \[S, N, d >= 2\]"):
        layer_maps(torch.ones(shape))
