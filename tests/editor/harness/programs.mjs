/** Small training programs with mistakes in them. */

const BLOCK = `\
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return self.linear(x).relu()


first = Block()
second = Block()
`;

/** One call without use_reentrant; the layer is seen in the file, so the repair is safe. */
export const ONE_FINDING = `${BLOCK}

def step(x):
    return checkpoint(first, x)
`;

export const TWO_FINDINGS = `${BLOCK}

def step(x):
    x = checkpoint(first, x)
    return checkpoint(second, x)
`;

/** Each of these letters takes one place in Python, two in UTF-16 and four bytes in UTF-8. */
export const AFTER_ASTRAL = `${BLOCK}

def step(x):
    clef = "𝄞𝄢𝄡"; return checkpoint(first, x)
`;

/** Of the two findings only the first has a safe repair: what \`layer\` does is not seen. */
export const SAFE_AND_UNSAFE = `${BLOCK}

def step(x, layer):
    x = checkpoint(first, x)
    return checkpoint(layer, x)
`;

export const RULE = "checkpoint-without-use-reentrant";
