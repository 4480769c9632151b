"""What a forward takes is found by what it does with it; what can't be is asked for, as far as it is known."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from asking import failure, result, warm, write
from nets import HEAD, inputs, net

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from asking import Ask


SMALL = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 40}
SOUND = {"conv_dim": [8, 8], "conv_stride": [20, 16], "conv_kernel": [20, 16], "num_feat_extract_layers": 2}


@pytest.fixture(scope="module", name="ask")
def one_worker() -> Iterator[Ask]:
    yield from warm()


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
    body = net(
        "series",
        ["self.conv = nn.Conv1d(7, 16, 3, padding=1)"],
        ["return self.conv(series.permute(0, 2, 1)).transpose(1, 2)"],
    )
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
    body = net(
        "sample",
        ["self.conv = nn.Conv2d(4, 8, 3)"],
        [
            "frames = sample.shape[2]",
            "sample = sample.permute(0, 2, 1, 3, 4).reshape((sample.shape[0] * frames, -1) + sample.shape[3:])",
            "return self.conv(sample)",
        ],
    )
    assert "sample: float[batch, 4, 8, 64, 64]" in inputs(ask, tmp_path, "film_net", body)


def test_the_state_of_an_lstm_is_a_pair(tmp_path: Path, ask: Ask) -> None:
    body = net(
        "x, h",
        ["self.words = nn.Embedding(50, 8)", "self.cell = nn.LSTM(8, 16, num_layers=2, batch_first=True)"],
        ["out, (h, c) = self.cell(self.words(x), h)", "return out, (h, c)"],
    )
    said = inputs(ask, tmp_path, "pair_state", body)
    assert "h: (float[2, batch, 16], float[2, batch, 16])" in said


def test_a_tensor_whose_default_is_none_is_given_where_the_forward_fails_without(tmp_path: Path, ask: Ask) -> None:
    body = net(
        "hidden_states: torch.Tensor, encoder_hidden_states: torch.Tensor = None, scale: float = None",
        ["self.own = nn.Linear(8, 8)", "self.other = nn.Linear(24, 8)"],
        ["return self.own(hidden_states) + self.other(encoder_hidden_states).mean(1, keepdim=True)"],
    )
    assert "encoder_hidden_states: float[batch, seq, 24]" in inputs(ask, tmp_path, "expected_net", body)


def test_ids_are_integers_though_the_model_writes_its_embedding_itself(tmp_path: Path, ask: Ask) -> None:
    body = net(
        "tokens",
        ["self.weight = nn.Parameter(torch.empty(1000, 16))", "self.conv = nn.Linear(16, 16)"],
        ["return self.conv(torch.nn.functional.embedding(tokens, self.weight))"],
    )
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
    body = net(
        "idx, extra, graph",
        ["self.words = nn.Embedding(50, 8)", "self.extra = nn.Linear(3, 8)"],
        ["return self.words(idx) + self.extra(extra) + graph.nodes()"],
    )
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
    body = net("x", ["self.conv = nn.Conv2d(3, 8, 3)"], ["return self.conv(x).mean((2, 3))"])
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
    body = net("x", ["self.conv = nn.Conv2d(3, 8, 3)"], ["return self.conv(x).mean((2, 3))"])
    assert "images of 224x224" in inputs(ask, tmp_path, "not_of_data", body)


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
    body = net(
        "x",
        ["self.words = nn.Embedding(50, 8)", 'self.register_buffer("pos_table", torch.zeros(1, 60, 8))'],
        ["return self.words(x) + self.pos_table[:, : x.shape[1]]"],
    )
    assert "sequences of 60 (--seq)" in inputs(ask, tmp_path, "positions_net", body)


def test_a_generator_of_pictures_is_given_noise_of_one_by_one(tmp_path: Path, ask: Ask) -> None:
    body = net(
        "input",
        ["self.main = nn.Sequential(nn.ConvTranspose2d(100, 64, 4), nn.ReLU(), nn.ConvTranspose2d(64, 3, 4, 2, 1))"],
        ["return self.main(input)"],
    )
    assert "input: float[batch, 100, 1, 1]" in inputs(ask, tmp_path, "generator_net", body)


def test_what_may_be_left_out_is_given_one_after_the_other(tmp_path: Path, ask: Ask) -> None:
    body = net(
        "x, timesteps=None, y=None",
        ["self.conv = nn.Conv2d(3, 8, 3)", "self.time = nn.Linear(1, 8)"],
        [
            'assert y is None, "a class is for models of classes"',
            "return self.conv(x) + self.time(timesteps.float()[:, None])[:, :, None, None]",
        ],
    )
    said = inputs(ask, tmp_path, "steps_net", body)
    assert "timesteps: int[batch]" in said
    assert "y:" not in said.split("inputs:")[1].splitlines()[0]


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
    body = net(
        "inputs",
        ["self.conv = nn.Conv2d(1, 8, 3, 2)", "self.linear = nn.Linear(8 * 39, 16)"],
        ["out = self.conv(inputs.unsqueeze(1))", "return self.linear(out.permute(0, 2, 1, 3).flatten(2))"],
    )
    assert "inputs: float[batch, seq, 80]" in inputs(ask, tmp_path, "spectra", body)


@pytest.mark.parametrize(
    "way", ["if image.ndim != 3:\n                raise ValueError", "assert len(image.shape) == 3"]
)
def test_as_many_axes_as_a_forward_insists_on(tmp_path: Path, ask: Ask, way: str) -> None:
    body = net("image", ["self.linear = nn.Linear(64, 16)"], [f"{way}", "return self.linear(image)"])
    assert "image: float[batch, seq, 64]" in inputs(ask, tmp_path, f"axes_{len(way)}", body)


def test_masks_are_not_stretched_over_a_batch_of_one(tmp_path: Path, ask: Ask) -> None:
    body = net(
        "tokens, mask",
        ["self.embedding = nn.Embedding(100, 16)"],
        [
            "x = self.embedding(tokens)",
            "scores = (x @ x.transpose(1, 2)).unsqueeze(1)",
            "return scores.masked_fill(mask == 0, -1e9).softmax(-1).squeeze(1) @ x",
        ],
    )
    assert "mask: bool[seq, seq]" in inputs(ask, tmp_path, "masked", body)


BESIDE = """
    class Net(nn.Module):
        def __init__(self, {first}, {second}):
            super().__init__()
            self.linear = nn.Linear({first} + {second}, 16)

        def forward(self, state, action):
            return self.linear(torch.cat([state, action], 1))

    model = Net(17, 6)
"""


def test_inputs_that_a_layer_sees_side_by_side_share_its_width(tmp_path: Path, ask: Ask) -> None:
    body = BESIDE.format(first="state_dim", second="action_dim")
    assert "state: float[batch, 17], action: float[batch, 6]" in inputs(ask, tmp_path, "beside", body)
    write(tmp_path, beside_unknown=HEAD + BESIDE.format(first="a", second="b"))
    asked = failure(ask(tmp_path, "beside_unknown.py:Net"))
    assert asked.missing is not None
    assert "what `state, action` of `Net.forward` looks like" in asked.message
    pictures = net("a, b", ["self.conv = nn.Conv2d(6, 8, 3)"], ["return self.conv(torch.cat((a, b), dim=1))"])
    assert "a: float[batch, 3, 224, 224], b: float[batch, 3, 224, 224]" in inputs(ask, tmp_path, "two", pictures)


def test_a_picture_and_its_text_are_given_together_though_each_may_be_left_out(tmp_path: Path, ask: Ask) -> None:
    body = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.visual = nn.Conv2d(3, 8, 32, 32)
            self.words = nn.Embedding(100, 8)

        def encode_image(self, image):
            return self.visual(image).mean((2, 3))

        def forward(self, image: Optional[Tensor] = None, text: Optional[Tensor] = None):
            seen = self.encode_image(image) if image is not None else None
            read = self.words(text).mean(1) if text is not None else None
            return seen if read is None else read if seen is None else seen @ read.T
    """
    assert "image: float[batch, 3, 224, 224], text: int[batch, seq]" in inputs(ask, tmp_path, "pair", body)
    same = body.replace("self.words = nn.Embedding(100, 8)", "self.words = nn.Conv2d(3, 8, 3)").replace(
        "mean(1)", "mean((2, 3))"
    )
    assert "text" not in inputs(ask, tmp_path, "pair_of_one_kind", same)


def test_sparse_gradients_ask_for_an_optimizer_that_takes_them(tmp_path: Path, ask: Ask) -> None:
    body = net("ids", ["self.words = nn.Embedding(100, 16, sparse=True)"], ["return self.words(ids).mean(1)"])
    write(tmp_path, sparse=HEAD + body)
    said = failure(ask(tmp_path, "sparse.py:Net", checkpointing="none"))
    assert said.missing is not None
    assert "takes no sparse gradients" in said.missing.fact
    assert 'probe(optimizer="sgd")' in said.missing.how
    assert result(ask(tmp_path, "sparse.py:Net", checkpointing="none", optimizer="sgd")).allocated_bytes > 0


def test_of_several_outputs_it_is_said_which_one_is_learnt_of(tmp_path: Path, ask: Ask) -> None:
    body = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.mean, self.spread, self.decode = nn.Linear(784, 20), nn.Linear(784, 20), nn.Linear(20, 784)

        def forward(self, x):
            mean, spread = self.mean(x), self.spread(x)
            return self.decode(mean + spread), mean, spread
    """
    said = inputs(ask, tmp_path, "variational", body)
    assert "over the output [batch, 784] alone, not over the 2 other outputs; say it with loss=" in said


@pytest.mark.parametrize(("family", "architecture"), [("clip", "CLIPModel"), ("siglip", "SiglipModel")])
def test_more_tokens_than_a_text_tower_has_positions_for_are_refused_with_its_number(
    tmp_path: Path, ask: Ask, family: str, architecture: str
) -> None:
    vision = {**SMALL, "image_size": 32, "patch_size": 16}
    config = {"text_config": {**SMALL, "max_position_embeddings": 48}, "vision_config": vision}
    (tmp_path / family).mkdir()
    text = json.dumps({"model_type": family, "architectures": [architecture], **config})
    (tmp_path / family / "config.json").write_text(text)
    asked = failure(ask(tmp_path, f"hf:{family}", seq=512)).missing
    assert asked is not None
    assert (asked.fact, asked.how) == ("seq=512 is more than the 48 positions this model has", "give --seq 48")


def test_noise_that_a_generator_makes_pictures_of_is_no_picture(tmp_path: Path, ask: Ask) -> None:
    layers = ["self.grow = nn.ConvTranspose2d(100, 64, 4, 1, 0)", "self.last = nn.ConvTranspose2d(64, 3, 4, 2, 1)"]
    said = inputs(ask, tmp_path, "grows", net("noise", layers, ["return self.last(self.grow(noise)).tanh()"]))
    assert "noise: float[batch, 100, 1, 1]" in said
    assert "images of" not in said
