"""What a Hugging Face model is given when it is trained: its inputs and labels, by its class and configuration."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, cast

from torch import nn

from remat.probe.batch.shapes import BATCH, SEQ, Recipe, Shape, Sizes, dtype_of_floats
from remat.probe.built import FactMissingError, Inputs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from remat.probe.batch.shapes import Value

BATCH_SIZE = 1
LONGEST = 2048  # tokens, where the model could take more and nothing is said
_CHARACTERS = 150  # that are said in ten seconds
_POSITIONS = {"position_embeddings", "position_embedding", "wpe", "embed_positions"}
_LM = ("ForCausalLM", "LMHeadModel", "ForMaskedLM", "ForConditionalGeneration", "ForPreTraining", "WithLMHead")


def make_batch(model: nn.Module, batch: int | None, seq: int | None) -> Inputs:
    longest, learned = limits(model)
    if seq is not None and learned is not None and seq > learned:
        raise FactMissingError(
            f"seq={seq} is more than the {learned} positions this model has", f"give --seq {learned}"
        )
    sizes = Sizes(batch or BATCH_SIZE, seq or min(longest, LONGEST), dtype_of_floats(model))
    return recipe(model, sizes.seq).inputs(sizes)


def assumptions(model: nn.Module, batch: int | None, seq: int | None) -> tuple[str, ...]:
    longest, _ = limits(model)
    inputs = recipe(model, seq or min(longest, LONGEST))
    said = [f"inputs: {inputs}"]
    if batch is None:
        said.append(f"a batch of {BATCH_SIZE} (--batch)")
    if seq is None and _has_sequence(inputs):
        said.append(f"sequences of {min(longest, LONGEST)} tokens (--seq), without padding")
    if hasattr(_config(model), "vision_config") and "pixel_values" not in inputs.values:
        said.append("no pictures are given: how they are cut depends on their sizes, and the figures are of text alone")
    if not any(name in inputs.values for name in ("labels", "return_loss", "start_positions")):
        said.append("no labels are known for this class: the loss is the mean of its output")
    return tuple(said)


def has_sequence(model: nn.Module) -> bool:
    return _has_sequence(recipe(model, min(limits(model)[0], LONGEST)))


def _has_sequence(inputs: Recipe) -> bool:
    return any(isinstance(v, Shape) and SEQ in v.dims for v in inputs.values.values())


def limits(model: nn.Module) -> tuple[int, int | None]:
    """Return the longest sequence the model is made for, and the number of learned positions, where it has such."""
    config = _text(_config(model))
    said = [
        getattr(config, n, None)
        for n in ("max_position_embeddings", "n_positions", "max_seq_len", "max_target_positions")
    ]
    learned = None
    for name, module in model.named_modules():
        if isinstance(module, nn.Embedding) and name.split(".")[-1] in _POSITIONS:
            if "vision" in name or "encoder.embed" in name:
                continue
            offset = 0 if module.padding_idx is None else module.padding_idx + 1  # as RoBERTa counts
            learned = min(learned or module.num_embeddings, module.num_embeddings - offset)
    numbers = [n for n in (learned, *said) if isinstance(n, int) and n > 0]
    return (numbers[0] if numbers else 512), learned


def recipe(model: nn.Module, seq: int) -> Recipe:
    accepted = inspect.signature(model.forward).parameters
    values = {name: value for name, value in _values(model, seq, accepted).items() if name in accepted}
    if not values:
        raise FactMissingError(
            f"what {type(model).__name__} is given: its configuration does not tell",
            f"write remat_probe.py with build(), which returns the model, and batch(), which returns a mapping of "
            f"{', '.join(list(accepted)[:4])}",
        )
    return Recipe(values)


def _values(model: nn.Module, seq: int, accepted: Mapping[str, object]) -> dict[str, Value]:
    config, main = _config(model), str(getattr(model, "main_input_name", "input_ids"))
    cls = type(model).__name__
    if main == "pixel_values" or (main not in accepted and "pixel_values" in accepted):
        text = {"input_ids": _ids(config), "labels": _ids(config)} if cls.endswith("ForConditionalGeneration") else {}
        return {"pixel_values": _pixels(config), **_image_labels(cls, config), **text}
    if main == "input_features":
        return {main: _features(config), "labels": _ids(config, min(seq, 448))}
    if main == "input_values":
        return _audio(config, cls)
    if main == "past_values":
        return _series(config)
    return _text_values(config, cls, accepted, writes_text=_writes_text(model))


def _writes_text(model: nn.Module) -> bool:
    """Tell whether its head gives a score to each word of the vocabulary, whatever its class is called."""
    head = getattr(model, "get_output_embeddings", None)
    return head is not None and head() is not None


def _text_values(config: object, cls: str, accepted: Mapping[str, object], *, writes_text: bool) -> dict[str, Value]:
    ids = _ids(config)
    if cls.endswith("ForMultipleChoice"):
        return {"input_ids": Shape((BATCH, 4, SEQ), "int", ids.high), "labels": Shape((BATCH,), "int", 4)}
    values: dict[str, Value] = {"input_ids": ids, **_text_labels(cls, config)}
    if "labels" not in values and "labels" in accepted and writes_text:
        values["labels"] = ids
    if "return_loss" in accepted:  # CLIP and its kind: pairs of a text and an image, or a sound
        values |= {"pixel_values": _pixels(config), "input_features": _clips(config), "return_loss": True}
    elif (
        _sees_pictures_too(config, accepted)
        or _needed(accepted, "pixel_values")
        or _sees_plain_pictures(config, accepted)
    ):
        values["pixel_values"] = _pixels(config)
    if getattr(config, "is_encoder_decoder", False) and "labels" not in values:
        values["decoder_input_ids"] = ids
    return values


_PICTURES_IN_PARTS = ("image_grid_thw", "pixel_attention_mask", "image_grid_pinpoints", "spatial_merge_size")
"""by which a model says that how a picture is cut into parts depends on its size"""


def _sees_plain_pictures(config: object, accepted: Mapping[str, object]) -> bool:
    """Tell whether a stack of its own works on a picture of one size, whose features take places of the text."""
    in_parts = any(name in accepted or hasattr(config, name) for name in _PICTURES_IN_PARTS)
    return hasattr(config, "vision_config") and "pixel_values" in accepted and not in_parts


def _needed(accepted: Mapping[str, object], name: str) -> bool:
    return name in accepted and getattr(accepted[name], "default", None) is inspect.Parameter.empty


def _clips(config: object) -> Shape:
    """Ten seconds of sound as a picture of its spectra."""
    return Shape((BATCH, 1, 1001, int(getattr(getattr(config, "audio_config", None), "num_mel_bins", 64))))


def _sees_pictures_too(config: object, accepted: Mapping[str, object]) -> bool:
    """Tell whether one stack works on a text and its picture together; with boxes of words it does without pictures."""
    one_stack = not hasattr(config, "vision_config") and hasattr(config, "image_size")
    return one_stack and "pixel_values" in accepted and "bbox" not in accepted


def _series(config: object) -> dict[str, Value]:
    """Values over time, as they were and as they are to be predicted."""

    def number(name: str, default: int = 0) -> int:
        return int(getattr(config, name, None) or default)

    ahead, width = number("prediction_length", 24), number("num_input_channels") or number("input_size", 1)
    past = number("context_length", ahead) + max(getattr(config, "lags_sequence", None) or [0])
    values = (width,) if width > 1 or number("num_input_channels") else ()
    known: dict[str, Value] = {
        "past_values": Shape((BATCH, past, *values)),
        "past_time_features": Shape((BATCH, past, number("num_time_features"))),
        "past_observed_mask": Shape((BATCH, past, *values)),
        "future_values": Shape((BATCH, ahead, *values)),
        "future_time_features": Shape((BATCH, ahead, number("num_time_features"))),
    }
    if categories := number("num_static_categorical_features"):
        known["static_categorical_features"] = Shape((BATCH, categories), "int", 1)
    if numbers := number("num_static_real_features"):
        known["static_real_features"] = Shape((BATCH, numbers))
    return known


def _text_labels(cls: str, config: object) -> dict[str, Value]:
    classes = int(getattr(config, "num_labels", 2))
    if any(cls.endswith(name) for name in _LM):
        return {"labels": _ids(config)}
    if cls.endswith("ForSequenceClassification"):
        regression = classes == 1
        return {"labels": Shape((BATCH,), "float") if regression else Shape((BATCH,), "int", classes)}
    if cls.endswith("ForTokenClassification"):
        return {"labels": Shape((BATCH, SEQ), "int", classes)}
    if cls.endswith("ForQuestionAnswering"):
        return {name: Shape((BATCH,), "int", 2) for name in ("start_positions", "end_positions")}
    if cls.endswith("ForNextSentencePrediction"):
        return {"labels": Shape((BATCH,), "int", 2)}
    return {}


def _image_labels(cls: str, config: object) -> dict[str, Value]:
    classes = int(getattr(config, "num_labels", 2))
    height, width = _image_size(config)
    if cls.endswith(("ForImageClassification", "ForImageClassificationWithTeacher", "ForVideoClassification")):
        return {"labels": Shape((BATCH,), "int", classes)}
    if cls.endswith("ForSemanticSegmentation"):
        return {"labels": Shape((BATCH, height, width), "int", classes)}
    if cls == "VisionEncoderDecoderModel" or cls.endswith("ForCausalLM"):
        return {"labels": _ids(config)}
    return {}


def _pixels(config: object) -> Shape:
    vision = getattr(config, "vision_config", None) or getattr(config, "encoder", None) or config
    channels = int(getattr(vision, "num_channels", None) or 3)
    frames = getattr(vision, "num_frames", None)
    middle: tuple[int, ...] = (int(frames), channels) if isinstance(frames, int) else (channels,)
    return Shape((BATCH, *middle, *_image_size(config)))


def _image_size(config: object) -> tuple[int, int]:
    vision = getattr(config, "vision_config", None) or getattr(config, "encoder", None) or config
    size = getattr(vision, "image_size", None) or 224
    if isinstance(size, dict):
        size = (size["height"], size["width"])
    height, width = (size, size) if isinstance(size, int) else tuple(size)
    return int(height), int(width)


def _features(config: object) -> Shape:
    bands = getattr(config, "input_feat_per_channel", None)
    if isinstance(bands, int):  # spectra over time, the other way round
        length = int(getattr(config, "max_source_positions", 6000))
        return Shape((BATCH, length, bands * int(getattr(config, "input_channels", None) or 1)))
    mels = int(getattr(config, "num_mel_bins", 80))
    return Shape((BATCH, mels, 2 * int(getattr(config, "max_source_positions", 1500))))


def _audio(config: object, cls: str) -> dict[str, Value]:
    if hasattr(config, "num_mel_bins") and hasattr(config, "max_length") and not hasattr(config, "conv_dim"):
        values: dict[str, Value] = {"input_values": Shape((BATCH, int(config.max_length), int(config.num_mel_bins)))}
    else:
        values = {"input_values": Shape((BATCH, 160_000))}  # ten seconds at 16 kHz
    if cls.endswith(("ForSequenceClassification", "ForAudioClassification")):
        values["labels"] = Shape((BATCH,), "int", int(getattr(config, "num_labels", 2)))
    elif cls.endswith(("ForCTC", "ForSpeechToText")) or getattr(config, "is_encoder_decoder", False):
        values["labels"] = _ids(config, _CHARACTERS)
    return values


def _ids(config: object, length: int | str = SEQ) -> Shape:
    text = _text(config)
    return Shape((BATCH, length), "int", int(getattr(text, "vocab_size", None) or 100))


def _config(model: nn.Module) -> object:
    return cast("object", model.config)


def _text(config: object) -> object:
    get = getattr(config, "get_text_config", None)
    if get is not None:
        return cast("object", get())
    return getattr(config, "text_config", None) or config
