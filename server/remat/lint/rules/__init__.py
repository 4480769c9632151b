"""Every rule, in alphabetical order. A rule that is not listed here does not exist."""

from remat.lint.rules import (
    checkpoint_skips_layers,
    checkpoint_with_kv_cache,
    checkpoint_with_reentrant_true,
    checkpoint_without_use_reentrant,
    closure_captures_loop_variable,
    keyword_to_reentrant_checkpoint,
)

RULES = (
    checkpoint_skips_layers.RULE,
    checkpoint_with_kv_cache.RULE,
    checkpoint_with_reentrant_true.RULE,
    checkpoint_without_use_reentrant.RULE,
    closure_captures_loop_variable.RULE,
    keyword_to_reentrant_checkpoint.RULE,
)
