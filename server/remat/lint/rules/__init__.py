"""Every rule, in alphabetical order. A rule that is not listed here does not exist."""

from remat.lint.rules import checkpoint_without_use_reentrant

RULES = (checkpoint_without_use_reentrant.RULE,)
