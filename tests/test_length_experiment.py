"""`lib.length_experiment` against slow loops, and its confounds one by one."""

import dataclasses
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from transformers import CONFIG_MAPPING

from lib.device import pick_device
from lib.length_experiment import (
    ENCODINGS,
    FACTS,
    SETTINGS,
    Clamped,
    Encoding,
    Result,
    Setting,
    Windowed,
    alibi_windows,
    cheat_sheet,
    compare,
    cut_rows,
    far_rows,
    hide_digits,
    load_characters,
    load_results,
    loss_by_place,
    over_seeds,
    pick_encodings,
    recall,
    train,
)
from lib.model_facts import find_model
from lib.rope_scaling import ntk_inv_freq, scaled_inv_freq
from lib.transformer import PRESETS, Position, Transformer

TINY = Setting(
    model=replace(PRESETS["tiny"], d_model=16, d_hidden=20, embedding_scale=4.0),
    length=8,
    batch=4,
    steps=3,
    test_tokens=128,
    questions=20,
)
STORED = Path(__file__).parents[1] / "benchmarks/results/length_experiment.json"
KINDS = ("none", "sinusoidal", "learned", "RoPE", "ALiBi", "T5")
TEXT = torch.arange(97, 123).repeat(20)  # a … z, twenty times


@pytest.fixture(scope="module", autouse=True)
def on_the_cpu():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BOOK_DEVICE", "cpu")
        yield


def model_with(name: str, seed: int = 0, std: float = 0.3) -> Transformer:
    """An untrained model with weights large enough for a wrong place to show."""
    setting = replace(TINY, model=replace(TINY.model, std=std), steps=1, rate=1e-9)
    return train(ENCODINGS[name].make, setting, seed, TEXT)


# the rows


def test_the_text_has_no_digit_and_no_question_mark():
    train_ids, test_ids = load_characters()
    seen = set(bytes(torch.cat([train_ids, test_ids]).unique().tolist()).decode())
    assert not seen & set("0123456789?")
    assert len(test_ids) == 200_000 < len(train_ids)
    for setting in SETTINGS.values():
        assert setting.test_tokens < len(test_ids)


def test_rows_are_pieces_of_the_text():
    ids = torch.arange(1000)
    rows = cut_rows(ids, 300, 20, torch.Generator().manual_seed(0))
    assert (rows[:, 1:] - rows[:, :-1] == 1).all()
    assert rows.min() >= 0
    assert rows.max() <= 999


def test_the_first_and_the_last_piece_can_be_drawn():
    rows = cut_rows(torch.arange(5), 200, 4, torch.Generator().manual_seed(0))
    assert sorted(set(rows[:, 0].tolist())) == [0, 1]


def test_a_hidden_digit_is_asked_for_once_and_answered():
    generator = torch.Generator().manual_seed(0)
    before = cut_rows(TEXT, 500, 12, generator)
    rows, asked = hide_digits(before, generator)
    for row, old, at in zip(
        rows.tolist(), before.tolist(), asked.tolist(), strict=True
    ):
        digits = [i for i, c in enumerate(row) if chr(c).isdigit()]
        assert row.count(ord("?")) == 1
        assert row[at] == ord("?")
        assert len(digits) == 2
        assert digits[0] < at
        assert digits[1] == at + 1
        assert row[digits[0]] == row[digits[1]]
        kept = set(range(12)) - {*digits, at}
        assert all(row[i] == old[i] for i in kept)
    assert asked.unique().tolist() == list(range(1, 11))  # no place gives it away


def test_far_rows_hold_the_answer_in_the_first_places_alone():
    generator = torch.Generator().manual_seed(0)
    rows = far_rows(cut_rows(TEXT, 400, 33, generator), 5, generator)
    is_digit = (rows >= ord("0")) & (rows <= ord("9"))
    assert (is_digit[:, :5].sum(1) == 1).all()
    assert not is_digit[:, 5:-1].any()
    assert is_digit[:, -1].all()
    assert (rows[:, -2] == ord("?")).all()
    assert (rows[is_digit].view(-1, 2).diff(dim=1) == 0).all()
    counts = torch.bincount(rows[:, -1])[ord("0") : ord("9") + 1]
    assert counts.min() > 20  # of 40: ten digits alike, so that a guess comes to 0.1


# the measures


@pytest.mark.parametrize("length", [1, 3, 8, 24])
def test_loss_by_place_equals_a_slow_loop(length):
    model, tokens = model_with("RoPE"), 24 * 4
    found = loss_by_place(model, TEXT, length, tokens)
    sums, count = [0.0] * length, [0] * length
    for start in range(0, tokens, length):
        for place in range(length):
            seen = TEXT[start : start + place + 1][None]  # no later character at all
            with torch.no_grad():
                logits = model(seen)[0, -1].double()
            target = TEXT[start + place + 1]
            sums[place] += (logits.logsumexp(0) - logits[target]).item()
            count[place] += 1
    assert len(set(count)) == 1
    assert sum(count) == tokens
    expected = torch.tensor(sums) / torch.tensor(count)
    assert torch.allclose(found, expected.float(), atol=1e-5)


def test_every_length_scores_the_same_characters():
    scored = []

    class Spy(torch.nn.Module):
        def forward(self, ids):
            scored.extend(ids.flatten().tolist())
            return torch.zeros(*ids.shape, 256)

    texts = []
    for length in TINY.lengths:
        scored.clear()
        loss = loss_by_place(Spy(), torch.arange(200), length, TINY.test_tokens)
        assert torch.allclose(loss, torch.tensor(256.0).log())
        texts.append(list(scored))
    assert texts[0] == list(range(128))
    assert texts == [texts[0]] * 4


def test_recall_counts_right_answers():
    class Parrot(torch.nn.Module):
        """Says the first character of the row again."""

        def forward(self, ids):
            first = F.one_hot(ids[:, :1], 256).float()
            return first.expand(-1, ids.shape[1], -1)

    rows = torch.tensor([[49, 97, 63, 49], [50, 97, 63, 51]])
    assert recall(Parrot(), rows) == 0.5


def test_a_model_without_access_answers_at_chance():
    """Cut to windows of 4, two layers see 7 back: the answer is farther off."""
    model, generator = model_with("RoPE"), torch.Generator().manual_seed(1)
    short = model.with_options(position=Windowed(model.position, [4] * 4))
    rows = far_rows(cut_rows(TEXT, 300, 17, generator), 8, generator)
    others = rows.clone()
    others[rows == rows[:, -1:]] = ord("0")  # another digit, in front and as the answer
    with torch.no_grad():
        same = short(rows[:, :-1])[:, -1], short(others[:, :-1])[:, -1]
        seen = model(rows[:, :-1])[:, -1], model(others[:, :-1])[:, -1]
    assert torch.equal(*same)
    assert not torch.allclose(*seen, atol=1e-3)  # and without windows it is in reach
    assert recall(short, rows) < 0.25


# the windows


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("windows", [[3, 3, 3, 3], [1, 2, 5, 100]])
def test_a_window_sees_exactly_its_tokens(name, windows):
    """One layer: the last output depends on the tokens in its widest window alone."""
    setting = replace(TINY.model, num_layers=1, std=0.2, max_positions=8)
    torch.manual_seed(0)
    position = Windowed(ENCODINGS[name].make(setting), windows)
    model = Transformer(setting, position)
    ids = torch.randint(256, (1, 12))
    with torch.no_grad():
        before = model(ids)[0, -1]
        for back in range(12):
            changed = ids.clone()
            changed[0, 11 - back] = (ids[0, 11 - back] + 1) % 256
            moved = not torch.equal(model(changed)[0, -1], before)
            assert moved == (back < max(windows)), back


@pytest.mark.parametrize("name", KINDS)
def test_windows_equal_a_slow_loop(name):
    config = replace(TINY.model, std=0.5, max_positions=12)
    torch.manual_seed(0)
    inner = ENCODINGS[name].make(config)
    windows = [1, 2, 5, 100]
    q, k, v = torch.randn(3, 2, 4, 12, 4)
    model = Transformer(config, Windowed(inner, windows))
    places = torch.arange(12)[None]
    call = model._prepare(torch.zeros(2, 12, dtype=torch.long), None, None, None)
    found = model.position.attend(q, k, v, call.places, call.price)
    slopes = [2.0 ** (-2 * (h + 1)) for h in range(4)]
    bias = inner(places[0], places[0])[0] if name == "T5" else None
    for h, i in [(h, i) for h in range(4) for i in range(12)]:
        seen = range(max(0, i - windows[h] + 1), i + 1)
        scores = torch.stack([q[:, h, i] @ k[:, h, j].T for j in seen]).diagonal(
            dim1=1, dim2=2
        ) / math.sqrt(4)  # [seen, B]
        for n, j in enumerate(seen):
            scores[n] -= slopes[h] * (i - j) if name == "ALiBi" else 0
            scores[n] += bias[h, i, j] if bias is not None else 0
        values = torch.stack([v[:, h, j] for j in seen])  # [seen, B, D]
        expected = (scores.softmax(0)[..., None] * values).sum(0)
        assert torch.allclose(found[:, h, i], expected, atol=1e-5)


@pytest.mark.parametrize("name", KINDS)
def test_a_window_as_long_as_the_row_changes_nothing(name):
    model, ids = model_with(name), TEXT[:8][None]
    cut = ENCODINGS[f"{name}, cut"].at_test(model, 8)
    with torch.no_grad():
        assert torch.allclose(cut(ids), model(ids), atol=1e-5)
        longer = TEXT[:16][None]
        assert torch.allclose(cut(longer)[:, :8], model(ids), atol=1e-5)
        assert not torch.allclose(cut(longer), model(longer), atol=1e-3)


def test_alibi_windows_hold_99_percent():
    for heads in (4, 8, 12):
        for slope, window in zip(
            [2 ** (-8 * (h + 1) / 4) for h in range(4)], alibi_windows(4), strict=True
        ):
            weights = torch.exp(-slope * torch.arange(20_000, dtype=torch.float64))
            share = weights[:window].sum() / weights.sum()
            less = weights[: window - 1].sum() / weights.sum()
            assert less < 0.99 <= share
        assert len(alibi_windows(heads)) == heads


def test_windowed_decodes_with_a_cache():
    from lib.kv_cache import KVCache

    model = model_with("RoPE")
    short = model.with_options(position=Windowed(model.position, [2, 3, 4, 5]))
    cache, ids = KVCache(2), TEXT[:10][None]
    everywhere = torch.arange(10)
    with torch.no_grad():
        parts = [
            short(ids[:, :6], cache=cache),
            short(ids[:, 6:], positions=everywhere, cache=cache),
        ]
        assert torch.allclose(torch.cat(parts, 1), short(ids), atol=1e-5)


# the encodings


def test_a_clamped_table_repeats_its_last_row():
    position = Clamped(8, 16)
    rows = position.add(torch.zeros(1, 20, 16), torch.arange(20)[None])[0]
    assert torch.equal(rows[:8], position.weight)
    assert torch.equal(rows[8:], position.weight[7].expand(12, -1))


@pytest.mark.parametrize("length", [4, 8, 16, 64])
def test_scalings_have_the_frequencies_of_their_factor(length):
    model, factor = model_with("RoPE"), max(1.0, length / 8)
    plain = ENCODINGS["RoPE"].make(TINY.config).inv_freq
    found = {
        name: ENCODINGS[f"RoPE + {name}"].at_test(model, length).position
        for name in ("PI", "NTK", "YaRN", "YaRN, fitted")
    }
    assert torch.allclose(found["PI"].inv_freq, plain / factor)
    ntk, _ = ntk_inv_freq(4, 1e4, factor)
    assert torch.allclose(found["NTK"].inv_freq.float(), ntk.float())
    for name, betas in (("YaRN", (32, 1)), ("YaRN, fitted", (1, 0.25))):
        parameters = {
            "rope_type": "yarn",
            "rope_theta": 1e4,
            "factor": factor,
            "original_max_position_embeddings": 8,
            "beta_fast": betas[0],
            "beta_slow": betas[1],
        }
        yarn, _ = scaled_inv_freq(parameters, 4, 8)
        assert torch.allclose(found[name].inv_freq.float(), yarn.float())


@pytest.mark.parametrize("name", ["PI", "NTK", "YaRN", "YaRN, fitted"])
def test_scalings_share_the_weights_and_change_nothing_at_the_trained_length(name):
    model, ids = model_with("RoPE"), TEXT[:8][None]
    scaled = ENCODINGS[f"RoPE + {name}"].at_test(model, 8)
    ours, theirs = (m.embedding.weight.data_ptr() for m in (scaled, model))
    assert ours == theirs
    with torch.no_grad():
        assert torch.allclose(scaled(ids), model(ids), atol=1e-5)


# the comparison


@pytest.mark.parametrize("name", KINDS[1:])
def test_all_encodings_start_from_the_same_weights(name):
    nothing, other = (
        train(ENCODINGS[n].make, replace(TINY, steps=1, rate=1e-9), 5, TEXT)
        for n in ("none", name)
    )
    state = other.state_dict()
    for key, weight in nothing.state_dict().items():
        assert torch.allclose(weight, state[key], atol=1e-7), key


def test_all_encodings_see_the_same_rows_in_the_same_order(monkeypatch):
    seen, forward = [], Transformer.forward

    def spy(self, ids, *arguments, **named):
        seen.append(ids)
        return forward(self, ids, *arguments, **named)

    monkeypatch.setattr(Transformer, "forward", spy)
    batches = []
    for name in ("none", "learned", "RoPE, ALiBi's windows"):
        seen.clear()
        train(ENCODINGS[name].make, TINY, 3, TEXT)
        batches.append(torch.stack(seen))
    assert len(batches[0]) == 3
    assert not torch.equal(batches[0][0], batches[0][1])
    assert torch.equal(batches[0], batches[1])
    assert torch.equal(batches[0], batches[2])


def test_a_seed_gives_the_same_results_again_and_another_seed_others():
    names = ("none", "RoPE", "RoPE + NTK", "RoPE, cut")
    first, again = (compare(pick_encodings(*names), TINY, [0, 1]) for _ in range(2))
    assert first == again
    assert [(r.encoding, r.seed) for r in first[:4]] == [(n, 0) for n in names]
    assert first[0].loss != first[4].loss


def test_the_global_seed_is_not_read():
    torch.manual_seed(1)
    one = compare(pick_encodings("learned"), TINY, [4])
    torch.manual_seed(2)
    assert compare(pick_encodings("learned"), TINY, [4]) == one


def test_the_loss_is_the_mean_of_the_places():
    [result] = compare(pick_encodings("RoPE"), TINY)
    assert len(result.by_place) == 64
    assert math.isclose(sum(result.by_place) / 64, result.loss[64], rel_tol=1e-5)
    assert list(result.loss) == list(result.recalled) == [8, 16, 32, 64]


def test_an_encoding_of_the_reader_goes_through_the_same_experiment():
    class Shift(Position):
        def add(self, x, positions):
            return x + 0.01 * positions[..., None]

    [result] = compare({"mine": Encoding(lambda config: Shift())}, TINY, [7])
    assert result.encoding == "mine"
    assert result.seed == 7


@pytest.mark.slow
def test_training_learns_and_memory_is_what_separates_windows():
    setting = replace(SETTINGS["cpu"], test_tokens=8192, questions=100)
    names = "none", "none, cut"
    whole, cut = compare(pick_encodings(*names), setting)
    assert whole.loss[32] < 2.6
    assert abs(whole.loss[256] - cut.loss[256]) < 0.15
    assert whole.recalled[256] > 0.8
    assert cut.recalled[256] < 0.25


def test_the_large_setting_builds():
    config = SETTINGS["gpu"].config
    with torch.device("meta"):
        model = Transformer(config)
    count = sum(p.numel() for p in model.parameters())
    assert 4.5e6 < count < 5.5e6


def test_it_runs_on_the_device(device, monkeypatch):
    monkeypatch.setenv("BOOK_DEVICE", str(device).split(":")[0])
    results = compare(ENCODINGS, replace(TINY, steps=1))
    assert {r.encoding for r in results} == set(ENCODINGS)
    assert pick_device().type == device.type


# the stored run and the sheet


def test_stored_results_cover_every_encoding_and_three_seeds():
    results = load_results(STORED)
    assert {r.encoding for r in results} == set(ENCODINGS)
    for name in ENCODINGS:
        assert over_seeds(results, name, "loss").shape == (3, 4)
        places = over_seeds(results, name, "by_place").mean(1)
        assert torch.allclose(
            places, over_seeds(results, name, "loss")[:, -1], atol=1e-3
        )
    small = load_results(STORED, "results_small_start")
    assert {r.encoding for r in small} == set(KINDS)


def test_the_stored_setting_is_the_one_that_is_shipped():
    stored = json.loads(STORED.read_text(encoding="utf-8"))["setting"]
    shipped = dataclasses.asdict(SETTINGS["cpu"])
    shipped["model"] = dataclasses.asdict(SETTINGS["cpu"].config)
    assert stored == json.loads(json.dumps(shipped))


def test_over_seeds_equals_a_loop():
    results = load_results(STORED)
    found = over_seeds(results, "ALiBi", "recalled")
    for row, seed in enumerate((0, 1, 2)):
        [one] = [r for r in results if (r.encoding, r.seed) == ("ALiBi", seed)]
        for column, length in enumerate((32, 64, 128, 256)):
            assert math.isclose(found[row, column], one.recalled[length], rel_tol=1e-6)


def test_the_sheet_counts_weights_as_the_encodings_have_them():
    config = SETTINGS["cpu"].config
    sizes = {"L": config.max_positions, "d": config.d_model, "H": config.num_heads}
    for fact in FACTS:
        count = 1
        for factor in fact.weights.split("·"):
            count *= sizes[factor] if factor in sizes else int(factor)
        position = ENCODINGS[fact.encoding].make(config)
        assert sum(p.numel() for p in position.parameters()) == count, fact.encoding


def test_the_sheet_says_where_an_encoding_acts():
    config = SETTINGS["cpu"].config
    for fact in FACTS:
        kind = type(ENCODINGS[fact.encoding].make(config))
        seams = () if kind is Position else ("add", "turn", "price")
        own = [seam for seam in seams if seam in vars(kind)]
        words = {"nowhere": [], "rows": ["add"], "turn": ["turn"], "the": ["turn"]}
        assert own == words.get(fact.acts.split()[0], ["price"]), fact.encoding


def test_the_sheet_shows_what_was_stored():
    results = load_results(STORED)
    lines = cheat_sheet(results).splitlines()
    assert len(lines) == 3 + len(FACTS)
    assert lines[1].count("<th") == len(re.findall("<t[hd]", lines[2])) == 9
    for fact, line in zip(FACTS, lines[2:-1], strict=True):
        cells = re.findall("<t[hd][^>]*>(.*?)</t[hd]>", line)
        rows = [r for r in results if r.encoding == fact.encoding]
        first, ends = sum(r.loss[32] for r in rows) / 3, [r.loss[256] for r in rows]
        last = f"{min(ends):.2f} to {max(ends):.2f}"
        shares = [f"{100 * r.recalled[256]:.0f}" for r in rows]
        low, high = min(shares, key=int), max(shares, key=int)
        recalled = f"{low} %" if low == high else f"{low} to {high} %"
        assert cells[0] == fact.encoding
        assert cells[6:8] == [f"{first:.2f} → {last}", recalled]


def test_the_sheet_agrees_with_the_facts_of_models():
    kinds = {"learned": "learned", "RoPE": "RoPE"}
    known = ("BERT-base", "GPT-2 small", "Mistral-7B-v0.1", "Llama-3-8B", "Qwen2.5-7B")
    for model in map(find_model, known):
        [fact] = [f for f in FACTS if f.encoding == kinds[model.position]]
        family = re.match(r"BERT|GPT-2|Mistral-7B|Llama.3|Qwen2.5", model.name)[0]
        years = fact.models.split(family.replace("Llama-3", "Llama 3"), 1)[1]
        assert re.search(r"\((\d{4})\)", years)[1] == str(model.year), model.name


def test_published_models_mix_windows_and_layers_without_positions():
    """What chapter 14 says of them, from transformers' configurations."""
    command, llama, smol, oss = (
        CONFIG_MAPPING[name]()
        for name in ("cohere2", "llama4_text", "smollm3", "gpt_oss")
    )
    assert command.sliding_window == 4096
    assert command.layer_types[:4] == ["sliding_attention"] * 3 + ["full_attention"]
    assert llama.attention_chunk_size == 8192
    assert llama.no_rope_layers[:4] == smol.no_rope_layers[:4] == [1, 1, 1, 0]
    assert llama.layer_types[:4] == ["chunked_attention"] * 3 + ["full_attention"]
    assert set(smol.layer_types) == {"full_attention"}
    assert oss.sliding_window == 128
    assert oss.layer_types[:2] == ["sliding_attention", "full_attention"]
    assert oss.rope_parameters["rope_type"] == "yarn"
    assert oss.rope_parameters["factor"] == 32
    assert oss.rope_parameters["original_max_position_embeddings"] == 4096


# bad input


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"length": 0}, "length must be at least 4, got 0"),
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"batch": 1}, "batch must be at least 2, got 1"),
        ({"rate": 0.0}, "rate must be finite and above 0, got 0.0"),
        ({"factors": (1, 0)}, "a factor must be at least 1, got 0"),
        ({"factors": (2, 4)}, r"factors must ascend from 1, got \(2, 4\)"),
        ({"factors": (1, 4, 2)}, r"factors must ascend from 1, got \(1, 4, 2\)"),
        ({"factors": ()}, r"factors must ascend from 1, got \(\)"),
        ({"test_tokens": 100}, "100 is not one of 32"),
    ],
)
def test_a_setting_refuses(change, message):
    with pytest.raises(ValueError, match=message):
        Setting(**change)


def test_errors_name_the_number():
    model, generator = Transformer(TINY.config), torch.Generator()
    with pytest.raises(KeyError, match="no encoding 'rope'; known are none, "):
        pick_encodings("rope")
    with pytest.raises(ValueError, match="a row needs 9 characters, the text has 5"):
        train(ENCODINGS["none"].make, TINY, 0, torch.arange(5))
    with pytest.raises(ValueError, match="length must be at least 1, got 0"):
        cut_rows(TEXT, 1, 0, generator)
    with pytest.raises(TypeError, match="ids must be an integer tensor"):
        cut_rows(TEXT.float(), 1, 4, generator)
    with pytest.raises(ValueError, match="length must be at least 1, got 0"):
        loss_by_place(model, TEXT, 0, 8)
    with pytest.raises(ValueError, match="10 tokens do not make whole rows"):
        loss_by_place(model, TEXT, 4, 10)
    with pytest.raises(ValueError, match=r"needs 520 \+ 1 characters, the text"):
        loss_by_place(model, TEXT, 4, 520)
    with pytest.raises(ValueError, match="at least 3, got 2"):
        hide_digits(torch.zeros(1, 2, dtype=torch.long), generator)
    with pytest.raises(ValueError, match="at least 7, got 6"):
        far_rows(torch.zeros(1, 6, dtype=torch.long), 5, generator)
    with pytest.raises(ValueError, match="a window must be at least 1, got 0"):
        Windowed(Position(), [4, 0])
    with pytest.raises(TypeError, match="inner must be a Position"):
        Windowed("rope", [4])
    with pytest.raises(KeyError, match="no result of 'RoPE'; there are none"):
        over_seeds([Result("none", 0, {}, {}, [])], "RoPE", "loss")
    with pytest.raises(ValueError, match=r"measure must be one of .*, got 'accuracy'"):
        over_seeds([], "RoPE", "accuracy")
    with pytest.raises(TypeError, match="make must be a function, got 'rope'"):
        Encoding("rope")
    with pytest.raises(TypeError, match="at_test must be a function, got 3"):
        Encoding(lambda config: Position(), 3)
