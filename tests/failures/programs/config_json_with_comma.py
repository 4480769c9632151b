"""A configuration has a comma before its closing brace."""
# run: python config_json_with_comma.py
# cause: config.parse
# fix-says: trailing comma
# fix-edits: 3e-4

import json
from pathlib import Path

Path("train.json").write_text('{\n  "lr": 3e-4,\n}\n')  # broken
# fixed: Path("train.json").write_text('{\n  "lr": 3e-4\n}\n')
print(json.loads(Path("train.json").read_text())["lr"])  # fails here
