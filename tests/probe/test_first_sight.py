"""What public models do that files written for a test seldom do: each kind of it in the smallest file that has it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from asking import failure, missing, result, warm, write
from nets import inputs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from asking import Ask


SMALL = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 40}


@pytest.fixture(scope="module", name="ask")
def one_worker() -> Iterator[Ask]:
    yield from warm()


def notes(ask: Ask, folder: Path, target: str) -> str:
    return "\n".join(result(ask(folder, target)).assumptions)


def test_widths_worked_out_of_a_short_range_are_those_of_the_real_model(tmp_path: Path, ask: Ask) -> None:
    body = """
    class Stages(nn.Module):
        def __init__(self):
            super().__init__()
            grown = 8 * torch.pow(torch.tensor(2.0), torch.round(torch.arange(4, dtype=torch.float32) / 2))
            widths = torch.unique(grown.int()).tolist()
            assert widths == [8, 16, 32]
            self.layers = nn.Sequential(*(nn.Linear(a, b) for a, b in zip(widths, widths[1:])))

        def forward(self, x):
            return self.layers(x)
    """
    body = body.replace("class Stages", "class Net")
    assert "x: float[batch, 8]" in inputs(ask, tmp_path, "widths", body)


def test_of_several_configuration_classes_the_one_with_what_is_read_is_meant(tmp_path: Path, ask: Ask) -> None:
    text = """
    import torch
    from dataclasses import dataclass
    from argparse import Namespace as HFConfig
    from torch import nn

    @dataclass
    class OtherConfig:
        hidden: int = 4

    @dataclass
    class GPTConfig:
        width: int = 16

    class Decoder(nn.Module):
        def __init__(self, config):
            super().__init__()
            self.layer = nn.Linear(config.width, config.width)

        def forward(self, x):
            return self.layer(x)
    """
    write(tmp_path, several_configs=text)
    assert "GPTConfig is made with its defaults: width=16" in notes(ask, tmp_path, "several_configs.py:Decoder")


def test_a_setting_that_is_none_by_default_is_asked_for_where_it_is_needed(tmp_path: Path, ask: Ask) -> None:
    text = """
    import torch
    from dataclasses import dataclass
    from torch import nn

    @dataclass
    class NetConfig:
        width: int = 8
        words: int | None = None
        note: int | None = None

    class Net(nn.Module):
        def __init__(self, config: NetConfig):
            super().__init__()
            self.table = nn.Embedding(config.words, config.width)

        def forward(self, ids):
            return self.table(ids)
    """
    write(tmp_path, none_setting=text)
    asked = missing(ask, tmp_path, "none_setting.py:Net")
    assert "# remat: probe(model=Net(NetConfig(words=…)))" in asked.how


def test_every_number_that_is_none_is_asked_for_at_once(tmp_path: Path, ask: Ask) -> None:
    text = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self, width: int | None = None, patch: int | None = None, bias: bool = True):
            super().__init__()
            wide = width * 2
            self.layer = nn.Linear(wide // patch, 4, bias=bias)

        def forward(self, x):
            return self.layer(x)
    """
    write(tmp_path, none_numbers=text)
    assert "model=Net(width=…, patch=…)" in missing(ask, tmp_path, "none_numbers.py:Net").how


def test_a_model_said_by_a_comment_that_fails_is_told_with_both_lines(tmp_path: Path, ask: Ask) -> None:
    text = """
    import torch
    from torch import nn

    # remat: probe(model=Net(0))
    class Net(nn.Module):
        def __init__(self, parts):
            super().__init__()
            self.layer = nn.Linear(8 // parts, 4)

        def forward(self, x):
            return self.layer(x)
    """
    write(tmp_path, said_wrongly=text)
    asked = missing(ask, tmp_path, "said_wrongly.py:Net")
    assert "said_wrongly.py:8 (ZeroDivisionError" in asked.fact
    assert asked.how.startswith("correct line 4 of")


OPTIONS = """
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--depth", type=int, default=2)
    parser.add_argument("--drop", type=float, default=0.1)
    parser.add_argument("--kind", type=str, required=True)

    if __name__ == "__main__":
        options = parser.parse_args()
        options.classes = 10
"""
READS = """
    import torch
    from torch import nn

    class {name}(nn.Module):
        def __init__(self, opt):
            super().__init__()
            self.opt = opt
            if {kind}:
                self.extra = nn.Linear(opt.width, opt.classes)
            self.layers = nn.Sequential(*(nn.Linear(opt.width, opt.width) for _ in range(opt.depth)))

        def forward(self, x):
            return nn.functional.dropout(self.layers(x), self.opt.drop)
"""


def test_options_that_lack_what_is_not_needed_make_the_model(tmp_path: Path, ask: Ask) -> None:
    options = OPTIONS.replace("required=True", 'default="plain"')
    write(tmp_path, train=options, near=READS.format(name="Near", kind='opt.kind == "wide"'))
    assert "opt is read from the options of" in notes(ask, tmp_path, "near.py:Near")


def test_what_options_lack_is_asked_for_with_the_rest_filled_in(tmp_path: Path, ask: Ask) -> None:
    write(tmp_path, train=OPTIONS, lacking=READS.format(name="Lacking", kind='opt.kind == "wide"'))
    asked = missing(ask, tmp_path, "lacking.py:Lacking")
    assert "Namespace(classes=…, depth=2, drop=0.1, kind=…, width=16)" in asked.how
    assert asked.fact.startswith("`classes, kind` of `opt`")


def test_options_added_to_a_parser_from_elsewhere_are_read_where_they_are_written(tmp_path: Path, ask: Ask) -> None:
    options = """
    def extended(base, rest, known):
        base.add_argument("--width", default=16, type=int)
        base.add_argument("--wide-kind", dest="kind", default="plain")
        base.add_argument("--depth", default=2, type=int)
        base.add_argument("--drop", default=0.1, type=float)
        base.add_argument("--classes", default=10, type=int)
        return base.parse_args(rest, known)
    """
    write(tmp_path, options=options, spelt=READS.format(name="Spelt", kind='opt.kind == "wide"'))
    assert "opt is read from the options of" in notes(ask, tmp_path, "spelt.py:Spelt")


def test_a_tokenizer_that_is_not_there_is_left_out(tmp_path: Path, ask: Ask) -> None:
    text = """
    import os
    import torch
    from torch import nn

    class Tokenizer:
        def __init__(self, path):
            assert os.path.isfile(path), path
            self.words = 10

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokenizer = Tokenizer("no/such/tokenizer.model")
            self.layer = nn.Linear(8, 8)

        def forward(self, x):
            return self.layer(x)

    class Given(nn.Module):
        def __init__(self, tokenizer):
            super().__init__()
            self.tokenizer = tokenizer
            self.layer = nn.Linear(8, 8)

        def forward(self, x):
            return self.layer(x)
    """
    write(tmp_path, own_tokenizer=text)
    said = notes(ask, tmp_path, "own_tokenizer.py:Net")
    assert "Tokenizer is left out: it can't be made here (AssertionError: no/such/tokenizer.model)" in said
    assert "tokenizer is left out" in notes(ask, tmp_path, "own_tokenizer.py:Given")


def test_a_name_that_nothing_in_the_file_binds_is_given_by_a_line(tmp_path: Path, ask: Ask) -> None:
    text = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(settings.width, 8)

        def forward(self, x):
            return self.layer(x)
    """
    write(tmp_path, unbound=text)
    asked = missing(ask, tmp_path, "unbound.py:Net")
    assert "`settings`, which " in asked.fact
    assert asked.how.startswith(
        f'add above line 5 of {tmp_path / "unbound.py"}: # remat: probe(names={{"settings": …}})'
    )
    given = text.replace("    class Net", '    # remat: probe(names={"settings": Namespace(width=8)})\n    class Net')
    write(tmp_path, bound=given)
    assert "x: float[batch, 8]" in notes(ask, tmp_path, "bound.py:Net")


def test_what_a_class_works_out_from_data_is_said_in_the_file_that_does(tmp_path: Path, ask: Ask) -> None:
    settings = """
    from dataclasses import dataclass

    words = len(open("no_such_words.txt").read())

    @dataclass
    class Settings:
        words: int = words
    """
    net = """
    import torch
    from torch import nn
    from {settings} import *

    class Net(nn.Module):
        def __init__(self, settings: Settings):
            super().__init__()
            self.table = nn.Embedding(settings.words, 8)

        def forward(self, ids):
            return self.table(ids)
    """
    write(tmp_path, of_data=settings, uses_data=net.format(settings="of_data"))
    asked = missing(ask, tmp_path, "uses_data.py:Net")
    assert f'of {tmp_path / "of_data.py"}: # remat: probe(names={{"words": …}})' in asked.how
    said = settings.replace("    words = len", '    # remat: probe(names={"words": 12})\n    words = len')
    write(tmp_path, said_data=said, uses_said=net.format(settings="said_data"))
    assert "words=12" in notes(ask, tmp_path, "uses_said.py:Net")


def test_what_wraps_a_model_or_is_never_trained_is_not_another_model(tmp_path: Path, ask: Ask) -> None:
    script = """
    import torch
    from torch import nn

    class Wrapped(nn.Module):
        def __init__(self, width=8):
            super().__init__()
            self.layer = nn.Linear(width, width)

        def forward(self, x):
            return self.layer(x)
    """
    train = """
    import torch
    from torch import nn
    from wrapped_net import Wrapped

    def train(model):
        model_wrapper = nn.DataParallel(model).cuda()
        torch.optim.SGD(model_wrapper.parameters(), lr=0.1)

    def main():
        model = Wrapped(16)
        best = Wrapped(32)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.randn(2, 16)).sum().backward()
        train(model)
    """
    write(tmp_path, wrapped_net=script, wraps=train)
    assert "x: float[batch, 16]" in notes(ask, tmp_path, "wraps.py")


def test_a_script_whose_model_a_function_returns_is_understood(tmp_path: Path, ask: Ask) -> None:
    nets = """
    from torch import nn

    class Net(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.layer = nn.Linear(width, width)

        def forward(self, x):
            return self.layer(x)

    def built(width):
        model = Net(width)
        return model

    def small_net(**settings):
        return built(24)
    """
    script = """
    from a_trainer_of_somebody import Trainer
    from function_nets import small_net

    def main():
        model = small_net()
        with Trainer(model) as trainer:
            trainer.train()
    """
    write(tmp_path, function_nets=nets, by_function=script)
    assert "x: float[batch, 24]" in notes(ask, tmp_path, "by_function.py")


def test_what_has_to_be_done_before_a_forward_is_named(tmp_path: Path, ask: Ask) -> None:
    text = """
    import torch
    from torch import nn

    class Cached(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 8)
            self.table = None

        def set_up(self, length):
            self.table = torch.zeros(length)

        def forward(self, x):
            assert self.table is not None, "set up first"
            return self.layer(x) + self.table[0]
    """
    write(tmp_path, cached=text)
    asked = missing(ask, tmp_path, "cached.py:Cached")
    assert "cached.py:14 insists on it (set up first)" in asked.fact
    assert "calls set_up(…)" in asked.how


def test_masks_of_a_batch_are_found_where_the_attention_adds_the_heads(tmp_path: Path, ask: Ask) -> None:
    body = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(20, 16)
            self.last = nn.Linear(16, 16)

        def scores(self, x, mask):
            heads = x.view(x.shape[0], -1, 4, 4).transpose(1, 2)
            scores = heads @ heads.transpose(-2, -1)
            return self.last((scores.masked_fill(mask.unsqueeze(1) == 0, -1e9) @ heads).transpose(1, 2).flatten(2))

        def forward(self, src, tgt, src_mask, tgt_mask):
            return self.scores(self.words(src), src_mask) + self.scores(self.words(tgt), tgt_mask)
    """
    said = inputs(ask, tmp_path, "two_masks", body)
    assert "src_mask: bool[batch, 1, seq], tgt_mask: bool[batch, 1, seq]" in said


def test_inputs_that_fit_one_sample_alone_are_asked_for_in_a_larger_batch(tmp_path: Path, ask: Ask) -> None:
    text = """
    import torch
    from torch import nn

    class Alone(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(20, 16)

        def forward(self, ids, other):
            return self.words(ids).view(ids.shape[1], 16) + self.words(other).view(ids.shape[1], 16)
    """
    write(tmp_path, alone=text)
    assert "ids: int[batch, seq]" in notes(ask, tmp_path, "alone.py:Alone")
    asked = failure(ask(tmp_path, "alone.py:Alone", batch=4)).missing
    assert asked is not None
    assert "fits one alone (--batch 1)" in asked.fact


def test_a_vector_laid_over_a_picture_has_the_channels_that_are_left(tmp_path: Path, ask: Ask) -> None:
    body = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.main = nn.Sequential(nn.Conv2d(3 + 5, 8, 3, padding=1), nn.Conv2d(8, 3, 3, padding=1))

        def forward(self, x, c):
            c = c.view(c.size(0), c.size(1), 1, 1)
            c = c.repeat(1, 1, x.size(2), x.size(3))
            return self.main(torch.cat([x, c], dim=1))
    """
    assert "x: float[batch, 3, 224, 224], c: float[batch, 5]" in inputs(ask, tmp_path, "laid_over", body)


def test_inputs_of_a_forecast_are_as_long_as_its_settings_say(tmp_path: Path, ask: Ask) -> None:
    text = """
    import torch
    from argparse import Namespace
    from torch import nn

    # remat: probe(model=Forecast(Namespace(seq_len=36, label_len=12, pred_len=6, enc_in=7, freq="t", width=8)))
    class Forecast(nn.Module):
        def __init__(self, configs):
            super().__init__()
            self.configs = configs
            self.seq_len, self.pred_len, self.label_len = configs.seq_len, configs.pred_len, configs.label_len
            self.enc_in, self.freq = configs.enc_in, configs.freq
            self.value, self.time = nn.Linear(7, configs.width), nn.Linear(5, configs.width)
            self.last = nn.Linear(configs.width, 7)

        def forward(self, x_enc, x_mark_enc, x_dec, x_mark_dec):
            past = self.value(x_enc) + self.time(x_mark_enc)
            ahead = self.value(x_dec) + self.time(x_mark_dec)
            return self.last(ahead + past.mean(1, keepdim=True))[:, -self.pred_len:]
    """
    write(tmp_path, forecast=text)
    said = notes(ask, tmp_path, "forecast.py:Forecast")
    assert "x_enc: float[batch, 36, 7], x_mark_enc: float[batch, 36, 5], x_dec: float[batch, 18, 7]" in said


def test_scores_of_each_point_are_learnt_by_cross_entropy(tmp_path: Path, ask: Ask) -> None:
    body = """
    class Net(nn.Module):
        def __init__(self, classes=21):
            super().__init__()
            self.main = nn.Conv2d(3, classes, 3, padding=1)

        def forward(self, x):
            return {"out": self.main(x)}
    """
    assert "cross-entropy over the points of the output [batch, 21," in inputs(ask, tmp_path, "points", body)
    assert "binary cross-entropy" in inputs(ask, tmp_path, "point", body.replace("classes=21", "classes=1"))


def test_a_class_that_writes_text_has_labels_whatever_it_is_called(tmp_path: Path, ask: Ask) -> None:
    sizes = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2}
    sizes |= {"decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "vocab_size": 60}
    other = {"pad_token_id": 59, "decoder_start_token_id": 59, "eos_token_id": 0, "max_position_embeddings": 64}
    (tmp_path / "config.json").write_text(
        json.dumps({"model_type": "marian", "architectures": ["MarianMTModel"], **sizes, **other})
    )
    said = notes(ask, tmp_path, f"hf:{tmp_path}")
    assert "labels: int[batch, seq]" in said
    assert "the mean of its output" not in said


def test_a_decoder_that_starts_with_no_known_token_starts_with_any(tmp_path: Path, ask: Ask) -> None:
    sizes = {"d_model": 32, "d_kv": 16, "d_ff": 32, "num_layers": 1, "num_heads": 2, "vocab_size": 60}
    config = {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "is_encoder_decoder": True, **sizes}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert "labels: int[batch, seq]" in notes(ask, tmp_path, f"hf:{tmp_path}")


def test_pictures_are_given_to_models_that_see_them_beside_a_text(tmp_path: Path, ask: Ask) -> None:
    text = {"model_type": "llama", **SMALL, "num_key_value_heads": 2}
    vision = {**SMALL, "model_type": "clip_vision_model", "image_size": 28, "patch_size": 14}
    config = {"model_type": "llava", "architectures": ["LlavaForConditionalGeneration"], "text_config": text}
    more = {"vision_config": vision, "image_token_index": 39, "vision_feature_layer": -1}
    (tmp_path / "config.json").write_text(json.dumps({**config, **more}))
    assert "pixel_values: float[batch, 3, 28, 28]" in notes(ask, tmp_path, f"hf:{tmp_path}")


def test_pictures_that_are_cut_by_their_size_are_said_to_be_left_out(tmp_path: Path, ask: Ask) -> None:
    text = {**SMALL, "num_key_value_heads": 2, "rope_parameters": {"rope_type": "default", "mrope_section": [2, 3, 3]}}
    vision = {"depth": 1, "embed_dim": 32, "hidden_size": 32, "num_heads": 2, "patch_size": 14, "mlp_ratio": 2}
    config = {"model_type": "qwen2_vl", "architectures": ["Qwen2VLForConditionalGeneration"]}
    (tmp_path / "config.json").write_text(json.dumps({**config, "text_config": text, "vision_config": vision}))
    assert "no pictures are given" in notes(ask, tmp_path, f"hf:{tmp_path}")


def test_a_script_that_trains_two_models_at_its_top_is_asked_for_one_and_trains_none(tmp_path: Path, ask: Ask) -> None:
    script = """
    import torch
    from torch import nn
    from two_nets import small

    def train_model(model, optimizer):
        open("trained.txt", "w").close()
        model(torch.randn(2, 8)).sum().backward()
        optimizer.step()
        return model

    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model = train_model(model, optimizer)

    model_conv = small()
    for parameter in model_conv.parameters():
        parameter.requires_grad = False
    model_conv.last = nn.Linear(8, 8)
    optimizer_conv = torch.optim.SGD(model_conv.last.parameters(), lr=0.1)
    model_conv = train_model(model_conv, optimizer_conv)
    """
    nets = """
    from torch import nn

    class Small(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(8, 8)

        def forward(self, x):
            return self.last(x)

    def small() -> Small:
        return Small()
    """
    write(tmp_path, two_nets=nets, trains_two=script)
    asked = missing(ask, tmp_path, "trains_two.py")
    assert asked.how == "say which: trains_two.py:11 (model), trains_two.py:15 (model_conv)"
    assert "x: float[batch, 8]" in notes(ask, tmp_path, "trains_two.py:11")
    assert "x: float[batch, 8]" in notes(ask, tmp_path, "trains_two.py:15")
    assert not (tmp_path / "trained.txt").exists()


def test_inputs_that_may_be_left_out_as_they_are_declared_are_asked_for_where_none_fails(
    tmp_path: Path, ask: Ask
) -> None:
    text = """
    import torch
    from torch import Tensor, nn

    class Styled(nn.Module):
        def __init__(self):
            super().__init__()
            self.main = nn.Linear(8, 8)

        def forward(self, sample: Tensor, style: Tensor | None = None, odd: Tensor | None = None):
            assert odd is None or odd.shape[-1] == 5
            return self.main(sample) + style.permute(2, 0, 1).sum() + odd.sum()
    """
    write(tmp_path, styled=text)
    asked = missing(ask, tmp_path, "styled.py:Styled")
    assert "what `sample, style, odd` of `Styled.forward` looks like" in asked.fact
    assert '"style": torch.randn(batch, …), "odd": torch.randn(batch, …)' in asked.how


def test_batch_norms_that_would_be_synchronised_are_counted_as_those_of_one_gpu(tmp_path: Path, ask: Ask) -> None:
    text = """
    import torch
    from torch import nn

    def Synchronised():
        return nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)))
    """
    write(tmp_path, synchronised=text)
    assert "without what SyncBatchNorm gathers" in notes(ask, tmp_path, "synchronised.py:Synchronised")
