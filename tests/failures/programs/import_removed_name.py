"""transformers has no AdamW of its own any more."""
# run: python import_removed_name.py
# cause: env.import_name
# fix-says: torch.optim

# fixed: from torch.optim import AdamW
from transformers import AdamW  # broken, fails here

print(AdamW.__name__)
