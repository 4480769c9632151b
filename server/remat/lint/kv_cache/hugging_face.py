"""What is known of Hugging Face classes: which hold a KV cache, what builds them, where a config write has no effect.

Run on 4.57.6 and 5.24.0 with tiny models built from their configurations, unless a line says otherwise.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from remat.versions import Versions


class Kind(Enum):
    DECODER = "keeps a KV cache while it trains"
    OTHER = "keeps none, or nobody can say from the class"


LOADS = frozenset({"from_pretrained", "from_config", "_from_config"})
_ROOTS = frozenset({"transformers", "peft"})
_AUTO = frozenset(
    {
        "AutoModelForCausalLM",
        "AutoModelForSeq2SeqLM",
        "AutoModelForVision2Seq",
        "AutoModelForImageTextToText",
        "AutoModelForSpeechSeq2Seq",
        "AutoModelWithLMHead",
        "AutoPeftModelForCausalLM",
        "AutoPeftModelForSeq2SeqLM",
    }
)
CLASSIFIER = "AutoModelForSequenceClassification"
_AUTO_SUFFIXES = ("ForSeq2SeqLM", "ForVision2Seq", "ForImageTextToText", "ForSpeechSeq2Seq", "WithLMHead", CLASSIFIER)
_SUFFIXES = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")
# No cache by default: encoders that are decoders only on request, Mpt's own default, families without keys and values.
_WITHOUT_CACHE = (
    "BertForCausalLM BertLMHeadModel BertGenerationDecoder BigBirdForCausalLM CamembertForCausalLM "
    "Data2VecTextForCausalLM ElectraForCausalLM ErnieForCausalLM MegatronBertForCausalLM RemBertForCausalLM "
    "RobertaForCausalLM RobertaPreLayerNormForCausalLM RoCBertForCausalLM RoFormerForCausalLM XLMRobertaForCausalLM "
    "XLMRobertaXLForCausalLM XmodForCausalLM QDQBertLMHeadModel MptForCausalLM OpenAIGPTLMHeadModel XLNetLMHeadModel "
    "CTRLLMHeadModel TransfoXLLMHeadModel RwkvForCausalLM MambaForCausalLM Mamba2ForCausalLM FalconMambaForCausalLM "
    "RecurrentGemmaForCausalLM xLSTMForCausalLM BltForCausalLM InklingForCausalLM GitForCausalLM"
)
# These turn the cache off themselves as soon as they are given labels.
_OFF_WITH_LABELS = (
    "Bart MBart Pegasus PegasusX LED Blenderbot BlenderbotSmall BigBirdPegasus Mvp Florence2 Kosmos2 Kosmos2_5"
)
_NOT_DECODERS = frozenset(
    [*_WITHOUT_CACHE.split(), *(f"{name}ForConditionalGeneration" for name in _OFF_WITH_LABELS.split())]
)

# Classes for which `model.config.use_cache = False` after construction changes nothing, by version of transformers.
_MULTIMODAL_4 = frozenset({"4.57"})
_MULTIMODAL_5 = frozenset({"5.24"})
_DEAD_CONFIG = {
    "Llava": frozenset({"4.45", "4.50", "4.57", "5.24"}),
    "VipLlava": _MULTIMODAL_4 | _MULTIMODAL_5,
    "PaliGemma": _MULTIMODAL_4 | _MULTIMODAL_5,
    "InternVL": _MULTIMODAL_4 | _MULTIMODAL_5,
    "Qwen2Audio": _MULTIMODAL_4 | _MULTIMODAL_5,
    "LlavaNext": _MULTIMODAL_4,
    "LlavaOnevision": _MULTIMODAL_4,
    "VideoLlava": _MULTIMODAL_4,
    "Mistral3": _MULTIMODAL_4,
    "Llama4": _MULTIMODAL_4,
    "Gemma3": _MULTIMODAL_5,
    "Mllama": _MULTIMODAL_5,
    "AyaVision": _MULTIMODAL_5,
    "Qwen2VL": _MULTIMODAL_5,
    "Qwen2_5_VL": _MULTIMODAL_5,
    "Qwen3VL": _MULTIMODAL_5,
    "Glm4v": _MULTIMODAL_5,
}
_LIVING_CONFIG = {  # and those for which it does turn the cache off
    "4.57": "Idefics3 SmolVLM Qwen2VL Qwen2_5_VL Qwen3VL T5 MT5 UMT5 LongT5 SwitchTransformers Whisper PLBart M2M100",
    "5.24": "Idefics2 Idefics3 SmolVLM LlavaNext LlavaOnevision VideoLlava Mistral3 LongT5 Whisper PLBart M2M100",
}
_DEAD_SEQ2SEQ = frozenset({"T5", "MT5", "UMT5", "SwitchTransformers"})  # on 5.24; the write works on 4.57.6 and 5.0.0


def may_build_decoder(words: Container[str]) -> bool:
    """Whether a text names a class that this module knows as a decoder: a look at the characters."""
    return any(name in words for name in (*_SUFFIXES, *_AUTO_SUFFIXES))


def model_class(name: str) -> str | None:
    """The class that a name such as `transformers.AutoModelForCausalLM.from_pretrained` builds; None: no model."""
    parts = name.split(".")
    if parts[0] not in _ROOTS:
        return None
    if parts[-1] in LOADS and len(parts) > 2:
        return parts[-2] if "Model" in parts[-2] or "For" in parts[-2] or "Decoder" in parts[-2] else None
    return parts[-1] if parts[-1].endswith(_SUFFIXES) and not parts[-1].startswith("Auto") else None


def kind_of(cls: str) -> Kind:
    if cls in _AUTO or (cls.endswith(_SUFFIXES) and cls not in _NOT_DECODERS and not cls.startswith(("TF", "Flax"))):
        return Kind.DECODER
    return Kind.OTHER


def takes_use_cache(classes: Iterable[str], *, remote_code: bool) -> bool:
    """Whether `forward(use_cache=False)` is known to work: every decoder that can be checkpointed takes it."""
    return not remote_code and all(kind_of(cls) is Kind.DECODER for cls in classes)


def living_config(cls: str, versions: Versions) -> str | None:
    """Where `use_cache` must be written on a model for which `config.use_cache` is dead; None where that works."""
    minor, family = _minor(versions), cls.removesuffix("ForConditionalGeneration")
    if family == cls:
        return None
    if minor in _DEAD_CONFIG.get(family, ()):
        return "config.get_text_config()"
    return "decoder.config" if family in _DEAD_SEQ2SEQ and minor == "5.24" else None


def config_write_works(classes: Iterable[str], versions: Versions) -> bool:
    """Whether writing `model.config.use_cache` is known to turn the cache off for all of these classes."""
    return all(_write_works(cls, versions) for cls in classes)


def _write_works(cls: str, versions: Versions) -> bool:
    if cls == "AutoModelForSeq2SeqLM":  # T5 reads it up to 5.0.0
        return versions.at_least("transformers", "5.1") is False
    if cls.endswith("ForConditionalGeneration"):
        return cls.removesuffix("ForConditionalGeneration") in _LIVING_CONFIG.get(_minor(versions), "").split()
    return cls == CLASSIFIER or (cls.endswith(("ForCausalLM", "LMHeadModel")) and cls != "FuyuForCausalLM")


def _minor(versions: Versions) -> str:
    version = versions.get("transformers")
    return f"{version.major}.{version.minor}" if version else ""
