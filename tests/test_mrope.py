"""`lib.mrope`: three numbers a token, and the rotation tables that read them."""

import functools
import math
import types
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch._dynamo.testing import CompileCounter
from torch._subclasses import FakeTensorMode
from transformers import (
    Qwen2_5_VLConfig,
    Qwen2VLConfig,
    Qwen3_5TextConfig,
    Qwen3VLConfig,
)
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLModel
from transformers.models.qwen2_vl import modeling_qwen2_vl
from transformers.models.qwen2_vl.configuration_qwen2_vl import (
    Qwen2VLTextConfig,
    Qwen2VLVisionConfig,
)
from transformers.models.qwen3_5 import modeling_qwen3_5
from transformers.models.qwen3_vl import modeling_qwen3_vl
from transformers.models.qwen3_vl.configuration_qwen3_vl import Qwen3VLTextConfig
from transformers.vision_utils import get_vision_position_ids

from lib.mrope import (
    axial_rope_cos_sin,
    mrope_cos_sin,
    mrope_position_ids,
    vision_position_ids,
)
from lib.rope import apply_rope, rope_cos_sin, rope_inv_freq

# A batch is rows of pieces, with sizes in tokens. What each token's three numbers must
# be is worked out from the pieces, token by token, in plain Python.


@dataclass(frozen=True)
class Piece:
    kind: int | None  # 0 text, 1 image, 2 video, None padding
    t: int
    h: int = 1
    w: int = 1
    seconds: float = 1.0

    @property
    def tokens(self):
        return self.t * self.h * self.w


def text(n):
    return Piece(0, n)


def pad(n):
    return Piece(None, n)


def image(h, w):
    return Piece(1, 1, h, w)


def video(t, h, w, seconds=1.0):
    return Piece(2, t, h, w, seconds)


def slow_row(pieces, tokens_per_second):
    numbers, free, real = [], 0, 0
    for piece in pieces:
        real += 0 if piece.kind is None else piece.tokens
        if piece.kind is None:
            numbers += [(0, 0, 0)] * piece.tokens
        elif piece.kind == 0:
            numbers += [(free + i,) * 3 for i in range(piece.tokens)]
            free += piece.tokens
        else:
            speed = piece.seconds * tokens_per_second if piece.kind == 2 else 1
            cells = [
                (free + math.floor(t * speed), free + h, free + w)
                for t in range(piece.t)
                for h in range(piece.h)
                for w in range(piece.w)
            ]
            numbers += cells
            free = max(max(cell) for cell in cells) + 1
    return numbers, free - real


def slow_ids(rows, tokens_per_second=1.0):
    results = [slow_row(row, tokens_per_second) for row in rows]
    numbers = torch.tensor([numbers for numbers, _ in results])  # [B, T, 3]
    return numbers.permute(2, 0, 1), torch.tensor([[delta] for _, delta in results])


def same_length(rows, side="left"):
    """Fill up the shorter rows with padding, on one side or in the middle."""
    lengths = [sum(piece.tokens for piece in row) for row in rows]
    padded = []
    for row, length in zip(rows, lengths, strict=True):
        at = {"left": 0, "right": len(row), "middle": len(row) // 2}[side]
        padded.append([*row[:at], pad(max(lengths) - length), *row[at:]])
    return padded


def inputs(rows, merge=2):
    """The arguments of `mrope_position_ids` that describe rows of one length."""
    pieces = [[p for p in row for _ in range(p.tokens)] for row in rows]  # [B][T]
    grids = {k: [p for row in rows for p in row if p.kind == k] for k in (1, 2)}
    patches = {k: [[p.t, p.h * merge, p.w * merge] for p in grids[k]] for k in grids}
    return {
        "token_types": torch.tensor([[p.kind or 0 for p in row] for row in pieces]),
        "mask": torch.tensor(
            [[int(p.kind is not None) for p in row] for row in pieces]
        ),
        "image_grid_thw": torch.tensor(patches[1]) if patches[1] else None,
        "video_grid_thw": torch.tensor(patches[2]) if patches[2] else None,
        "seconds_per_grid": [p.seconds for p in grids[2]] or None,
        "merge": merge,
    }


def assert_same(result, expected):
    for got, wanted in zip(result, expected, strict=True):
        assert got.dtype == torch.int64
        assert torch.equal(got.cpu(), wanted)


sizes = st.integers(1, 5)
texts = st.builds(text, sizes)
images = st.builds(image, sizes, sizes)
# Quarters are exact in fp32 and in float64 alike.
videos = st.builds(video, sizes, sizes, sizes, st.sampled_from([0.25, 0.5, 1, 1.75]))
pads = st.builds(pad, sizes)
any_rows = st.lists(
    st.lists(st.one_of(texts, images, videos, pads), min_size=1, max_size=7),
    min_size=1,
    max_size=4,
)


@settings(max_examples=150)
@given(
    rows=any_rows,
    side=st.sampled_from(["left", "right", "middle"]),
    merge=st.sampled_from([1, 2, 3]),
    tokens_per_second=st.sampled_from([1, 2.0, 4, 25]),
)
def test_every_batch_equals_the_slow_loop(rows, side, merge, tokens_per_second):
    rows = same_length(rows, side)
    result = mrope_position_ids(
        **inputs(rows, merge), tokens_per_second=tokens_per_second
    )
    assert_same(result, slow_ids(rows, tokens_per_second))


@settings(max_examples=50)
@given(rows=any_rows)
def test_split_frames_are_images(rows):
    """One grid a frame is what the same frames as images would get."""
    films = [
        [f for p in row for f in ([image(p.h, p.w)] * p.t if p.kind == 2 else [p])]
        for row in same_length(rows)
    ]
    arguments = inputs(same_length(rows))
    result = mrope_position_ids(**arguments, split_frames=True, tokens_per_second=3)
    assert_same(result, slow_ids(films))


# transformers 5.24.0, without its weights: the methods read nothing but the config.


def rope_index(model, config, rows, tokens_per_second=None):
    """`get_rope_index` of a transformers model class on the rows."""
    if tokens_per_second is not None:
        config.vision_config.tokens_per_second = tokens_per_second
    bare = types.SimpleNamespace(config=config)
    bare.get_vision_position_ids = functools.partial(
        modeling_qwen2_vl.Qwen2VLModel.get_vision_position_ids, bare
    )
    given_ = inputs(rows, merge=config.vision_config.spatial_merge_size)
    return model.get_rope_index(
        bare,
        input_ids=given_["token_types"],
        mm_token_type_ids=given_["token_types"],
        image_grid_thw=given_["image_grid_thw"],
        video_grid_thw=given_["video_grid_thw"],
        second_per_grid_ts=given_["seconds_per_grid"],
        attention_mask=given_["mask"],
    )


def spoken(visions):
    """Rows as processors write them: text before, between and after what is seen."""
    pairs = st.lists(st.tuples(texts, visions), max_size=4)
    row = st.builds(
        lambda p, last: [*(x for pair in p for x in pair), last], pairs, texts
    )
    return st.lists(row, min_size=1, max_size=3)


short_videos = st.builds(
    lambda t, h, w: video(min(t, max(h, w)), h, w), sizes, sizes, sizes
)


@settings(max_examples=60)
@given(
    rows=spoken(st.one_of(images, short_videos)),
    side=st.sampled_from(["left", "right", "middle"]),
)
def test_qwen2_vl(rows, side):
    rows = same_length(rows, side)
    expected = rope_index(modeling_qwen2_vl.Qwen2VLModel, Qwen2VLConfig(), rows)
    assert_same(mrope_position_ids(**inputs(rows)), expected)


@settings(max_examples=60)
@given(
    rows=spoken(
        st.one_of(
            images,
            st.builds(
                video,
                sizes,
                sizes,
                sizes,
                st.sampled_from([0.04, 0.1, 1 / 3, 0.5, 2 / 3]),
            ),
        )
    ),
    tokens_per_second=st.sampled_from([1, 2, 4, 7, 25]),
)
def test_qwen2_5_vl(rows, tokens_per_second):
    long = [
        p
        for row in rows
        for p in row
        if p.kind == 2 and (p.t - 1) * p.seconds * tokens_per_second > max(p.h, p.w) - 1
    ]
    assume(not long)
    rows = same_length(rows)
    expected = rope_index(Qwen2_5_VLModel, Qwen2_5_VLConfig(), rows, tokens_per_second)
    result = mrope_position_ids(**inputs(rows), tokens_per_second=tokens_per_second)
    assert_same(result, expected)


@pytest.mark.parametrize("as_tensor", [False, True])
@pytest.mark.parametrize("tokens_per_second", [2, 10, 25, 100])
@pytest.mark.parametrize("seconds", [0.29, 0.7, 1 / 12, 2 / 3, 0.04, 0.08])
def test_time_of_a_frame_rounds_as_in_the_reference(
    seconds, tokens_per_second, as_tensor
):
    """Frame · seconds · rate may be a whole number in exact arithmetic alone."""
    rows = [[text(1), video(200, 1, 1, seconds), text(1)]]
    arguments = inputs(rows)
    if as_tensor:
        arguments["seconds_per_grid"] = torch.tensor(arguments["seconds_per_grid"])
    config = Qwen2_5_VLConfig()
    config.vision_config.tokens_per_second = tokens_per_second
    interval = tokens_per_second * (
        arguments["seconds_per_grid"][0] if as_tensor else seconds
    )
    expected = modeling_qwen2_vl.Qwen2VLModel.get_vision_position_ids(
        None, 1, torch.tensor([200, 1, 1]), time_interval=interval
    )
    positions, _ = mrope_position_ids(**arguments, tokens_per_second=tokens_per_second)
    assert torch.equal(positions[:, 0, 1:201], expected)


@settings(max_examples=60)
@given(rows=spoken(st.one_of(images, videos)), side=st.sampled_from(["left", "right"]))
def test_qwen3_vl(rows, side):
    """Each frame stands alone, and the time before it is text."""
    frames = [
        [
            q
            for p in row
            for q in ([text(3), video(1, p.h, p.w)] * p.t if p.kind == 2 else [p])
        ]
        for row in rows
    ]
    arguments = inputs(same_length(frames, side))
    films = [[p.t, 2 * p.h, 2 * p.w] for row in rows for p in row if p.kind == 2]
    arguments["video_grid_thw"] = torch.tensor(films) if films else None
    del arguments["seconds_per_grid"]
    result = mrope_position_ids(**arguments, split_frames=True)
    expected = rope_index(
        modeling_qwen3_vl.Qwen3VLModel, Qwen3VLConfig(), same_length(frames, side)
    )
    assert_same(result, expected)


@pytest.mark.parametrize(
    ("model", "config", "tokens_per_second"),
    [
        (modeling_qwen2_vl.Qwen2VLModel, Qwen2VLConfig, None),
        (Qwen2_5_VLModel, Qwen2_5_VLConfig, 1),
    ],
)
def test_known_difference_after_a_long_video(model, config, tokens_per_second):
    """M10: transformers 5.24.0 resumes inside the video's time range; we do not.

    When this fails, transformers has been mended: compare long videos with it above.
    """
    rows = [[text(2), video(6, 1, 1), text(2)]]
    positions, delta = mrope_position_ids(**inputs(rows))
    still = [0, 1, 2, 2, 2, 2, 2, 2, 8, 9]
    assert positions[:, 0].tolist() == [[*range(10)], still, still]
    assert delta.tolist() == [[0]]
    theirs, their_delta = rope_index(model, config(), rows, tokens_per_second)
    assert theirs[0, 0].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 3, 4]
    assert their_delta.tolist() == [[-2]]


# Real faults: each line is one, with the numbers worked out by hand.


def ids(row, **options):
    positions, delta = mrope_position_ids(**inputs([row]), **options)
    return positions[:, 0].tolist(), delta.item()


def test_an_image_has_no_time():
    """M1: huggingface/transformers#45325."""
    t, h, w = [0, 1, 1, 1, 1, 3], [0, 1, 1, 2, 2, 3], [0, 1, 2, 1, 2, 3]
    row = [text(1), image(2, 2), text(1)]
    assert ids(row, tokens_per_second=4) == ([t, h, w], -2)
    assert ids(row, tokens_per_second=4, split_frames=True) == ([t, h, w], -2)


def test_seconds_are_multiplied_before_they_are_rounded_down():
    """M3: huggingface/transformers#48669."""
    row = [text(1), video(4, 1, 1, 0.5), text(1)]
    assert ids(row, tokens_per_second=2)[0][0] == [0, 1, 2, 3, 4, 5]
    assert ids(row, tokens_per_second=3)[0][0] == [0, 1, 2, 4, 5, 6]
    assert ids(row, tokens_per_second=3)[1] == 1


def test_frames_that_follow_fast_share_all_three_numbers():
    """At 8 sampled pictures a second a frame is a quarter of one, half a position."""
    row = [video(6, 1, 2, 0.25), text(1)]
    (t, h, w), _ = ids(row, tokens_per_second=2)
    assert t == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3]
    assert h[:12] == [0] * 12
    assert w[:12] == [0, 1] * 6
    model, config = Qwen2_5_VLModel, Qwen2_5_VLConfig()
    theirs, _ = rope_index(model, config, [row], tokens_per_second=2)
    assert theirs[:, 0, :12].tolist() == [t[:12], h[:12], w[:12]]


def test_nothing_is_remembered_from_one_batch_to_the_next():
    """M5: huggingface/trl#5088."""
    mrope_position_ids(**inputs([[image(2, 2), text(2)]]))
    positions, delta = mrope_position_ids(torch.zeros(3, 5, dtype=torch.int64))
    assert torch.equal(positions, torch.arange(5).expand(3, 3, 5))
    assert delta.tolist() == [[0], [0], [0]]


def test_each_row_has_its_own_delta():
    """M7: Blaizzy/mlx-vlm#1095."""
    rows = [[text(6)], [image(2, 2), text(2)], [text(1), video(5, 1, 1)], [pad(6)]]
    positions, delta = mrope_position_ids(**inputs(rows))
    assert delta.tolist() == [[0], [-2], [0], [0]]
    assert positions[0].tolist() == [
        [0, 1, 2, 3, 4, 5],
        [0, 0, 0, 0, 2, 3],
        [0, 1, 2, 3, 4, 5],
        [0, 0, 0, 0, 0, 0],
    ]


def test_grids_are_taken_in_order():
    """M13: Blaizzy/mlx-vlm#1282."""
    row = [text(2), image(2, 2), text(2), image(2, 3), text(2)]
    t = [0, 1, *[2] * 4, 4, 5, *[6] * 6, 9, 10]
    assert ids(row)[0][0] == t
    assert ids(row)[1] == -5


def test_images_that_touch_are_two():
    (t, _, w), delta = ids([image(1, 2), image(1, 3), video(1, 1, 1), text(1)])
    assert t == [0, 0, 2, 2, 2, 5, 6]
    assert w == [0, 1, 2, 3, 4, 5, 6]
    assert delta == 0


def test_the_source_example():
    """3 words and 7 × 7 tokens: the next word is number 10, not 52."""
    (t, h, w), delta = ids([text(3), image(7, 7), text(1)])
    assert t[-1] == h[-1] == w[-1] == 10
    assert delta == -42


def test_height_and_width_are_not_swapped():
    (_, h, w), _ = ids([image(3, 5)])
    assert h == [r for r in range(3) for _ in range(5)]
    assert w == [c for _ in range(3) for c in range(5)]


def test_padding_inside_an_image_is_no_gap():
    types_ = torch.tensor([[1, 1, 0, 1, 1, 0]])
    mask = torch.tensor([[1, 1, 0, 1, 1, 1]])
    positions, _ = mrope_position_ids(types_, torch.tensor([[1, 4, 4]]), mask=mask)
    assert positions[2, 0].tolist() == [0, 1, 0, 0, 1, 2]


def test_arguments_stay_as_they_are_and_order_of_memory_does_not_matter():
    arguments = inputs(same_length([[text(3), image(2, 3)], [video(2, 1, 3), text(9)]]))
    expected = mrope_position_ids(**arguments)
    tensors = {k: v for k, v in arguments.items() if isinstance(v, torch.Tensor)}
    before = {k: v.clone() for k, v in tensors.items()}
    turned = {k: v.t().contiguous().t() for k, v in tensors.items()}
    assert_same(mrope_position_ids(**{**arguments, **turned}), expected)
    mrope_position_ids(**arguments, split_frames=False)
    assert all(torch.equal(tensors[k], before[k]) for k in tensors)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32, torch.int64])
def test_any_integers_on_any_device(device, dtype):
    rows = same_length([[text(3), image(2, 3)], [video(2, 1, 3, 0.5), text(9)]])
    arguments = {
        k: v.to(device, dtype) if isinstance(v, torch.Tensor) else v
        for k, v in inputs(rows).items()
    }
    arguments["seconds_per_grid"] = torch.tensor([0.5], device=device)
    for mask in (arguments["mask"], arguments["mask"].bool()):
        result = mrope_position_ids(**{**arguments, "mask": mask})
        assert {r.device.type for r in result} == {device.type}
        assert_same(result, slow_ids(rows))


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0, 0)])
def test_p23_empty_batches(shape):
    for mask in (None, torch.ones(shape, dtype=torch.bool)):
        positions, delta = mrope_position_ids(
            torch.zeros(shape, dtype=torch.int64), mask=mask
        )
        assert positions.shape == (3, *shape)
        assert delta.tolist() == [[0]] * shape[0]


# One grid.


@settings(max_examples=60)
@given(
    shape=st.tuples(sizes, sizes, sizes),
    start=st.integers(0, 10_000),
    merge=st.sampled_from([1, 2, 3]),
    interval=st.sampled_from([0.0, 0.3, 1, 1.5, 50]),
)
def test_one_grid_equals_transformers(shape, start, merge, interval):
    grid = torch.tensor([shape[0], shape[1] * merge, shape[2] * merge])
    expected = modeling_qwen2_vl.Qwen2VLModel.get_vision_position_ids(
        None, start, grid, 1, merge, time_interval=interval
    )
    for given_ in (grid, grid[None], grid.tolist()):
        assert torch.equal(
            vision_position_ids(given_, start, merge, interval), expected
        )


# Bad input.

ONE = torch.tensor([[1, 4, 4]])
PLACEHOLDERS = torch.tensor([[0, 1, 1, 1, 1, 0]])


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"image_grid_thw": None}, ValueError, ["4 image", "0 image", "need 0"]),
        (
            {"image_grid_thw": torch.tensor([[1, 4, 6]])},
            ValueError,
            ["4 image", "need 6"],
        ),
        ({"image_grid_thw": ONE.repeat(2, 1)}, ValueError, ["4 image", "need 8"]),
        ({"video_grid_thw": ONE}, ValueError, ["0 video", "need 4"]),
        ({"image_grid_thw": torch.tensor([[1, 5, 4]])}, ValueError, ["[1, 5, 4]", "2"]),
        ({"image_grid_thw": torch.tensor([[1, 4, 7]])}, ValueError, ["[1, 4, 7]", "2"]),
        ({"merge": 3}, ValueError, ["[1, 4, 4]", "merge=3"]),
        ({"image_grid_thw": torch.tensor([[0, 4, 4]])}, ValueError, ["[0, 4, 4]"]),
        ({"image_grid_thw": torch.tensor([[1, 4, -4]])}, ValueError, ["[1, 4, -4]"]),
        ({"image_grid_thw": ONE[0]}, ValueError, ["image_grid_thw", "[3]"]),
        ({"image_grid_thw": ONE[:, :2]}, ValueError, ["image_grid_thw", "[1, 2]"]),
        ({"image_grid_thw": ONE.float()}, TypeError, ["image_grid_thw", "float32"]),
        ({"image_grid_thw": [[1, 4, 6]]}, ValueError, ["4 image", "need 6"]),
        ({"token_types": PLACEHOLDERS[0]}, ValueError, ["[6]"]),
        ({"token_types": PLACEHOLDERS.float()}, TypeError, ["token_types", "float32"]),
        ({"token_types": PLACEHOLDERS.bool()}, TypeError, ["token_types", "bool"]),
        ({"token_types": PLACEHOLDERS + 2}, ValueError, ["0 to 2", "got 3"]),
        ({"token_types": PLACEHOLDERS - 1}, ValueError, ["0 to 2", "got -1"]),
        ({"mask": torch.ones(1, 5).long()}, ValueError, ["[1, 5]", "[1, 6]"]),
        ({"mask": torch.ones(6).long()}, ValueError, ["[6]", "[1, 6]"]),
        ({"mask": torch.ones(1, 6)}, TypeError, ["mask", "float32"]),
        ({"mask": torch.full((1, 6), 2)}, ValueError, ["mask", "0 and 1", "got 2"]),
        (
            {"mask": torch.tensor([[1, 1, 1, 1, 0, 1]])},
            ValueError,
            ["3 image", "need 4"],
        ),
        ({"merge": 0}, ValueError, ["merge", "0"]),
        ({"merge": 2.0}, TypeError, ["merge", "2.0"]),
        ({"tokens_per_second": -1}, ValueError, ["tokens_per_second", "-1"]),
        ({"tokens_per_second": math.nan}, ValueError, ["tokens_per_second", "nan"]),
        ({"seconds_per_grid": [1.0]}, ValueError, ["1 entries", "0 videos"]),
    ],
)
def test_bad_batches_name_the_number(arguments, error, words):
    good = {"token_types": PLACEHOLDERS, "image_grid_thw": ONE}
    with pytest.raises(error) as caught:
        mrope_position_ids(**{**good, **arguments})
    assert all(word in str(caught.value) for word in words), caught.value


@pytest.mark.parametrize("seconds", [[1.0], [1.0, -0.5], [1.0, math.inf], [1.0] * 3])
def test_seconds_one_a_video(seconds):
    arguments = inputs([[video(1, 1, 1), text(1), video(1, 1, 1)]])
    arguments["seconds_per_grid"] = seconds
    with pytest.raises(ValueError, match=r"seconds_per_grid") as caught:
        mrope_position_ids(**arguments)
    assert str(len(seconds) if len(seconds) != 2 else seconds[1]) in str(caught.value)


@pytest.mark.parametrize(
    ("token_types", "split_frames", "words"),
    [
        ([[2, 2, 0, 2, 2, 0]], False, ["video 0 needs 4", "has 2"]),
        ([[2, 2, 0, 2, 2, 0]], True, None),
        ([[2, 2, 2, 2, 0, 0]], True, None),
        ([[2, 0, 2, 2, 2, 0]], True, ["video frame 0 needs 2", "has 1"]),
        (
            [[0, 0, 0, 2, 2, 2], [2, 0, 0, 0, 0, 0]],
            True,
            ["video frame 1 needs 2", "1"],
        ),
        ([[0, 2, 2, 1, 2, 2]], False, ["1 image"]),
    ],
)
def test_text_or_the_end_of_a_row_may_not_cut_a_grid(token_types, split_frames, words):
    arguments = {
        "token_types": torch.tensor(token_types),
        "video_grid_thw": torch.tensor([[2, 2, 4]]),
        "split_frames": split_frames,
    }
    if words is None:
        assert mrope_position_ids(**arguments)[1].tolist() == [[0]]
        return
    with pytest.raises(ValueError, match="placeholders") as caught:
        mrope_position_ids(**arguments)
    assert all(word in str(caught.value) for word in words), caught.value


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"grid_thw": (1, 5, 4)}, ValueError, ["[1, 5, 4]", "merge=2"]),
        ({"grid_thw": (1, 4)}, ValueError, ["[2]"]),
        ({"grid_thw": torch.ones(2, 3).long()}, ValueError, ["[2, 3]"]),
        ({"grid_thw": (1.0, 4, 4)}, TypeError, ["grid_thw"]),
        ({"grid_thw": (0, 4, 4)}, ValueError, ["[0, 4, 4]"]),
        ({"start": 1.5}, TypeError, ["start", "1.5"]),
        ({"start": True}, TypeError, ["start", "True"]),
        ({"interval": -1}, ValueError, ["interval", "-1"]),
        ({"interval": math.inf}, ValueError, ["interval", "inf"]),
    ],
)
def test_bad_grids_name_the_number(arguments, error, words):
    with pytest.raises(error) as caught:
        vision_position_ids(**{"grid_thw": (1, 4, 4), **arguments})
    assert all(word in str(caught.value) for word in words), caught.value


# Tables.


def slow_tables(positions, section, base, interleaved):
    """cos and sin in float64, number by number: [3, T] → [T, pairs]."""
    pairs = sum(section)
    order = [axis for axis in range(3) for _ in range(section[axis])]
    if interleaved:
        left, order = list(section), []
        while len(order) < pairs:
            turn = len(order) % 3
            axis = turn if left[turn] else 0
            left[axis] -= 1
            order.append(axis)
        assert left == [0, 0, 0]
    angles = [
        [int(positions[a, i]) * base ** (-p / pairs) for p, a in enumerate(order)]
        for i in range(positions.shape[1])
    ]
    cos = [[math.cos(angle) for angle in row] for row in angles]
    sin = [[math.sin(angle) for angle in row] for row in angles]
    return [torch.tensor(table, dtype=torch.float64) for table in (cos, sin)]


SECTIONS = [
    ((16, 24, 24), False),
    ((24, 20, 20), True),
    ((11, 11, 10), True),
    ((22, 21, 21), True),
    ((0, 3, 1), False),
    ((4, 0, 0), True),
    ((2, 1, 1), True),
    ((2, 1, 1), False),
]


@pytest.mark.parametrize(("section", "interleaved"), SECTIONS)
def test_tables_equal_float64_at_any_position(device, section, interleaved):
    positions = torch.randint(0, 1_000_000, (3, 50), generator=torch.manual_seed(0))
    expected = slow_tables(positions, section, 1e6, interleaved)
    inv_freq = rope_inv_freq(2 * sum(section), 1e6, device=device)
    tables = mrope_cos_sin(positions.to(device), inv_freq, section, interleaved)
    for table, wanted in zip(tables, expected, strict=True):
        assert table.dtype == torch.float32
        assert table.is_contiguous()  # or applying it takes several times as long
        assert table.device.type == device.type
        assert (table.cpu() - wanted).abs().max() < 1e-6


def table_of(rotary, positions):
    """The first half of a transformers table, whose second half repeats it."""
    cos, sin = rotary(torch.zeros(1), positions)
    half = cos.shape[-1] // 2
    assert torch.equal(cos[..., :half], cos[..., half:])
    return cos[..., :half], sin[..., :half]


def rotary_of(name):
    """A text model's rotary module in transformers, its section, its inv_freq."""
    wide = {"hidden_size": 512, "num_attention_heads": 4}  # heads of 128
    rope = {"rope_type": "default", "rope_theta": 1e6}
    if name == "Qwen2-VL":
        rope["mrope_section"] = [16, 24, 24]
        module = modeling_qwen2_vl.Qwen2VLRotaryEmbedding(
            Qwen2VLTextConfig(**wide, rope_parameters=rope)
        )
    elif name == "Qwen3-VL":
        rope |= {"mrope_section": [24, 20, 20], "mrope_interleaved": True}
        config = Qwen3VLTextConfig(**wide, head_dim=128, rope_parameters=rope)
        module = modeling_qwen3_vl.Qwen3VLTextRotaryEmbedding(config)
    else:  # a quarter of a head of 256 turns
        rope |= {"mrope_section": [11, 11, 10], "partial_rotary_factor": 0.25}
        config = Qwen3_5TextConfig(**wide, head_dim=256, rope_parameters=rope)
        module = modeling_qwen3_5.Qwen3_5TextRotaryEmbedding(config)
    section = rope["mrope_section"]
    return module, section, rope_inv_freq(2 * sum(section), 1e6)


@pytest.mark.parametrize("name", ["Qwen2-VL", "Qwen3-VL", "Qwen3.5"])
def test_tables_equal_transformers(name):
    # transformers forms its angles in fp32: below position 64 that costs less than
    # 64 · 2^-24 · 2 = 8e-6 radians.
    module, section, inv_freq = rotary_of(name)
    positions = torch.randint(0, 64, (3, 2, 40), generator=torch.manual_seed(0))
    tables = mrope_cos_sin(positions, inv_freq, section, name != "Qwen2-VL")
    for table, wanted in zip(tables, table_of(module, positions), strict=True):
        assert table.shape == wanted.shape == (2, 40, sum(section))
        assert (table - wanted).abs().max() < 1e-5


@pytest.mark.parametrize(
    ("name", "rotate"),
    [
        ("Qwen2-VL", modeling_qwen2_vl.apply_rotary_pos_emb),
        ("Qwen3-VL", modeling_qwen3_vl.apply_rotary_pos_emb),
        ("Qwen3.5", modeling_qwen3_5.apply_rotary_pos_emb),
    ],
)
def test_rotated_heads_equal_transformers(name, rotate):
    """Qwen3.5 turns 64 channels of 256: the others pass, in M-RoPE as in RoPE."""
    module, section, inv_freq = rotary_of(name)
    generator = torch.manual_seed(0)
    positions = torch.randint(0, 64, (3, 2, 9), generator=generator)
    width = 256 if name == "Qwen3.5" else 128
    q, k = torch.randn(2, 2, 3, 9, width, generator=generator)
    expected = rotate(q, k, *module(q, positions))
    tables = mrope_cos_sin(positions, inv_freq, section, name != "Qwen2-VL")
    turned = 2 * sum(section)
    for x, wanted in zip((q, k), expected, strict=True):
        got = apply_rope(x, *tables)
        # two features of at most 5, with tables that are off by 1e-5 (see above)
        assert (got - wanted).abs().max() < 1e-4
        assert torch.equal(got[..., turned:], x[..., turned:])


@pytest.mark.parametrize(
    ("section", "interleaved", "ribbon"),
    [
        ((16, 24, 24), False, "0" * 16 + "1" * 24 + "2" * 24),
        ((24, 20, 20), True, "012" * 20 + "0000"),
        ((2, 1, 1), True, "0120"),
        ((4, 2, 1), True, "0120100"),
    ],
)
def test_which_axis_each_pair_reads(section, interleaved, ribbon):
    """M9, alibaba/MNN#4133: move one axis at a time and see which pairs turn."""
    inv_freq = rope_inv_freq(2 * sum(section))
    still, _ = mrope_cos_sin(torch.zeros(3, 1).long(), inv_freq, section, interleaved)
    seen = [""] * sum(section)
    for axis in range(3):
        moved = torch.zeros(3, 1).long()
        moved[axis] = 1000
        cos, _ = mrope_cos_sin(moved, inv_freq, section, interleaved)
        for pair in (cos != still)[0].nonzero()[:, 0]:
            seen[pair] += str(axis)
    assert "".join(seen) == ribbon


@pytest.mark.parametrize(("section", "interleaved"), SECTIONS)
def test_equal_rows_are_rope(section, interleaved):
    positions = torch.randint(0, 100_000, (2, 33), generator=torch.manual_seed(0))
    inv_freq = rope_inv_freq(2 * sum(section), 1e6)
    tables = mrope_cos_sin(positions.expand(3, 2, 33), inv_freq, section, interleaved)
    for table, wanted in zip(tables, rope_cos_sin(positions, inv_freq), strict=True):
        assert torch.equal(table, wanted)


def test_a_part_of_the_head_may_stay():
    """B6, maxtext#4615: section [2, 1, 1] turns 8 channels of 16; the others pass."""
    generator = torch.manual_seed(0)
    x = torch.randn(2, 3, 5, 16, generator=generator)
    positions = torch.randint(1, 50, (3, 2, 5), generator=generator)
    cos, sin = mrope_cos_sin(positions, rope_inv_freq(8), (2, 1, 1))
    for layout in ("half", "interleaved"):
        y = apply_rope(x, cos, sin, layout)
        assert torch.equal(y[..., 8:], x[..., 8:])
        assert (y[..., :8] != x[..., :8]).all()


def test_the_text_row_is_left_to_the_caller():
    """M11: huggingface/transformers#40490."""
    three = torch.randint(0, 50, (3, 2, 5), generator=torch.manual_seed(0))
    four = torch.cat([torch.arange(5).expand(1, 2, 5), three])
    inv_freq = rope_inv_freq(8)
    tables = mrope_cos_sin(four[1:], inv_freq, (2, 1, 1))
    assert all(map(torch.equal, tables, mrope_cos_sin(three, inv_freq, (2, 1, 1))))
    with pytest.raises(ValueError, match=r"\[4, 2, 5\].*positions\[1:\]"):
        mrope_cos_sin(four, inv_freq, (2, 1, 1))


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"section": (2, 1, 2)}, ValueError, ["[2, 1, 2]", "4 pairs"]),
        ({"section": (2, 2)}, ValueError, ["[2, 2]", "three"]),
        ({"section": (5, -1, 0)}, ValueError, ["[5, -1, 0]"]),
        (
            {"section": (1, 2, 1), "interleaved": True},
            ValueError,
            ["[1, 2, 1]", "height"],
        ),
        (
            {"section": (1, 1, 2), "interleaved": True},
            ValueError,
            ["[1, 1, 2]", "width"],
        ),
        ({"positions": torch.zeros(2, 5).long()}, ValueError, ["[2, 5]"]),
        ({"positions": torch.zeros(1, 2, 5).long()}, ValueError, ["[1, 2, 5]"]),
        ({"positions": torch.zeros(3).long()}, ValueError, ["[3]"]),
        ({"positions": torch.zeros(3, 5)}, TypeError, ["float"]),
        ({"inv_freq": rope_inv_freq(8).expand(4, 4)}, ValueError, ["[4, 4]"]),
    ],
)
def test_bad_sections_name_the_number(arguments, error, words):
    good = {
        "positions": torch.zeros(3, 5).long(),
        "inv_freq": rope_inv_freq(8),
        "section": (2, 1, 1),
    }
    with pytest.raises(error) as caught:
        mrope_cos_sin(**{**good, **arguments})
    assert all(word in str(caught.value) for word in words), caught.value


def test_an_interleaved_section_that_does_not_fit():
    """Qwen2-VL's numbers read in Qwen3-VL's order would need pair 70 of 64."""
    with pytest.raises(ValueError, match=r"\[16, 24, 24\].*70.*63"):
        mrope_cos_sin(torch.zeros(3, 1).long(), rope_inv_freq(128), (16, 24, 24), True)


@pytest.mark.parametrize("interleaved", [False, True])
def test_p20_tables_compile_whole_and_not_for_every_length(interleaved):
    inv_freq = rope_inv_freq(16)
    section = (4, 2, 2)
    torch.compiler.reset()
    counter = CompileCounter()
    compiled = torch.compile(mrope_cos_sin, fullgraph=True, backend=counter)
    for length in (8, 12, 13, 64, 70):
        positions = torch.arange(3 * length).view(3, 1, length)
        tables = compiled(positions, inv_freq, section, interleaved)
        wanted = mrope_cos_sin(positions, inv_freq, section, interleaved)
        assert all(map(torch.equal, tables, wanted))
    assert counter.frame_count <= 2


# The vision tower.


@pytest.mark.parametrize(("t", "h", "w"), [(1, 6, 10), (3, 4, 2), (1, 2, 2)])
def test_axial_tables_equal_transformers(t, h, w):
    config = Qwen2VLVisionConfig(embed_dim=160, num_heads=2)  # heads of 80
    module = modeling_qwen2_vl.Qwen2VLVisionRotaryEmbedding(config)
    positions = get_vision_position_ids(torch.tensor([[t, h, w]]), 2)  # [N, 2]
    tables = axial_rope_cos_sin(positions.t(), 80)
    for table, wanted in zip(tables, table_of(module, positions), strict=True):
        assert table.shape == wanted.shape == (t * h * w, 40)
        assert (table - wanted).abs().max() < 1e-5


def test_axial_halves_read_row_and_column_over_the_whole_spectrum(device):
    positions = torch.randint(0, 1000, (2, 3, 7), generator=torch.manual_seed(0))
    cos, sin = axial_rope_cos_sin(positions.to(device), 16, base=100.0)
    for i, axis in enumerate(positions.double()):
        for p in range(4):
            angle = axis * 100.0 ** (-p / 4)
            assert (cos[..., 4 * i + p].cpu() - angle.cos()).abs().max() < 1e-6
            assert (sin[..., 4 * i + p].cpu() - angle.sin()).abs().max() < 1e-6


@pytest.mark.parametrize("head_dim", [0, -4, 2, 6, 81])
def test_axial_width_is_a_multiple_of_four(head_dim):
    with pytest.raises(ValueError, match=f"multiple of 4.*{head_dim}"):
        axial_rope_cos_sin(torch.zeros(2, 3).long(), head_dim)


@pytest.mark.parametrize("shape", [(3, 4), (4, 2), (2,)])
def test_axial_positions_are_row_and_column(shape):
    with pytest.raises(ValueError, match="row, column") as caught:
        axial_rope_cos_sin(torch.zeros(shape).long(), 8)
    assert str(list(shape)) in str(caught.value)


# Faults of the checks of others, wherever they can occur here. Numbering a batch reads
# it on the host, so it cannot be mapped, traced or faked.

TABLES = {
    "in blocks": lambda p: mrope_cos_sin(p, rope_inv_freq(8), (2, 1, 1)),
    "interleaved": lambda p: mrope_cos_sin(p, rope_inv_freq(8), (2, 1, 1), True),
    "axial": lambda p: axial_rope_cos_sin(p[:2], 8),
}


@pytest.mark.parametrize("name", TABLES)
def test_p1_tables_are_mapped(name):
    positions = torch.arange(4 * 3 * 5).view(4, 3, 5)
    mapped = torch.func.vmap(TABLES[name])(positions)
    one_by_one = zip(*(TABLES[name](p) for p in positions), strict=True)
    for found, tables in zip(mapped, one_by_one, strict=True):
        torch.testing.assert_close(found, torch.stack(tables))


@pytest.mark.parametrize("name", TABLES)
def test_p2_fake_tensors(name):
    with FakeTensorMode():
        cos, sin = TABLES[name](torch.zeros(3, 2, 5, dtype=torch.int64))
        grid = vision_position_ids((2, 4, 6), start=3)
    assert cos.shape == sin.shape == (2, 5, 4)
    assert grid.shape == (3, 12)


@pytest.mark.parametrize("name", TABLES)
def test_p6_tables_of_inference_mode_serve_training(name):
    with torch.inference_mode():
        tables = TABLES[name](torch.arange(15).view(3, 5))
    x = torch.randn(1, 2, 5, 8, requires_grad=True)
    for layout in ("half", "interleaved"):
        (gradient,) = torch.autograd.grad(
            apply_rope(x, *tables, layout).pow(2).sum(), x
        )
        torch.testing.assert_close(gradient, 2 * x)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")  # checks of shapes
@pytest.mark.parametrize("name", TABLES)
def test_p21_traces(name):
    traced = torch.jit.trace(TABLES[name], torch.arange(15).view(3, 5))
    for length in (5, 9):
        positions = torch.arange(3 * length).view(3, length)
        for one, other in zip(traced(positions), TABLES[name](positions), strict=True):
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize("shape", [(0, 5), (2, 0), (0, 0)])
@pytest.mark.parametrize("name", TABLES)
def test_p23_tables_of_nothing(name, shape):
    cos, sin = TABLES[name](torch.zeros(3, *shape, dtype=torch.int64))
    assert cos.shape == sin.shape == (*shape, 4)


def test_p26_any_integer_but_no_bool():
    expected = vision_position_ids((1, 4, 6), start=3, merge=2)
    for grid in ((1, 4, 6), tuple(np.array([1, 4, 6])), [(1, 4, 6)]):
        found = vision_position_ids(grid, np.int64(3), np.int32(2))
        assert torch.equal(found, expected)
    found = mrope_position_ids(PLACEHOLDERS, ONE, merge=np.int64(2))
    assert_same(found, mrope_position_ids(PLACEHOLDERS, ONE))
    positions = torch.arange(15).view(3, 5)
    section = tuple(np.array([2, 1, 1]))
    found = mrope_cos_sin(positions, rope_inv_freq(8), section)
    assert torch.equal(found[0], TABLES["in blocks"](positions)[0])
    found = axial_rope_cos_sin(positions[:2], np.int64(8))
    assert torch.equal(found[0], TABLES["axial"](positions)[0])
    for refused in (
        lambda: vision_position_ids((True, 4, 6)),
        lambda: vision_position_ids((1, 4, 6), start=True),
        lambda: vision_position_ids((1, 4, 6), merge=True),
        lambda: vision_position_ids((1, 4, 6), interval=True),
        lambda: mrope_position_ids(PLACEHOLDERS, ONE, merge=True),
        lambda: mrope_position_ids(PLACEHOLDERS, ONE, tokens_per_second=True),
        lambda: mrope_cos_sin(positions, rope_inv_freq(8), (2, True, 1)),
        lambda: axial_rope_cos_sin(positions[:2], True),
    ):
        with pytest.raises(TypeError, match="True"):
            refused()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_p27_the_default_dtype_does_not_matter(dtype):
    rows = [[text(2), image(2, 3), video(60, 1, 1, 1 / 3), text(5)]]
    positions = torch.arange(3 * 9000).view(3, 9000)

    def everything():
        minute = torch.tensor([[2] * 60])
        numbered = mrope_position_ids(
            minute,
            video_grid_thw=torch.tensor([[60, 2, 2]]),
            tokens_per_second=25,
            seconds_per_grid=[1 / 3],
        )
        assert numbered[1].item() == math.floor(59 * 25 / 3) + 1 - 60
        grid = vision_position_ids((60, 2, 2), interval=25 / 3)
        more = mrope_position_ids(**inputs(rows), tokens_per_second=25)
        tables = [table for f in TABLES.values() for table in f(positions)]
        return [*numbered, grid, *more, *tables]

    expected = everything()
    torch.set_default_dtype(dtype)
    try:
        found = everything()
    finally:
        torch.set_default_dtype(torch.float32)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    "grid", [torch.tensor(3), [5], (1, 4), torch.ones(1, 1, 3).int()]
)
def test_p10_a_grid_of_another_shape_is_refused(grid):
    with pytest.raises(ValueError, match=r"grid_thw must be \[3\] or \[1, 3\], got"):
        vision_position_ids(grid)
