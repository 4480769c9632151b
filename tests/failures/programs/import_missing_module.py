"""An optional kernel package is imported and is not installed."""
# run: python import_missing_module.py
# cause: env.module_missing
# says: flash_attn

import flash_attn  # fails here

print(flash_attn.__version__)
