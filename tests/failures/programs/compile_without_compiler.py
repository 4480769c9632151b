"""The generated code needs a C++ compiler, and CXX names none."""
# run: CXX=/opt/no/such/g++ python compile_without_compiler.py
# cause: compile.backend_toolchain
# fix-says: without torch.compile
# fix-edits: torch.compile

import torch


def scale(x):
    return (x * 2).relu()


scale = torch.compile(scale)  # broken
print(scale(torch.randn(8)).shape)  # fails here
