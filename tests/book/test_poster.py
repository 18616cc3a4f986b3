"""The first page's picture against the model that it draws."""

import poster
import pytest
import torch

from lib.smollm import load_smollm2


@pytest.mark.slow
def test_the_poster_shows_what_the_model_has():
    model, tokenizer = load_smollm2("cpu")
    ids = tokenizer.encode(poster.SENTENCE).ids
    assert tuple(ids) == poster.IDS
    rows = model.embedding.weight[ids]
    drawn = torch.tensor(poster.ROWS)
    shown = (rows / rows.std())[:, : drawn.shape[1]]
    assert (shown - drawn).abs().max() < 0.051  # one decimal
    with torch.no_grad():
        chances, tokens = model(torch.tensor([ids]))[0, -1].softmax(-1).topk(3)
    texts = [tokenizer.decode([token]) for token in tokens.tolist()]
    assert texts == [text for text, _ in poster.NEXT]
    likely = [round(chance, 2) for chance in chances.tolist()]
    assert likely == [chance for _, chance in poster.NEXT]
    assert model.config.num_layers == 30
