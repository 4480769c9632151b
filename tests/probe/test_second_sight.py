"""What further public models do that files written for a test seldom do, in the smallest file that has it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from asking import failure, result, warm, write
from nets import inputs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from asking import Ask


@pytest.fixture(scope="module", name="ask")
def one_worker() -> Iterator[Ask]:
    yield from warm()


def how(ask: Ask, folder: Path, target: str) -> str:
    found = failure(ask(folder, target)).missing
    assert found is not None
    return found.how


def notes(ask: Ask, folder: Path, target: str) -> str:
    return "\n".join(result(ask(folder, target)).assumptions)


DECODER = """
import torch
from torch import nn

class Decoder(nn.Module):
    def __init__(self, width, words):
        super().__init__()
        self.words, self.last = nn.Embedding(words, width), nn.Linear(width, words)

    def forward(self, ids):
        return self.last(self.words(ids))
"""


def test_a_model_is_made_as_by_the_script_that_trains_it_not_as_its_own_file_tries_it(tmp_path: Path, ask: Ask) -> None:
    (tmp_path / "nets").mkdir()
    tried = '\nif __name__ == "__main__":\n    print(Decoder(8, 10)(torch.zeros(1, 4, dtype=torch.long)).shape)\n'
    write(tmp_path / "nets", tried_decoder=DECODER + tried)
    (tmp_path / "scripts").mkdir()
    script = """
    import torch
    from nets.tried_decoder import Decoder

    def train():
        model = Decoder(width=96, words=300)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.zeros(1, 4, dtype=torch.long)).sum().backward()
        optimizer.step()
    """
    write(tmp_path / "scripts", train_decoder=script)
    said = notes(ask, tmp_path, "nets/tried_decoder.py:Decoder")
    assert "train_decoder.py:5" in said
    assert "tried_decoder.py:" not in said


def test_a_test_in_the_file_does_not_tell_the_sizes_of_a_model_that_is_trained_with_others(
    tmp_path: Path, ask: Ask
) -> None:
    more = """

def inference_test():
    return Decoder(8, 10)

def train(words):
    model = Decoder(96, words)
    return torch.optim.SGD(model.parameters(), lr=0.1)
"""
    write(tmp_path, tested_decoder=DECODER + more)
    assert "model=Decoder(width=96, words=…)" in how(ask, tmp_path, "tested_decoder.py:Decoder")


def test_a_call_that_tries_a_model_out_is_better_than_none(tmp_path: Path, ask: Ask) -> None:
    write(tmp_path, only_tried=DECODER + "\ndef inference_test():\n    return Decoder(8, 10)\n")
    assert "Decoder is made as at" in notes(ask, tmp_path, "only_tried.py:Decoder")


def test_features_beside_embeddings_have_the_width_that_is_left(tmp_path: Path, ask: Ask) -> None:
    body = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.users, self.items = nn.Embedding(100, 16), nn.EmbeddingBag(50, 16)
            self.score = nn.Sequential(nn.Linear(13 + 2 * 16, 8), nn.ReLU(), nn.Linear(8, 1))

        def forward(self, user_id, item_ids, dense):
            items = self.items(item_ids)
            return self.score(torch.cat([self.users(user_id), items, dense], -1)).squeeze(-1)
    """
    said = inputs(ask, tmp_path, "beside", body)
    assert "user_id: int[batch], item_ids: int[batch, seq], dense: float[batch, 13]" in said


def test_indices_are_asked_for_as_whole_numbers_and_a_width_beside_the_unknown_is_left_open(
    tmp_path: Path, ask: Ask
) -> None:
    text = """
    import torch
    from torch import nn

    class Graph(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.bag, self.last = nn.Linear(16, 32), nn.EmbeddingBag(40, 16), nn.Linear(32 + 9, 7)

        def forward(self, x, edge_index, kinds, more):
            def spread(h):
                return torch.zeros_like(h).index_add_(0, edge_index[1], h[edge_index[0]])

            h = self.first(spread(x)) + self.bag(kinds).sum()
            return self.last(torch.cat([more, h[:, :9].cumsum(1)], 1)) + more[:, 3, 4].sum()
    """
    write(tmp_path, graph=text)
    line = how(ask, tmp_path, "graph.py:Graph")
    assert '"edge_index": torch.randint(0, …, (2, …)), "kinds": torch.randint(0, 40, (batch, …))' in line
    assert '"more": torch.randn(batch, …)' in line


def test_settings_of_a_data_class_that_takes_any_keyword_are_asked_for_where_they_are_to_be_set(
    tmp_path: Path, ask: Ask
) -> None:
    text = """
    from dataclasses import dataclass
    from torch import nn

    @dataclass
    class ModelArgs:
        dim: int = 16
        vocab_size: int = -1

        def __init__(self, **kwargs):
            for name, value in kwargs.items():
                setattr(self, name, value)

    class Words(nn.Module):
        def __init__(self, params: ModelArgs):
            super().__init__()
            self.words = nn.Embedding(params.vocab_size, params.dim)

        def forward(self, ids):
            return self.words(ids)
    """
    write(tmp_path, any_keyword=text)
    assert "model=Words(ModelArgs(vocab_size=…))" in how(ask, tmp_path, "any_keyword.py:Words")


def test_tokens_that_a_configuration_leaves_open_are_any(tmp_path: Path, ask: Ask) -> None:
    stack = {"num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 32, "intermediate_size": 32}
    sizes = {"encoder_num_hidden_layers": 1, "decoder_num_hidden_layers": 1, "encoder_num_attention_heads": 2}
    more = {"decoder_num_attention_heads": 2, "vocab_size": 60, "architectures": ["MoonshineForConditionalGeneration"]}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "moonshine", **stack, **sizes, **more}))
    assert "labels: int[batch, 150]" in notes(ask, tmp_path, f"hf:{tmp_path}")


def test_a_checkpoint_that_is_opened_or_offered_for_download_is_left_out_where_it_is_not_there(
    tmp_path: Path, ask: Ask
) -> None:
    text = """
    import torch
    from pathlib import Path
    from torch import nn

    def segmenting(checkpoint="weights/sam_b.pth"):
        model = nn.Sequential(nn.Conv2d(3, 8, 3))
        if not Path(checkpoint).exists() and input("Download it? [y]/n: ") == "y":
            raise SystemExit("it is downloaded")
        with open(checkpoint, "rb") as file:
            state = torch.load(file, map_location="cpu")
        model.load_state_dict(state)
        return model
    """
    write(tmp_path, opened_weights=text)
    said = notes(ask, tmp_path, "opened_weights.py:segmenting")
    assert "weights/sam_b.pth is not there: its weights are left out" in said
    assert "`Download it? [y]/n:` is answered with no" in said


def test_of_methods_that_a_step_may_call_the_one_that_makes_a_loss_is_named_first(tmp_path: Path, ask: Ask) -> None:
    text = """
    from torch import nn

    class Headless(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(8, 8)

        def forward_inference(self, tokens, start, cache):
            return self.last(tokens)

        def forward_loss(self, inputs, targets):
            return (self.last(inputs) - targets).square().mean()

        def configure_optimizers(self, rate, decay, betas, device):
            return rate
    """
    write(tmp_path, headless=text)
    assert 'call="forward_loss"), or ' in how(ask, tmp_path, "headless.py:Headless")


def test_a_box_beside_a_picture_has_two_corners(tmp_path: Path, ask: Ask) -> None:
    body = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.main, self.corner = nn.Conv2d(3, 8, 3), nn.Linear(2, 8)

        def forward(self, image, box):
            corners = self.corner(box.reshape(-1, 2, 2)).sum(1)
            return self.main(image) + corners[:, :, None, None]
    """
    assert "box: box[batch, 4]" in inputs(ask, tmp_path, "boxed", body)
