"""What an input of a model may look like, the likeliest first: by the module that sees it first, and by its name."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from torch import nn

from remat.probe.batch.settings_of import named_sides, number, of_config, setting
from remat.probe.batch.shapes import BATCH, SEQ, Shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from remat.probe.batch.use import Use

_SIDES = (224, 32, 28, 64, 128, 256, 299, 96, 227, 84, 512, 384, 572, 16, 8, 4, 1)
_SIDES_BY_CHANNELS = {1: (28, 32, 64, 256), 3: (224, 32, 64), 4: (64, 84, 32)}
_SERIES = ("enc_in", "c_in", "n_vars", "num_series", "n_series", "num_variates", "channels")
_BANDS = (80, 64, 40, 128, 161, 257)
_IDS = re.compile(r"(input_?ids?|ids?|idx|tokens?|src|tgt|inputs?_?tokens|.*_ids?|.*_tokens?|.*_idx)")
_SURELY_IDS = re.compile(r"(input_?)?ids|tokens?|idx|.*_token_ids|token_ids|input_tokens")
_SMALL_VOCABULARY = 100  # there is no smaller one
_TIMES = re.compile(r"(t|ts|time|times|timesteps?|noise_levels?|sigmas?|noise|step|steps|.*_timesteps?)")
_CLASSES = re.compile(r"(y|label|labels|class_labels?|classes|c|target|targets|cls|.*_labels?)")
_BOXES = re.compile(r"b?box(es)?")
_MASKS = re.compile(r".*mask.*")
_TEXTS = re.compile(
    r"(encoder_hidden_states|context|cond|conditioning|text|memory|.*_embeds?|.*embeddings?|hidden_states)"
)
_SEQUENCES = re.compile(r"(encoder_)?hidden_states|context|memory|text|src|tgt|.*_tokens|.*_sequence")
_STATES = re.compile(r"(h|h0|hx|hidden|state|hidden_state|prev_state)")
_PICTURES = re.compile(r".*(img|image|pixel|picture|frame)s?.*|x|inputs?|data|.*samples?|.*latents?")
_FORECASTS = re.compile(r"(?:batch_)?x_(?P<mark>mark_)?(?P<part>enc|dec)")
_TIME_FEATURES = {"h": 4, "t": 5, "s": 6, "m": 1, "a": 1, "w": 2, "d": 3, "b": 3}
"""parts of a time that tell something, by how often values come"""
_WORDS, _TEXT_LENGTHS = 77, ("max_text_seq_length", "text_len", "caption_length")
_LENGTHS = re.compile(r"(lengths?|.*_lengths?|lens?|seq_lens?)")


@dataclass(frozen=True, slots=True)
class Facts:
    """What a model says of itself that its inputs follow from."""

    sides: tuple[tuple[int, ...], ...] = ()
    """sizes of images it names"""
    vocabulary: int | None = None
    width: int | None = None
    """of the first layer that works on vectors"""
    condition: int | None = None
    states: tuple[int, int] | None = None
    """layers and width of a recurrent state"""
    cells: bool = False
    """the recurrent layer is an LSTM, whose state is a pair"""
    first: nn.Module | None = None
    """the first convolution of any rank"""
    image: tuple[int, ...] | None = None
    """given by the user"""
    channels: int | None = None
    """of the first layer that works on pictures, if any does"""
    setting: Callable[[str], object] = str
    """what the model, or what it was made with, calls by a name"""
    series: int | None = None
    """that run side by side in time, as its settings name them"""


def facts(model: nn.Module, image: tuple[int, ...] | None, of_data: tuple[tuple[int, ...], ...] = ()) -> Facts:
    parts = list(model.modules())
    embedding = next((m for m in parts if isinstance(m, nn.Embedding)), None)
    widths = (getattr(m, "in_features", None) for m in parts)  # of linear layers, and of those that users write
    recurrent = next((m for m in parts if isinstance(m, nn.RNNBase)), None)
    condition = next((number(of_config(model, n)) for n in ("cross_attention_dim", "context_dim", "cond_dim")), None)
    states = None
    if recurrent is not None:
        states = (recurrent.num_layers * (2 if recurrent.bidirectional else 1), recurrent.hidden_size)
    return Facts(
        sides=(*named_sides(model), *of_data),
        vocabulary=embedding.num_embeddings if embedding is not None else None,
        width=next((width for width in widths if type(width) is int), None),
        condition=condition,
        states=states,
        cells=isinstance(recurrent, nn.LSTM),
        first=next((m for m in parts if isinstance(m, nn.Conv1d | nn.Conv2d | nn.Conv3d)), None),
        image=image,
        setting=lambda name: setting(model, name),
        series=next((n for n in (number(setting(model, name)) for name in _SERIES) if n), None),
        channels=next((m.in_channels for m in parts if isinstance(m, nn.Conv2d | nn.ConvTranspose2d)), None),
    )


def candidates(name: str, use: Use, known: Facts) -> list[Shape | State]:
    """Return shapes of one input, the likeliest first."""
    if forecast := _of_forecast(name, known):
        return [forecast]
    if _LENGTHS.fullmatch(name.lower()) and use.consumer is None:
        return [Shape((BATCH,), "length"), Shape((BATCH, 1), "length")]
    if use.last_turned and isinstance(use.consumer, nn.Linear):  # how many series there are, no layer tells
        return [Shape((BATCH, use.consumer.in_features, known.series))] if known.series else []
    if use.joined:
        return list(_side_by_side(name, use, known))
    by_module = list(_of_module(name, use, known)) if use.consumer is not None else []
    if use.turned:
        by_module = [*_turned(use), *by_module]
    if use.added and isinstance(use.consumer, nn.Conv1d | nn.Conv2d):
        by_module = [*_without_channels(use.consumer, by_module), *by_module]
    by_names = list(_of_name(name, known))
    if _TIMES.fullmatch(name.lower()) and isinstance(use.consumer, nn.Linear) and use.consumer.in_features > 1:
        by_module, by_names = by_names, by_module  # a layer sees what is worked out of a time
    found = [*by_module, *by_names, *_of_anything(name, use, known)]
    if use.rank is None:
        return list(dict.fromkeys([*_recurrent(name, known), *found, *_turned(use), *_of_every_rank(known)]))
    found += _turned(use)
    ranked = [shape for shape in found if len(shape.dims) == use.rank]
    return list(dict.fromkeys([*ranked, *_of_rank(use, known)] if ranked else [*_of_rank(use, known), *found]))


def _of_forecast(name: str, known: Facts) -> Shape | None:
    """Return an input of a model that forecasts: what was, and what is to be with the last of what was before it."""
    match = _FORECASTS.fullmatch(name)
    past, ahead = number(known.setting("seq_len")), number(known.setting("pred_len"))
    if match is None or not past or not ahead:
        return None
    length = past if match["part"] == "enc" else (number(known.setting("label_len")) or 0) + ahead
    of_time = _TIME_FEATURES.get(str(known.setting("freq"))[-1:], 4)
    own = number(known.setting(f"{match['part']}_in")) or number(known.setting("enc_in"))
    width = of_time if match["mark"] else own or known.series
    return Shape((BATCH, length, width)) if width else None


State: TypeAlias = "tuple[Shape, ...]"


def _recurrent(name: str, known: Facts) -> Iterator[State]:
    """Yield the pair of states of an LSTM."""
    if known.cells and known.states and _STATES.fullmatch(name.lower()):
        yield (Shape((known.states[0], BATCH, known.states[1])),) * 2


def _side_by_side(name: str, use: Use, known: Facts) -> Iterator[Shape]:
    """Yield what a layer sees beside other inputs: its share of the width as settings name it, or of the channels."""
    widths = [number(known.setting(f"{part}_dim")) for part in use.joined]
    if isinstance(use.consumer, nn.Linear) and sum(filter(None, widths)) == use.consumer.in_features and all(widths):
        yield Shape((BATCH, widths[use.joined.index(name)] or 0))
    elif isinstance(use.consumer, nn.Conv2d) and use.spread:  # a vector that is laid over the picture
        yield from (Shape((BATCH, use.consumer.in_channels - n)) for n in (3, 1) if use.consumer.in_channels > n)
    elif isinstance(use.consumer, nn.Conv2d) and use.spread_beside:
        yield from _few_images(known)
    elif isinstance(use.consumer, nn.Conv2d) and use.consumer.in_channels % len(use.joined) == 0:
        yield from _images(use.consumer.in_channels // len(use.joined), known)


def _without_channels(consumer: nn.Conv1d | nn.Conv2d, shapes: list[Shape]) -> Iterator[Shape]:
    """Yield what has no channels yet: spectra over time, or pictures and sounds of one channel."""
    if isinstance(consumer, nn.Conv2d):
        yield from (Shape((BATCH, SEQ, bands)) for bands in _BANDS)
    yield from (Shape((BATCH, *shape.dims[2:])) for shape in shapes if shape.dims[1:2] == (1,))


def _turned(use: Use) -> list[Shape]:
    """Return what a convolution sees with its channels last, where the forward turns its input."""
    if isinstance(use.consumer, nn.Conv1d):
        return [Shape((BATCH, SEQ, use.consumer.in_channels))]
    if isinstance(use.consumer, nn.Conv2d):
        return [Shape((BATCH, 224, 224, use.consumer.in_channels))]
    return []


def _of_every_rank(known: Facts) -> Iterator[Shape]:
    """Yield pictures as models take them that aren't made of convolutions on them."""
    first = known.first
    if isinstance(first, nn.Conv1d):
        yield from (Shape((BATCH, first.in_channels, length)) for length in (SEQ, 1024, 16384, 65536))
    elif isinstance(first, nn.Conv3d):
        yield Shape((BATCH, first.in_channels, 16, 112, 112))
    yield from (Shape((BATCH, 224, 224, channels)) for channels in (3, 1))
    yield from _images(3, known)


def by_name(name: str, known: Facts) -> list[Shape]:
    """Return what an input that may be left out looks like, if its name tells."""
    return list(_of_name(name, known)) if not _MASKS.fullmatch(name.lower()) else []


def _of_module(name: str, use: Use, known: Facts) -> Iterator[Shape]:
    module = use.consumer
    if isinstance(module, nn.Embedding):
        yield Shape((BATCH, SEQ), "int", module.num_embeddings)
        yield Shape((BATCH,), "int", module.num_embeddings)
    elif isinstance(module, nn.EmbeddingBag):
        yield Shape((BATCH, SEQ), "int", module.num_embeddings)
    elif isinstance(module, nn.Conv1d | nn.ConvTranspose1d):
        yield from (Shape((BATCH, module.in_channels, length)) for length in (SEQ, 1024, 16000))
    elif isinstance(module, nn.ConvTranspose2d) and module.in_channels > 4:  # noise that a picture is made of
        yield from (Shape((BATCH, module.in_channels, side, side)) for side in (1, 4, 7, 8))
    elif isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
        yield from _images(module.in_channels, known)
    elif isinstance(module, nn.Conv3d | nn.ConvTranspose3d):
        sides = ((16, 112, 112), (64, 64, 64), (32, 32, 32), (16, 224, 224))
        latent = ((8, 32, 32),) if module.in_channels > 4 else ()  # what a film is compressed to
        yield from (Shape((BATCH, module.in_channels, *side)) for side in (*latent, *sides))
    elif isinstance(module, nn.Linear):
        words = next((n for n in (number(known.setting(of)) for of in _TEXT_LENGTHS) if n), _WORDS)
        if (width := module.in_features - max(0, use.beside)) > 0:
            yield from _vectors(width, use, name, words)
    else:
        yield from _of_other_module(module, known)


def _of_other_module(module: nn.Module | None, known: Facts) -> Iterator[Shape]:
    if isinstance(module, nn.RNNBase):
        yield Shape((BATCH, SEQ, module.input_size) if module.batch_first else (SEQ, BATCH, module.input_size))
    elif isinstance(module, nn.RNNCellBase):
        yield from (Shape((BATCH, module.input_size)), Shape((BATCH, SEQ, module.input_size)))
    elif isinstance(module, nn.MultiheadAttention):
        yield Shape((BATCH, SEQ, module.embed_dim) if module.batch_first else (SEQ, BATCH, module.embed_dim))
    elif isinstance(module, nn.LayerNorm):
        yield Shape((BATCH, SEQ, *module.normalized_shape))
        yield Shape((BATCH, *module.normalized_shape))
    elif isinstance(module, nn.BatchNorm2d | nn.GroupNorm):
        yield from _images(module.num_channels if isinstance(module, nn.GroupNorm) else module.num_features, known)
    elif isinstance(module, nn.BatchNorm1d):
        yield from (Shape((BATCH, module.num_features)), Shape((BATCH, module.num_features, SEQ)))


def _images(channels: int, known: Facts) -> Iterator[Shape]:
    sides = (
        [known.image]
        if known.image
        else [*known.sides, *((s, s) for s in (*_SIDES_BY_CHANNELS.get(channels, ()), *_SIDES))]
    )
    yield from (Shape((BATCH, channels, *pair)) for pair in dict.fromkeys(sides))


def _few_images(known: Facts) -> Iterator[Shape]:
    for channels in (3, 1):
        yield from itertools.islice(_images(channels, known), 4)


def _vectors(width: int, use: Use, name: str = "", words: int = _WORDS) -> Iterator[Shape]:
    if _SEQUENCES.fullmatch(name.lower()):
        yield Shape((BATCH, words if name.startswith(("encoder", "context", "text")) else SEQ, width))
    if use.flattened:
        for channels in (1, 3):
            side = round((width / channels) ** 0.5)
            if side * side * channels == width:
                yield Shape((BATCH, channels, side, side))
    yield Shape((BATCH, width))
    yield Shape((BATCH, SEQ, width))


def _of_name(name: str, known: Facts) -> Iterator[Shape]:
    name = name.lower()
    if _LENGTHS.fullmatch(name):
        yield Shape((BATCH,), "length")
    elif _BOXES.fullmatch(name):
        yield from (Shape((BATCH, 4), "box"), Shape((BATCH, 1, 4), "box"))
    elif _MASKS.fullmatch(name):
        pairs = ((SEQ, SEQ), (BATCH, 1, SEQ, SEQ), (BATCH, 1, SEQ), (BATCH, SEQ, SEQ))
        yield from (Shape(dims, "bool") for dims in ((BATCH, SEQ), *pairs))
    elif _TIMES.fullmatch(name):
        yield from (Shape((BATCH,), "int", 1000), Shape((BATCH,)), Shape((BATCH, 1)))
    elif _CLASSES.fullmatch(name):
        yield from (Shape((BATCH,), "int", 2), Shape((BATCH, SEQ), "int", known.vocabulary or 2))
    elif _STATES.fullmatch(name) and known.states:
        yield Shape((known.states[0], BATCH, known.states[1]))
        yield Shape((BATCH, known.states[1]))
    elif _TEXTS.fullmatch(name):
        for width in filter(None, (known.condition, known.width)):
            yield from (Shape((BATCH, 77, width)), Shape((BATCH, width)))
    elif known.vocabulary and _IDS.fullmatch(name):
        yield Shape((BATCH, SEQ), "int", known.vocabulary)
    elif _SURELY_IDS.fullmatch(name):  # of an embedding that the model writes itself
        yield Shape((BATCH, SEQ), "int", _SMALL_VOCABULARY)


def _of_anything(name: str, use: Use, known: Facts) -> Iterator[Shape]:
    """Yield what models take most, for an input of which nothing better is known or fits."""
    if known.channels and (_PICTURES.fullmatch(name.lower()) or use.flattened):
        yield from (*_images(known.channels, known), *_few_images(known))
    if known.vocabulary:
        yield Shape((BATCH, SEQ), "int", known.vocabulary)
    if known.width:
        yield from _vectors(known.width, use)
    yield from _few_images(known)


def _of_rank(use: Use, known: Facts) -> list[Shape]:
    width = known.width or 64
    conv = use.consumer
    if isinstance(conv, nn.Conv2d) and use.rank == 3:
        return [Shape((BATCH, conv.in_channels, length)) for length in (SEQ, 8192)]
    if isinstance(conv, nn.Conv2d) and use.rank == 5:  # pictures of a film, which the forward takes one by one
        side = next(iter(known.sides), (64, 64))
        return [Shape((BATCH, conv.in_channels, 8, *side)), Shape((BATCH, 8, conv.in_channels, *side))]
    shapes = {
        1: [Shape((BATCH,))],
        2: [Shape((BATCH, width))],
        3: [Shape((BATCH, SEQ, width))],
        4: [Shape((BATCH, 3, 224, 224))],
    }
    return shapes.get(use.rank or 0, [])
