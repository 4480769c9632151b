"""What a forward takes is found by what it does with it; what can't be is asked for, as far as it is known."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from asking import failure, result, warm, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from asking import Ask

HEAD = """
    from typing import Dict, List, Optional
    import torch
    from torch import Tensor, nn

"""


@pytest.fixture(scope="module", name="ask")
def one_worker() -> Iterator[Ask]:
    yield from warm()


def inputs(ask: Ask, folder: Path, name: str, body: str) -> str:
    """Probe the class `Net` of a file; return what was assumed."""
    write(folder, **{name: HEAD + body})
    return "\n".join(result(ask(folder, f"{name}.py:Net")).assumptions)


def test_a_picture_among_others_is_seen_by_the_first_convolution_not_a_norm(tmp_path: Path, ask: Ask) -> None:
    body = """
    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.GroupNorm(8, 64)
            self.conv = nn.Conv2d(3, 64, 7, stride=2)

        def forward(self, x):
            if isinstance(x, (list, tuple)):
                x = torch.cat(x, dim=0)
            return self.norm(self.conv(x))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = Encoder()

        def forward(self, first, second):
            a, b = self.encoder([first, second]).chunk(2)
            return (a * b).mean()
    """
    said = inputs(ask, tmp_path, "pair_net", body)
    assert "first: float[batch, 3, 224, 224], second: float[batch, 3, 224, 224]" in said


def test_sequences_with_channels_last_are_told_from_those_with_channels_first(tmp_path: Path, ask: Ask) -> None:
    body = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv1d(7, 16, 3, padding=1)

        def forward(self, series):
            return self.conv(series.permute(0, 2, 1)).transpose(1, 2)
    """
    assert "series: float[batch, seq, 7]" in inputs(ask, tmp_path, "series_net", body)


def test_sound_is_three_sizes_though_a_convolution_of_pictures_sees_it(tmp_path: Path, ask: Ask) -> None:
    body = """
    class Period(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(1, 8, (5, 1), (3, 1))

        def forward(self, x):
            b, c, t = x.shape
            x = x[..., : t // 2 * 2].view(b, c, t // 2, 2)
            return self.conv(x)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.periods = nn.ModuleList([Period(), Period()])

        def forward(self, sound):
            return [period(sound) for period in self.periods] and self.periods[0](sound)
    """
    assert "sound: float[batch, 1, seq]" in inputs(ask, tmp_path, "sound_net", body)


def test_a_film_is_five_sizes(tmp_path: Path, ask: Ask) -> None:
    body = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(4, 8, 3)

        def forward(self, sample):
            frames = sample.shape[2]
            sample = sample.permute(0, 2, 1, 3, 4).reshape((sample.shape[0] * frames, -1) + sample.shape[3:])
            return self.conv(sample)
    """
    assert "sample: float[batch, 4, 8, 64, 64]" in inputs(ask, tmp_path, "film_net", body)


def test_the_state_of_an_lstm_is_a_pair(tmp_path: Path, ask: Ask) -> None:
    body = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(50, 8)
            self.cell = nn.LSTM(8, 16, num_layers=2, batch_first=True)

        def forward(self, x, h):
            out, (h, c) = self.cell(self.words(x), h)
            return out, (h, c)
    """
    said = inputs(ask, tmp_path, "pair_state", body)
    assert "h: (float[2, batch, 16], float[2, batch, 16])" in said


def test_a_tensor_whose_default_is_none_is_given_where_the_forward_fails_without(tmp_path: Path, ask: Ask) -> None:
    body = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.own = nn.Linear(8, 8)
            self.other = nn.Linear(24, 8)

        def forward(self, hidden_states: torch.Tensor, encoder_hidden_states: torch.Tensor = None, scale: float = None):
            return self.own(hidden_states) + self.other(encoder_hidden_states).mean(1, keepdim=True)
    """
    assert "encoder_hidden_states: float[batch, seq, 24]" in inputs(ask, tmp_path, "expected_net", body)


def test_ids_are_integers_though_the_model_writes_its_embedding_itself(tmp_path: Path, ask: Ask) -> None:
    body = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.empty(1000, 16))
            self.conv = nn.Linear(16, 16)

        def forward(self, tokens):
            return self.conv(torch.nn.functional.embedding(tokens, self.weight))
    """
    assert "tokens: int[batch, seq]" in inputs(ask, tmp_path, "own_words", body)


@pytest.mark.parametrize("way", ["annotated", "commented"])
def test_detection_models_are_given_lists_and_their_losses_are_summed(tmp_path: Path, ask: Ask, way: str) -> None:
    annotated = "self, images: List[Tensor], targets: Optional[List[Dict[str, Tensor]]] = None"
    signature = annotated if way == "annotated" else "self, images, targets=None"
    comment = (
        "" if way == "annotated" else "# type: (List[Tensor], Optional[List[Dict[str, Tensor]]]) -> Dict[str, Tensor]"
    )
    body = f"""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3)

        def forward({signature}):
            {comment}
            assert targets is not None, "no targets"
            wanted = torch.stack([target["boxes"].mean() for target in targets])
            seen = torch.stack([self.conv(image[None]).mean() for image in images])
            return {{"near": (seen - wanted).abs().mean(), "far": seen.square().mean()}}
    """
    said = inputs(ask, tmp_path, f"boxes_{way}", body)
    assert "images: a list of float[3, 480, 640], one a sample" in said
    assert "10 objects in each image" in said
    assert "the loss is" not in said


def test_tensors_made_on_cuda_are_where_all_others_are(tmp_path: Path, ask: Ask) -> None:
    body = """
    class Net(nn.Module):
        def __init__(self, device="cuda"):
            super().__init__()
            self.device = device
            self.first = nn.Linear(8, 8)

        def forward(self, x):
            steps = torch.arange(0, 8, device=self.device).to(self.device)
            return self.first(x + torch.ones(8, device=self.device) * steps)
    """
    assert "x: float[batch, 8]" in inputs(ask, tmp_path, "on_cuda", body)


def test_modules_looked_up_in_a_dictionary_of_another_file_are_there(tmp_path: Path, ask: Ask) -> None:
    write(tmp_path, dictionary_parts=HEAD + "    def small():\n        return nn.Linear(8, 2)\n")
    body = """
    import dictionary_parts

    class Net(nn.Module):
        def __init__(self, kind="small"):
            super().__init__()
            self.part = dictionary_parts.__dict__[kind]()

        def forward(self, x):
            return self.part(x)
    """
    assert "x: float[batch, 8]" in inputs(ask, tmp_path, "dictionary_net", body)


def test_a_question_says_what_the_modules_tell(tmp_path: Path, ask: Ask) -> None:
    body = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(50, 8)
            self.extra = nn.Linear(3, 8)

        def forward(self, idx, extra, graph):
            return self.words(idx) + self.extra(extra) + graph.nodes()
    """
    write(tmp_path, asked_forward=HEAD + body)
    asked = failure(ask(tmp_path, "asked_forward.py:Net")).missing
    assert asked is not None
    wanted = (
        '"idx": torch.randint(0, 50, (batch, …)), "extra": torch.randn(batch, …, 3), "graph": torch.randn(batch, …)'
    )
    assert f"probe(inputs={{{wanted}}})" in asked.how


@pytest.mark.parametrize(("data_set", "side"), [("CIFAR100", 32), ("MNIST", 28)])
def test_pictures_are_as_large_as_those_of_the_data_set_the_project_names(
    tmp_path: Path, ask: Ask, data_set: str, side: int
) -> None:
    script = f"from torchvision import datasets\nimport pictures_{side}\n\ndata = datasets.{data_set}('.')\n"
    write(tmp_path, **{f"data_{side}": script})
    body = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3)

        def forward(self, x):
            return self.conv(x).mean((2, 3))
    """
    said = inputs(ask, tmp_path, f"pictures_{side}", body)
    assert f"images of {side}x{side} (image= in a probe comment)" in said


def test_a_configuration_that_was_never_downloaded_is_named(tmp_path: Path, ask: Ask) -> None:
    body = """
    from transformers import AutoConfig

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.text = nn.Linear(AutoConfig.from_pretrained("nobody/nothing-at-all").d_model, 8)

        def forward(self, x):
            return self.text(x)
    """
    write(tmp_path, never_loaded=HEAD + body)
    asked = failure(ask(tmp_path, "never_loaded.py:Net")).missing
    assert asked is not None
    assert asked.how == "download it once: hf download nobody/nothing-at-all config.json"


def test_a_data_set_that_another_model_of_the_project_is_trained_on_says_nothing(tmp_path: Path, ask: Ask) -> None:
    script = "from torchvision import datasets\nimport another_net\n\ndata = datasets.CIFAR10('.')\n"
    write(tmp_path, another_data=script)
    body = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3)

        def forward(self, x):
            return self.conv(x).mean((2, 3))
    """
    assert "images of 224x224" in inputs(ask, tmp_path, "not_of_data", body)


def test_distributions_are_not_asked_whether_their_parameters_are_valid(tmp_path: Path, ask: Ask) -> None:
    body = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Linear(8, 8)

        def forward(self, x):
            return -torch.distributions.Normal(x, self.scale(x).exp()).log_prob(x).mean()
    """
    assert "x: float[batch, 8]" in inputs(ask, tmp_path, "distributed", body)


SMALL = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 40}
SOUND = {"conv_dim": [8, 8], "conv_stride": [20, 16], "conv_kernel": [20, 16], "num_feat_extract_layers": 2}
SERIES = {
    "prediction_length": 6,
    "context_length": 12,
    "num_time_features": 2,
    "d_model": 16,
    "lags_sequence": [1, 2, 3],
}


@pytest.mark.parametrize(
    ("family", "architecture", "settings", "wanted"),
    [
        ("wav2vec2", "Wav2Vec2ForCTC", {**SMALL, **SOUND}, "labels: int[batch, 150]"),
        (
            "time_series_transformer",
            "TimeSeriesTransformerForPrediction",
            SERIES,
            "past_values: float[batch, 15], past_time_features: float[batch, 15, 2]",
        ),
    ],
)
def test_models_of_transformers_are_given_what_their_kind_takes(
    tmp_path: Path, ask: Ask, family: str, architecture: str, settings: dict[str, object], wanted: str
) -> None:
    config = {"model_type": family, "architectures": [architecture], **settings}
    (tmp_path / family).mkdir()
    (tmp_path / family / "config.json").write_text(json.dumps(config))
    assert wanted in str(result(ask(tmp_path, f"hf:{family}")).assumptions)


@pytest.mark.parametrize("first", [True, False])
def test_packed_sequences_are_taken_to_be_full(tmp_path: Path, ask: Ask, first: bool) -> None:  # noqa: FBT001
    body = f"""
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    # remat: probe(inputs={{"x": torch.randint(0, 50, (batch, 12)), "lengths": torch.full((batch,), 12)}})
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(50, 8)
            self.cell = nn.GRU(8, 16, batch_first={first}, bidirectional=True)
            self.last = nn.Linear(32, 3)

        def forward(self, x, lengths):
            packed = pack_padded_sequence(self.words(x), lengths.cpu(), batch_first=True, enforce_sorted=False)
            out, state = self.cell(packed)
            out, lengths = pad_packed_sequence(out, batch_first=True)
            return self.last(out[:, :, :]) + self.last(packed.data.new_zeros(32))
    """
    said = inputs(ask, tmp_path, f"packed_{first}", body)
    assert "sequences that are packed all have the full length" in said


def test_a_question_about_values_while_a_model_is_made_is_answered_and_said(tmp_path: Path, ask: Ask) -> None:
    body = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            weight = torch.linalg.qr(torch.randn(8, 8))[0]
            if torch.det(weight) < 0:
                weight = -weight
            self.weight = nn.Parameter(weight)

        def forward(self, x: Tensor, start: int):
            return nn.functional.linear(x[:, start:], self.weight)
    """
    said = inputs(ask, tmp_path, "turned_net", body)
    assert "start: 0" in said
    assert "while the model is made, a value read from a tensor" in said


def test_a_model_without_a_forward_is_told_so(tmp_path: Path, ask: Ask) -> None:
    body = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(8, 8)

        def encode(self, x):
            return self.first(x)
    """
    write(tmp_path, no_forward=HEAD + body)
    asked = failure(ask(tmp_path, "no_forward.py:Net")).missing
    assert asked is not None
    assert asked.fact == "what a step calls: `Net` has no forward"


def test_sizes_in_inputs_that_were_not_given_are_said_and_suit_batch_normalisation(tmp_path: Path, ask: Ask) -> None:
    body = """
    # remat: probe(inputs={"x": torch.randn(batch, 8)})
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(8)

        def forward(self, x):
            return self.norm(x)
    """
    said = inputs(ask, tmp_path, "normed_net", body)
    assert "batch in inputs= is 8 (--batch)" in said
    assert "seq in inputs=" not in said


def test_a_sequence_is_no_longer_than_a_table_of_positions(tmp_path: Path, ask: Ask) -> None:
    body = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(50, 8)
            self.register_buffer("pos_table", torch.zeros(1, 60, 8))

        def forward(self, x):
            return self.words(x) + self.pos_table[:, : x.shape[1]]
    """
    assert "sequences of 60 (--seq)" in inputs(ask, tmp_path, "positions_net", body)


def test_a_generator_of_pictures_is_given_noise_of_one_by_one(tmp_path: Path, ask: Ask) -> None:
    body = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.main = nn.Sequential(nn.ConvTranspose2d(100, 64, 4), nn.ReLU(), nn.ConvTranspose2d(64, 3, 4, 2, 1))

        def forward(self, input):
            return self.main(input)
    """
    assert "input: float[batch, 100, 1, 1]" in inputs(ask, tmp_path, "generator_net", body)


def test_what_may_be_left_out_is_given_one_after_the_other(tmp_path: Path, ask: Ask) -> None:
    body = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3)
            self.time = nn.Linear(1, 8)

        def forward(self, x, timesteps=None, y=None):
            assert y is None, "a class is for models of classes"
            return self.conv(x) + self.time(timesteps.float()[:, None])[:, :, None, None]
    """
    said = inputs(ask, tmp_path, "steps_net", body)
    assert "timesteps: int[batch]" in said
    assert "y:" not in said.split("inputs:")[1].splitlines()[0]


def test_arrays_of_values_and_groups_of_processes_are_there_and_said(tmp_path: Path, ask: Ask) -> None:
    body = """
    import numpy as np
    import torch.distributed as dist

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(100, 8)
            self.rnn = nn.LSTM(8, 16, batch_first=True)

        def forward(self, tokens, lengths):
            packed = nn.utils.rnn.pack_padded_sequence(self.embedding(tokens), lengths.numpy(), batch_first=True)
            out, _ = nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
            parts = [torch.empty_like(out) for _ in range(dist.get_world_size())]
            dist.all_gather(parts, out)
            drawn = torch.from_numpy(np.asarray(tokens.cpu().numpy())).float()
            return out.sum() + torch.cat(parts).sum() + drawn.sum()
    """
    for name in ("gathers", "gathers_again"):
        said = inputs(ask, tmp_path, name, body)
        assert "(.numpy()) are taken to be 0" in said
        assert "one process is pretended" in said


@pytest.mark.parametrize("way", ["where", "any", "one_hot", "counted"])
def test_each_expert_of_a_mixture_is_given_its_share_of_the_tokens(tmp_path: Path, ask: Ask, way: str) -> None:
    picks = {
        "where": "rows, _ = torch.where(chosen == i)",
        "any": "rows = (chosen == i).any(-1)\n                    if not rows.any():\n                        continue",
        "one_hot": "rows = torch.nonzero(masks[i])[:, 1]",
        "counted": "if counts[i] == 0: continue\n                    rows, _ = torch.where(chosen == i)",
    }
    body = f"""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(100, 64)
            self.gate = nn.Linear(64, 8)
            self.top_k = 2
            self.experts = nn.ModuleList(nn.Linear(64, 64) for _ in range(8))

        def forward(self, tokens):
            x = self.embedding(tokens).view(-1, 64)
            chosen = self.gate(x).topk(self.top_k).indices
            masks = nn.functional.one_hot(chosen, 8).permute(2, 1, 0)
            counts = torch.bincount(chosen.flatten(), minlength=8).tolist()
            out = torch.zeros_like(x)
            for i, expert in enumerate(self.experts):
                    {picks[way]}
                    out[rows] += expert(x[rows])
            return out
    """
    said = inputs(ask, tmp_path, f"mixture_{way}", body)
    assert "64 of " in said  # of 256 tokens, two choices each
    assert "one of the 8 turns of the loop" in said
    assert "taken to be False" not in said


def test_lengths_that_are_given_decide_on_sizes(tmp_path: Path, ask: Ask) -> None:
    body = """
    # remat: probe(inputs={"tokens": torch.randint(0, 100, (batch, 50)), "lengths": torch.full((batch,), 50)}, batch=2)
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(100, 8)

        def forward(self, tokens, lengths):
            longest = int(lengths.data.max())
            mask = torch.arange(longest) < lengths.unsqueeze(1)
            return (self.embedding(tokens) * mask[..., None]).sum()
    """
    assert "taken to be" not in inputs(ask, tmp_path, "lengths_given", body)
    guessed = body.replace("# remat", "# ")
    assert "lengths: length[batch]" in inputs(ask, tmp_path, "lengths_guessed", guessed)


def test_a_forward_without_gradients_is_said_to_be_one(tmp_path: Path, ask: Ask) -> None:
    body = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8)

        @torch.inference_mode()
        def forward(self, x):
            return self.linear(x)
    """
    write(tmp_path, inference=HEAD + body)
    found = failure(ask(tmp_path, "inference.py:Net"))
    assert found.missing is not None
    assert "runs without gradients" in found.message
    assert "inference.py:11" in found.message


SERIES = """
    class Net(nn.Module):
        def __init__(self, {parameter}=7, length=96):
            super().__init__()
            self.linear = nn.Linear(length, 24)

        def forward(self, x):
            return self.linear(x.permute(0, 2, 1)).permute(0, 2, 1)
"""


def test_a_layer_over_time_is_no_layer_over_channels(tmp_path: Path, ask: Ask) -> None:
    call = "\n    model = Net(enc_in=7)\n"
    body = SERIES.format(parameter="enc_in").replace("enc_in=7", "enc_in") + call
    assert "x: float[batch, 96, 7]" in inputs(ask, tmp_path, "over_time", body)
    write(tmp_path, unnamed=HEAD + SERIES.format(parameter="anything"))
    asked = failure(ask(tmp_path, "unnamed.py:Net"))
    assert asked.missing is not None
    assert "`x` of `Net.forward`" in asked.message  # how many series there are, nothing tells


def test_spectra_are_told_from_pictures_where_a_forward_adds_their_channel(tmp_path: Path, ask: Ask) -> None:
    body = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(1, 8, 3, 2)
            self.linear = nn.Linear(8 * 39, 16)

        def forward(self, inputs):
            out = self.conv(inputs.unsqueeze(1))
            return self.linear(out.permute(0, 2, 1, 3).flatten(2))
    """
    assert "inputs: float[batch, seq, 80]" in inputs(ask, tmp_path, "spectra", body)


@pytest.mark.parametrize(
    "way", ["if image.ndim != 3:\n                raise ValueError", "assert len(image.shape) == 3"]
)
def test_as_many_axes_as_a_forward_insists_on(tmp_path: Path, ask: Ask, way: str) -> None:
    body = f"""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(64, 16)

        def forward(self, image):
            {way}
            return self.linear(image)
    """
    assert "image: float[batch, seq, 64]" in inputs(ask, tmp_path, f"axes_{len(way)}", body)


def test_linear_layers_that_users_write_tell_a_width_and_least_squares_a_shape(tmp_path: Path, ask: Ask) -> None:
    body = """
    class Spline(nn.Module):
        def __init__(self, in_features, out_features):
            super().__init__()
            self.in_features = in_features
            fitted = torch.linalg.lstsq(torch.randn(in_features, 12, 5), torch.randn(in_features, 12, out_features))
            self.weight = nn.Parameter(fitted.solution.sum(1))

        def forward(self, x):
            assert x.size(-1) == self.in_features
            return x @ self.weight

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([Spline(48, 16), Spline(16, 3)])

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x
    """
    said = inputs(ask, tmp_path, "splines", body)
    assert "x: float[batch, 48]" in said
    assert "least squares are taken to have a solution" in said


def test_masks_are_not_stretched_over_a_batch_of_one(tmp_path: Path, ask: Ask) -> None:
    body = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(100, 16)

        def forward(self, tokens, mask):
            x = self.embedding(tokens)
            scores = (x @ x.transpose(1, 2)).unsqueeze(1)
            return scores.masked_fill(mask == 0, -1e9).softmax(-1).squeeze(1) @ x
    """
    assert "mask: bool[seq, seq]" in inputs(ask, tmp_path, "masked", body)


def test_a_method_that_a_step_calls_instead_of_forward_is_named_by_a_line(tmp_path: Path, ask: Ask) -> None:
    body = """
    {line}
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.actor = nn.Linear(4, 2)
            self.critic = nn.Linear(4, 1)

        def value(self, x):
            return self.critic(x)

        def act(self, x, action=None):
            return self.actor(x).log_softmax(-1).sum() + self.critic(x).sum()
    """
    write(tmp_path, no_forward=HEAD + body.format(line="#"))
    asked = failure(ask(tmp_path, "no_forward.py:Net"))
    assert asked.missing is not None
    assert '# remat: probe(call="act"), or value; ' in asked.missing.how
    assert "x: float[batch, 4]" in inputs(ask, tmp_path, "acts", body.format(line='# remat: probe(call="act")'))
    write(tmp_path, other=HEAD + body.format(line='# remat: probe(call="step")'))
    asked = failure(ask(tmp_path, "other.py:Net"))
    assert asked.missing is not None
    assert asked.missing.how == "it has act, value"


def test_experts_that_a_mask_of_them_names_are_each_run(tmp_path: Path, ask: Ask) -> None:
    body = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(100, 64)
            self.gate = nn.Linear(64, 4)
            self.top_k = 2
            self.experts = nn.ModuleDict({f"expert_{i}": nn.Linear(64, 64) for i in range(4)})

        def forward(self, tokens):
            x = self.embedding(tokens).view(-1, 64)
            masks = nn.functional.one_hot(self.gate(x).topk(self.top_k).indices, 4).permute(2, 1, 0)
            out = torch.zeros_like(x)
            hit = torch.greater(masks.sum((-1, -2)), 0).nonzero().squeeze(1)
            for number in hit:
                _, rows = torch.where(masks[number])
                out = out.index_add(0, rows, self.experts[f"expert_{number}"](x[rows]))
            return out
    """
    write(tmp_path, named_experts=HEAD + body)
    found = result(ask(tmp_path, "named_experts.py:Net", checkpointing="none"))
    assert "as one of the 4 turns of the loop" in str(found.assumptions)
    assert "128 of 512" in str(found.assumptions)  # of 256 tokens, two choices each
    weights = 100 * 64 + 4 * (64 * 64 + 64)
    assert found.by_category["optimizer"] >= 8 * weights  # every expert has a gradient


def test_parts_whose_sizes_only_data_tells_are_even(tmp_path: Path, ask: Ask) -> None:
    body = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

        def forward(self, x):
            counts = (x > 0).sum(0)[:3].tolist()
            parts = torch.split(x, counts, dim=0)
            return torch.cat([expert(part) for expert, part in zip(self.experts, parts)])
    """
    assert "3 parts whose sizes only data tells are taken to be even" in inputs(ask, tmp_path, "split", body)
